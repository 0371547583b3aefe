"""A log, or a recorded case, as observations of one attempt: what `vigil diagnose` looks at."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from supervisor.diagnosis.examine import Examination, examine
from supervisor.diagnosis.stall import ABANDONED_S
from supervisor.diagnosis.state import Counter, Last, State, freeze, load, seal
from supervisor.diagnosis.view import AttemptContext
from supervisor.model.errors import Fault, InvalidInput
from supervisor.model.noun import from_unix
from supervisor.model.observation import Device, ExitRecord, Host, Observation, Processes, Slice, Window
from supervisor.model.signature import OwnSignature
from supervisor.model.spec import Spec

PIECE_BYTES = 1 << 20
"""A log is folded in pieces of this size: memory stays bounded."""
NOW_S = 1_000_000_000.0
"""The moment of a look whose time is not known; only differences count."""
_SPEC = Spec(name="offline", node="local", command="unknown")
_SHAPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    **dict.fromkeys(("exit", "host", "vantage", "progress"), (dict, "a mapping")),
    **dict.fromkeys(("gpus", "kernel"), (list, "a list")),
    **dict.fromkeys(("running_s", "silent_s", "columns"), ((int, float), "a number")),
}
_SEEING = frozenset({"ok", "running", None})


def diagnose_log(
    pieces: Iterable[bytes], *, columns: int | None = None, signatures: tuple[OwnSignature, ...] = ()
) -> Examination:
    """What a log alone says. `pieces` are its bytes in order; it may be larger than memory. `signatures`: a person's
    own."""
    context = AttemptContext(
        launched_at=from_unix(NOW_S), columns=columns, single_look=True, only_text=True, signatures=signatures
    )
    state: bytes | None = None
    offset = 0
    for piece in pieces:
        seen = Observation(at_unix_s=NOW_S, log=Slice(offset=offset, data=piece, end=offset + len(piece) + 1))
        state = examine(_SPEC, state, seen, from_unix(NOW_S), context=context).state
        offset += len(piece)
    last = Observation(at_unix_s=NOW_S, log=Slice(offset=offset, end=offset, closed=True))
    return examine(_SPEC, state, last, from_unix(NOW_S), context=context)


def diagnose_case(case: dict[str, Any], *, signatures: tuple[OwnSignature, ...] = ()) -> Examination:
    """What was seen at one moment of an attempt, in the form of corpus/FORMAT.md; InvalidInput where it is none.
    `signatures`: a person's own."""
    seen = case.get("seen")
    if not isinstance(seen, dict) or not isinstance(seen.get("log"), str):
        raise InvalidInput("A case needs `seen.log`, the text of the terminal.", remedy="See corpus/FORMAT.md.")
    faults = [
        Fault(place=f"seen.{name}", value=repr(seen[name])[:80], detail=f"must be {word}")
        for name, (kinds, word) in _SHAPES.items()
        if seen.get(name) is not None and not isinstance(seen[name], kinds)
    ]
    if faults:
        raise InvalidInput("The case does not have the form of corpus/FORMAT.md.", faults=faults)
    try:
        return _examine_case(seen, signatures)
    except (TypeError, ValueError, AttributeError) as error:
        detail = " ".join(str(error).split())[:200]
        raise InvalidInput(f"The case does not have the form of corpus/FORMAT.md: {detail}") from error


def _examine_case(seen: dict[str, Any], signatures: tuple[OwnSignature, ...]) -> Examination:
    silent_s, running_s = seen.get("silent_s"), seen.get("running_s")
    started = NOW_S - float(running_s if running_s is not None else 0.0)
    printed = NOW_S - float(silent_s if silent_s is not None else 0.0)
    command = seen.get("command") or ""
    screen = seen.get("origin") == "screen" and seen.get("columns")
    context = AttemptContext(
        launched_at=from_unix(started),
        command=tuple(str(word) for word in command) if isinstance(command, list) else str(command),
        columns=int(seen["columns"]) if screen else None,
        single_look=True,
        only_text=set(seen) <= {"log", "origin", "columns", "command"},
        signatures=signatures,
    )
    state: bytes | None = None
    offset = 0
    for piece in _pieces(seen["log"].encode("utf-8", "surrogatepass")):
        part = Observation(at_unix_s=printed, log=Slice(offset=offset, data=piece, end=offset + len(piece) + 1))
        state = examine(_SPEC, state, part, _moment(printed), context=context).state
        offset += len(piece)
    state = _with_progress(load(state)[0], seen, started, printed)
    return examine(_SPEC, state, _observation(seen, offset), _moment(NOW_S), context=context)


