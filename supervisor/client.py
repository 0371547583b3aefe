"""Vigil from Python: `with Vigil() as vigil: vigil.run("vit-l").state`.

Finds the daemon by VIGIL_SERVER and the token by VIGIL_TOKEN, else both in the data folder. Raises the same errors as
the daemon: NotFound, Conflict, InvalidInput, …; DaemonUnreachable when nobody answers, TimedOut when a wait is over.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import httpx2

from supervisor.client_nodes import NodeCalls, given, quoted
from supervisor.model import errors
from supervisor.model.adoption import SessionRef
from supervisor.model.begin import UNSAID, Begin
from supervisor.model.comparison import Comparison
from supervisor.model.edit import Edited, SpecText
from supervisor.model.errors import Fault, Unauthorized, Unavailable, VigilError
from supervisor.model.event import Event
from supervisor.model.run import Adopted, Attachment, Call, Run, RunState
from supervisor.model.settings import ADDRESS_FILE, DEFAULT_LISTEN, TOKEN_FILE, default_data_folder
from supervisor.model.spec import Action, Scalar
from supervisor.model.why import Why

_TIMEOUT_S = 30.0
_LOG_PIECE_BYTES = 1024 * 1024


class DaemonUnreachable(Unavailable):
    """The daemon does not answer."""

    code = "daemon_unreachable"
    exit_code = 6


class TimedOut(VigilError):  # noqa: N818
    """The time to wait is over."""

    code = "timed_out"
    status = 504
    exit_code = 7
    retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """Bytes of an attempt's log."""

    attempt: int | None
    """None: the run has no attempt yet."""
    data: bytes
    next_offset: int
    """`since` for the next call."""
    gap_bytes: int
    """So many bytes before `data` are known to be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What a dry run answers."""

    lines: tuple[str, ...]
    """For people."""
    facts: Any
    """For programs."""


