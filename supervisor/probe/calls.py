"""The ops of the probe: from a request's arguments to its result. Waiting is serve's."""

import threading
import time
from collections.abc import Callable
from typing import Any

from supervisor.probe import (
    adopted,
    checkpoints,
    code,
    facts,
    fence,
    fitness,
    folder,
    foreign,
    forgetting,
    launch,
    observe,
    processes,
    reaping,
    script,
    session,
    stacks,
)
from supervisor.probe import devices as gpus
from supervisor.probe.host import Host
from supervisor.probe.stop import Stopping
from supervisor.probe.wire import CallError
from supervisor.probe.worker import Failed, Silent

Result = tuple[dict[str, Any], bytes]
MAX_ATTEMPTS = 1000
"""Known attempts beyond this are forgotten by the probe (not on disk) and read again when asked for."""


class Calls:
    """All that the probe can be asked. Safe to call from several threads."""

    def __init__(self) -> None:
        """Starts the device sampler."""
        self._table = processes.Table()
        self._host = Host()
        self._devices = gpus.Devices()
        self._attempts: dict[tuple[str, int], observe.Attempt] = {}
        self._stops: dict[tuple[str, int], threading.Lock] = {}
        self._lock = threading.Lock()
        self._ops: dict[str, Callable[[dict[str, Any], bytes], Result]] = {
            "hello": self._hello,
            "claim": self._claim,
            "launch": self._launch,
            "observe": self._observe,
            "stop": self._stop,
            "read": self._read,
            "screen": self._screen,
            "session": self._session,
            "memory": self._memory,
            "stacks": self._stacks,
            "forget": self._forget,
            "code": self._code,
            "lying": self._lying,
            "servers": self._servers,
            "reap": self._reap,
            "fitness": self._fitness,
            "clear": self._clear,
            "adoptable": self._adoptable,
            "adopt": self._adopt,
        }

    def attempt(self, args: dict[str, Any]) -> observe.Attempt:
        """The attempt that `args` name."""
        key = (args["run"], args["attempt"])
        with self._lock:
            known = self._attempts.get(key)
        if known is not None and known.known:
            return known
        fresh = observe.Attempt(*key)
        with self._lock:
            if len(self._attempts) >= MAX_ATTEMPTS:
                self._attempts.clear()
            self._attempts[key] = fresh
        return fresh

    def answer(self, op: str, args: dict[str, Any], raw: bytes) -> Result:
        """The result of `op`. CallError where the probe says no."""
        call = self._ops.get(op)
        if call is None:
            raise CallError("invalid_input", f"op {op!r} is not known to this probe", "update Vigil")
        try:
            return call(args, raw)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CallError("invalid_input", f"{op}: {type(error).__name__}: {error}", "update Vigil") from error
        except Silent as error:
            raise CallError("call_refused", f"{op}: {error}", "ask again in a moment") from None
        except Failed as error:
            raise CallError("not_found", f"{op}: {error}") from None
        except OSError as error:
            raise CallError("call_refused", f"{op}: {error}", "look at the node's disk and permissions") from None

    def rest(self) -> None:
        """Let go of what nobody has asked for lately."""
        session.worker.rest(60.0)

    def close(self) -> None:
        """End the workers."""
        session.worker.close()
        self._devices.close()

    def _hello(self, args: dict[str, Any], raw: bytes) -> Result:
        return facts.hello(self._devices), b""

    def _claim(self, args: dict[str, Any], raw: bytes) -> Result:
        return {"token": fence.claim(args["run"], args["token"])}, b""

    def _launch(self, args: dict[str, Any], raw: bytes) -> Result:
        reply = launch.launch(args, raw, self._table)
        if reply["state"] == "started":
            self.attempt(args).seek_versions(self._table)
        return reply, b""

    def _adoptable(self, args: dict[str, Any], raw: bytes) -> Result:
        found = foreign.look({**args, "gpus_known": bool(self._devices.names()[0])}, self._table)
        adopted.must_be_free(found)
        return found, b""

    def _adopt(self, args: dict[str, Any], raw: bytes) -> Result:
        with self._lock:
            self._attempts.pop((args["run"], args["attempt"]), None)
        return adopted.adopt(args), b""

    def _observe(self, args: dict[str, Any], raw: bytes) -> Result:
        return observe.snapshot(self.attempt(args), args, self._table, self._host, self._devices)

    def _stop(self, args: dict[str, Any], raw: bytes) -> Result:
        attempt = self.attempt(args)
        if attempt.adopted:
            raise CallError(
                "call_refused", "Vigil did not start this attempt and does not end it", "end it by hand, in its session"
            )
        with self._lock:
            turn = self._stops.setdefault((attempt.run, attempt.number), threading.Lock())
        # A second stop waits for the first, then finds its announcements and its work done.
        with turn:
            return Stopping(attempt, args, self._table).run(), b""

    def _read(self, args: dict[str, Any], raw: bytes) -> Result:
        return observe.read(args["path"], args["offset"], args["size"], args.get("base"))

    def _screen(self, args: dict[str, Any], raw: bytes) -> Result:
        attempt = self._known(args)
        if attempt.adopted:
            return {**adopted.screen(attempt.adopted), "at_unix_s": time.time()}, b""
        try:
            shown = session.screen(attempt.run, attempt.number)
        except Failed:
            # Its session is gone: a new view is opened for whoever looks, of what still lives.
            if not self._lives(attempt):
                return {**reaping.last_words(attempt.run, attempt.number), "at_unix_s": time.time()}, b""
            self._session(args, raw)
            shown = session.screen(attempt.run, attempt.number)
        return {**shown, "at_unix_s": time.time()}, b""

    def _session(self, args: dict[str, Any], raw: bytes) -> Result:
        attempt = self._known(args)
        if attempt.adopted:
            return {"argv": adopted.attach_argv(attempt.adopted), "opened": False}, b""
        size = attempt.launch["columns"], attempt.launch["rows"]
        opened = session.ensure(attempt.run, attempt.number, *size, living=self._lives(attempt))
        if args.get("label"):
            session.label(attempt.run, attempt.number, str(args["label"]))
        return {"argv": session.attach_argv(attempt.run, attempt.number), "opened": opened}, b""

    def _memory(self, args: dict[str, Any], raw: bytes) -> Result:
        holders = gpus.holders(self._devices.pid)
        rows = []
        for device in self._devices.window(time.monotonic() - 0.5)[0]:
            used, total = device["used_bytes"]["last"], device["total_bytes"]
            rows.append(
                {
                    "uuid": device["uuid"],
                    "index": device["index"],
                    "used_bytes": used,
                    "total_bytes": total,
                    "free_bytes": total - used if used is not None and total is not None else None,
                    "holders": [one for one in holders if f"/dev/nvidia{device['index']}" in one["devices"]],
                }
            )
        return {"devices": rows}, b""

    def _stacks(self, args: dict[str, Any], raw: bytes) -> Result:
        attempt = self._known(args)
        self._table.refresh(time.monotonic(), full=True)
        found = [stat for stat in attempt.members.look(self._table) if stat.lives]
        return stacks.stacks(found, args.get("signal")), b""

    def _code(self, args: dict[str, Any], raw: bytes) -> Result:
        return code.code_of(script.workdir(args), args.get("command") or "", args.get("since")), b""

    def _fitness(self, args: dict[str, Any], raw: bytes) -> Result:
        return fitness.fitness(args.get("paths") or {}), b""

    def _clear(self, args: dict[str, Any], raw: bytes) -> Result:
        return forgetting.clear(args["runs"], self._table), b""

    def _lying(self, args: dict[str, Any], raw: bytes) -> Result:
        return checkpoints.lying(args["workdir"], args["checkpoint"], args["asked"]), b""

    def _forget(self, args: dict[str, Any], raw: bytes) -> Result:
        result = forgetting.forget(args["run"], self._table)
        with self._lock:
            self._attempts = {key: known for key, known in self._attempts.items() if key[0] != args["run"]}
        return result, b""

    def _servers(self, args: dict[str, Any], raw: bytes) -> Result:
        return reaping.servers(), b""

    def _reap(self, args: dict[str, Any], raw: bytes) -> Result:
        return reaping.reap(args["run"], list(args["attempts"]), self._table), b""

    def _lives(self, attempt: observe.Attempt) -> bool:
        """Its wrapper, which serves the viewers, lives."""
        wrapper = attempt.members.wrapper()
        return wrapper is not None and processes.lives(wrapper)

    def _known(self, args: dict[str, Any]) -> observe.Attempt:
        attempt = self.attempt(args)
        if not attempt.known:
            place = folder.attempt_folder(attempt.run, attempt.number)
            raise CallError("not_found", f"attempt {attempt.number} of run {attempt.run}: no {place}")
        return attempt