def _observation(seen: dict[str, Any], offset: int) -> Observation:
    status = seen.get("exit")
    session = (status or {}).get("session")
    ended = status is not None
    vantage = {name: text for name, text in (seen.get("vantage") or {}).items() if text not in _SEEING}
    blind_link = "ssh" in vantage
    host = seen.get("host")
    processes = None
    if not blind_link:
        states = {str(key): int(value) for key, value in ((host or {}).get("states") or {}).items()}
        processes = Processes(alive=0 if ended else 1, wrapper_alive=not ended, states=states)
    devices = seen.get("gpus")
    return Observation(
        at_unix_s=NOW_S,
        started=True,
        log=Slice(offset=offset, end=offset, closed=ended),
        session="lost" if session == "lost" else "dead" if ended else "alive",
        exit=None if status is None or session == "lost" else _exit(status),
        processes=processes,
        devices=tuple(_device(row) for row in devices) if devices is not None else None,
        host=Host.model_validate({name: value for name, value in host.items() if name in Host.model_fields})
        if host
        else None,
        blind={str(name): str(text) for name, text in vantage.items()},
        kernel=tuple(str(line) for line in seen.get("kernel") or ()),
    )


def _exit(status: dict[str, Any]) -> ExitRecord:
    kills = status.get("oom_kills")
    return ExitRecord(
        code=status.get("code"),
        signal=status.get("signal"),
        at_unix_s=NOW_S,
        oom_kills_before=None if kills is None else 0,
        oom_kills_after=kills,
    )


def _device(row: dict[str, Any]) -> Device:
    used = Window(last=row.get("used_bytes"), min=row.get("used_min_bytes"), max=row.get("used_max_bytes"))
    return Device(
        uuid=f"gpu-{row.get('index', 0)}",
        index=int(row.get("index", 0)),
        total_bytes=row.get("total_bytes"),
        used_bytes=used,
        own_bytes=row.get("own_bytes"),
        util_percent=Window(last=row.get("util_percent")),
        power_w=Window(last=row.get("power_w")),
        power_limit_w=row.get("power_limit_w"),
    )


def _with_progress(state: State, seen: dict[str, Any], started: float, printed: float) -> bytes:
    """What the case tells of progress beyond its excerpt of the log."""
    told = seen.get("progress") or {}
    steps, period = told.get("steps_seen"), told.get("step_period_s")
    state.first_seen_at = started
    counter = next((one for kind, one in state.counters.items() if ":" not in kind and one.first is not None), None)
    if steps and told.get("last_step") is not None:
        if counter is None:
            counter = state.counters.setdefault("step", Counter())
            counter.value = float(told["last_step"])
        counter.first = max(
            0.0, min(counter.first if counter.first is not None else counter.value, counter.value - steps + 1)
        )
        counter.events = max(counter.events, int(steps))
        state.progress_events = max(state.progress_events, 1)
        state.last_progress_at = state.last_progress_at or printed
        state.phase = "training" if state.phase == "loading" else state.phase
    if steps and period:
        if not state.series.seconds:
            state.series.seconds = [float(period)]
        done_by = started + 1.5 * float(steps) * float(period) + ABANDONED_S / 2
        if any(hit.role == "root" and hit.traceback for hit in state.open) and state.last_progress_at is not None:
            # Other lines still come, but the steps ended long ago: the excerpt has no clock of its own.
            state.last_progress_at = min(state.last_progress_at, done_by)
    return seal(freeze(state), Last())


def _pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]


def _moment(at: float) -> datetime:
    return from_unix(at)