class Vigil(NodeCalls):
    """A client of one daemon. Every call may raise DaemonUnreachable, Unauthorized or Forbidden."""

    def __init__(self, server: str | None = None, token: str | None = None, *, data_folder: Path | None = None) -> None:
        """What is not given is found: the environment first, then `data_folder` (the daemon's default folder)."""
        named = os.environ.get("VIGIL_DATA_FOLDER")
        folder = data_folder or (Path(named) if named else default_data_folder(os.environ))
        self._folder = folder
        named_server = server or os.environ.get("VIGIL_SERVER") or _address_in(folder)
        named_token = token or os.environ.get("VIGIL_TOKEN")
        # The folder's token is for the folder's daemon only, not for whoever listens on the usual port.
        self._lost = named_server is None and named_token is None
        self.server = (named_server or f"http://{DEFAULT_LISTEN}").rstrip("/")
        self.token = named_token or _token_in(folder)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        # No proxy from the environment: the daemon is nearly always near, and a token must not go astray.
        self._http = httpx2.Client(base_url=self.server, headers=headers, timeout=_TIMEOUT_S, trust_env=False)

    def __enter__(self) -> Self:
        """Closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes."""
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()

    # --- runs -----------------------------------------------------------------------------------------------------

    def create_run(self, spec: Mapping[str, Any], *, idempotency_key: str | None = None, begin: Begin = UNSAID) -> Run:
        """A new run; InvalidInput, NotFound (its node), Conflict (its name)."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return _run_of(self._json("POST", "/api/v1/runs", json=dict(spec), headers=headers, params=_begin(begin)))

    def preview(self, spec: Mapping[str, Any], *, begin: Begin = UNSAID) -> Consent:
        """What creating it would mean; nothing is created."""
        answer = self._json("POST", "/api/v1/runs", json=dict(spec), params={"dry_run": "true", **_begin(begin)})
        return Consent(lines=tuple(answer["lines"]), facts=answer["consent"])

    def run(self, key: str) -> Run:
        """By id or name; NotFound."""
        return _run_of(self._json("GET", _path(key)))

    def runs(self, *, state: RunState | None = None, node: str | None = None, q: str | None = None) -> Iterator[Run]:
        """All runs, the newest first; pages are fetched as they are needed."""
        params = {"limit": "100", "state": state, "node": node, "q": q}
        cursor: str | None = None
        while True:
            page = self._json("GET", "/api/v1/runs", params=given(params | {"cursor": cursor}))
            yield from (_run_of(item) for item in page["items"])
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def start(self, key: str, *, why: str | None = None, anyway: bool = False) -> Run:
        """Lets a held, stopped or failed run go on."""
        return self._call(key, "start", {"why": why, "anyway": anyway})

    def stop(self, key: str, *, why: str | None = None) -> Run:
        """Ends it politely."""
        return self._call(key, "stop", {"why": why})

    def restart(
        self,
        key: str,
        *,
        set: Mapping[str, Scalar] | None = None,  # noqa: A002 - the API's own word
        why: str | None = None,
        at: Literal["now", "checkpoint"] = "now",
        anyway: bool = False,
    ) -> Run:
        """The next attempt, with changes by hand."""
        return self._call(key, "restart", {"set": dict(set or {}), "why": why, "at": at, "anyway": anyway})

    def hold(self, key: str, *, why: str | None = None, until: str | None = None) -> Run:
        """Vigil only watches it. `until`: RFC 3339."""
        return self._call(key, "hold", {"why": why, "until": until})

    def release(self, key: str, *, why: str | None = None) -> Run:
        """Takes the hold back."""
        return self._call(key, "release", {"why": why})

    def promote(self, key: str, cause: str, to: Action) -> Run:
        """Another policy for one cause."""
        return _run_of(self._json("POST", _path(key, ":promote"), json={"cause": cause, "to": to}))

    def spec(self, key: str) -> SpecText:
        """The spec as it was given, also as YAML to be edited."""
        return SpecText.model_validate(self._json("GET", _path(key, "/spec")), extra="ignore")

    def edit(
        self,
        key: str,
        spec: Mapping[str, Any],
        *,
        tag: str | None = None,
        why: str | None = None,
        dry_run: bool = False,
    ) -> Edited:
        """Another spec for the run; Conflict where `tag` is not that of the present one."""
        headers = {"If-Match": f'"{tag}"'} if tag else {}
        params = given({"why": why, "dry_run": "true" if dry_run else None})
        answer = self._json("PUT", _path(key, "/spec"), json=dict(spec), params=params, headers=headers)
        return Edited.model_validate(answer, extra="ignore")

    def why(self, key: str) -> Why:
        """What Vigil saw and concluded, what it will do and when, and how to keep it from that."""
        return Why.model_validate(self._json("GET", _path(key, "/why")), extra="ignore")

    def compare(self, key: str, attempts: str | None = None) -> Comparison:
        """Attempts side by side; `attempts` such as `2..5` or `1,3`, default: the last five."""
        params = given({"attempts": attempts})
        return Comparison.model_validate(self._json("GET", _path(key, "/compare"), params=params), extra="ignore")

    def adopt(self, node: str, session: SessionRef, *, dry_run: bool = False) -> Adopted:
        """Watches a tmux session that a person started; NotFound, Conflict, CallRefused (adopted already)."""
        params = {"dry_run": "true"} if dry_run else {}
        body = session.model_dump(mode="json", exclude_none=True)
        path = f"/api/v1/nodes/{quoted(node)}:adopt"
        return Adopted.model_validate(self._json("POST", path, json=body, params=params, timeout=60.0), extra="ignore")

    def accept(self, key: str, spec: Mapping[str, Any]) -> Run:
        """Makes a spec an adopted run's own; InvalidInput, Conflict."""
        return _run_of(self._json("POST", _path(key, ":accept"), json=dict(spec), timeout=60.0))

    def delete(self, key: str) -> Run:
        """Forgets a run that is not alive."""
        return _run_of(self._json("DELETE", _path(key)))

    # --- what a run left behind -----------------------------------------------------------------------------------

    def log(self, key: str, *, attempt: int | None = None, since: int = 0, limit: int = _LOG_PIECE_BYTES) -> LogPiece:
        """The next bytes of an attempt's log (default: the newest attempt)."""
        params = given({"attempt": attempt, "since": since, "limit": limit})
        answer = self._send("GET", _path(key, "/log"), params=params)
        no = answer.headers.get("x-attempt")
        return LogPiece(
            attempt=int(no) if no else None,
            data=answer.content,
            next_offset=int(answer.headers["x-next-offset"]),
            gap_bytes=int(answer.headers.get("x-gap-bytes", 0)),
        )

    def screen(self, key: str) -> dict[str, Any]:
        """`{"columns", "rows", "at", "ansi"}` of the run's terminal."""
        return dict(self._json("GET", _path(key, "/screen")))

    def events(self, key: str | None = None, *, after: int = 0, wait_s: float = 0, limit: int = 500) -> list[Event]:
        """Events of one run or of all, oldest first; waits up to `wait_s` (60 at most) for the first."""
        path = _path(key, "/events") if key else "/api/v1/events"
        params = {"after": after, "wait_s": wait_s, "limit": limit}
        answer = self._json("GET", path, params=params, timeout=_TIMEOUT_S + wait_s)
        return [Event.model_validate(item, extra="ignore") for item in answer["items"]]

    def series(self, key: str, *, names: str | None = None, step_s: float | None = None) -> dict[str, Any]:
        """`{"t", "series"}` of the run."""
        return dict(self._json("GET", _path(key, "/series"), params=given({"names": names, "step_s": step_s})))

    def attach(
        self, key: str, *, write: bool = False, attempt: int | None = None, term: str | None = None
    ) -> Attachment:
        """The command that shows an attempt's terminal (default: the newest's) on the daemon's host."""
        body = given({"write": write, "attempt": attempt, "term": term})
        return Attachment.model_validate(self._json("POST", _path(key, ":attach"), json=body), extra="ignore")

    def wait(
        self, key: str, until: Callable[[Run], bool], *, timeout_s: float | None = None, every_s: float = 1.0
    ) -> Run:
        """The run as soon as `until` holds; TimedOut after `timeout_s`. A daemon that is away is waited for."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            try:
                run = self.run(key)
                if until(run):
                    return run
            except DaemonUnreachable:
                if deadline is None:
                    raise
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut(f"{key} was not there after {timeout_s:g} s.")
            time.sleep(every_s if deadline is None else max(0.01, min(every_s, deadline - time.monotonic())))

    def ledger(self) -> list[dict[str, Any]]:
        """Points that were proven bad, the newest first."""
        return list(self._json("GET", "/api/v1/ledger")["items"])

    def forget_proof(self, number: int) -> dict[str, Any]:
        """Takes one out; NotFound."""
        return dict(self._json("DELETE", f"/api/v1/ledger/{number}"))

    # --- secrets --------------------------------------------------------------------------------------------------

    def secrets(self) -> list[dict[str, Any]]:
        """All secrets: `name`, `set_at`, `set_by`, `runs`; never a value."""
        return list(self._json("GET", "/api/v1/secrets")["items"])

    def set_secret(self, name: str, value: str) -> dict[str, Any]:
        """Sets one, new or not."""
        return dict(self._json("PUT", f"/api/v1/secrets/{quoted(name)}", json={"value": value}))

    def remove_secret(self, name: str) -> dict[str, Any]:
        """Forgets one; what was known of it. NotFound."""
        return dict(self._json("DELETE", f"/api/v1/secrets/{quoted(name)}"))

    # --- inside ---------------------------------------------------------------------------------------------------

    def _call(self, key: str, call: Call, body: Mapping[str, Any]) -> Run:
        return _run_of(self._json("POST", _path(key, f":{call}"), json=given(body)))

    def _json(self, method: str, path: str, **how: Any) -> Any:
        answer = self._send(method, path, **how)
        try:
            return answer.json()
        except json.JSONDecodeError as error:
            raise DaemonUnreachable(f"What answers at {self.server} is not Vigil.") from error

    def _send(self, method: str, path: str, **how: Any) -> httpx2.Response:
        if self._lost:
            raise DaemonUnreachable(
                f"No running daemon was found in {self._folder}.",
                remedy="Start one: vigil serve. For another set VIGIL_DATA_FOLDER, or VIGIL_SERVER and VIGIL_TOKEN.",
            )
        if not self.token:
            raise Unauthorized(
                f"No token for {self.server} was found.",
                remedy=f"Set VIGIL_TOKEN, or VIGIL_DATA_FOLDER to the daemon's data folder (looked in {self._folder}).",
            )
        try:
            answer = self._http.request(method, path, **how)
        except (httpx2.TransportError, httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise DaemonUnreachable(
                f"No daemon answers at {self.server}: {error or type(error).__name__}.",
                remedy="Start one with `vigil serve`, or set VIGIL_SERVER.",
            ) from error
        if answer.is_success:
            return answer
        raise _error_of(answer, self.server)


def error_kinds() -> dict[str, type[VigilError]]:
    """Every error class by its code: the model's, and those of whatever else this program has imported."""
    kinds: dict[str, type[VigilError]] = {}
    waiting: list[type[VigilError]] = [errors.VigilError]
    while waiting:
        kind = waiting.pop()
        kinds.setdefault(kind.code, kind)
        waiting.extend(kind.__subclasses__())
    return kinds


def _error_of(answer: httpx2.Response, server: str) -> VigilError:
    try:
        problem = answer.json()
        code, detail = problem["code"], problem["detail"]
    except (json.JSONDecodeError, KeyError, TypeError):
        return DaemonUnreachable(f"What answers at {server} is not Vigil: status {answer.status_code}.")
    faults = [
        Fault(**{key: str(value) for key, value in fault.items() if key in Fault.__annotations__})  # type: ignore[typeddict-item]
        for fault in problem.get("errors", [])
    ]
    kind = error_kinds().get(code) or _by_status(answer.status_code)
    return kind(detail, remedy=problem.get("remedy", ""), faults=faults)


def _by_status(status: int) -> type[VigilError]:
    """The nearest class for a code that this version does not know."""
    known: dict[int, type[VigilError]] = {
        401: errors.Unauthorized,
        403: errors.Forbidden,
        404: errors.NotFound,
        409: errors.Conflict,
        413: errors.TooLarge,
        503: errors.Unavailable,
    }
    if status in known:
        return known[status]
    return errors.InvalidInput if status in (400, 415, 422) else VigilError


def _run_of(data: Any) -> Run:
    # A newer daemon may tell more than this version knows.
    return Run.model_validate(data, extra="ignore")


def _path(key: str, rest: str = "") -> str:
    return f"/api/v1/runs/{quoted(key)}{rest}"


def _begin(begin: Begin) -> dict[str, str]:
    flags = {"fresh": begin.fresh, "anyway": begin.anyway}
    chosen = {name: "true" for name, wanted in flags.items() if wanted}
    return chosen if begin.checkpoint is None else {"from": begin.checkpoint, **chosen}


def _address_in(folder: Path) -> str | None:
    """Where the daemon of this folder listens; None where none runs, or the folder is not ours to read."""
    try:
        return (folder / ADDRESS_FILE).read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _token_in(folder: Path) -> str | None:
    try:
        return (folder / TOKEN_FILE).read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
