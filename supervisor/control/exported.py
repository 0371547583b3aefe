"""A stored run as a recording: what the store keeps is put together to the observations that it came from. Pure.

The store keeps the log's bytes, the curves with how far the log was read at each check, checkpoints, exits, verdicts
and decisions. What else a check saw is not kept: `NOT_RECORDED` says it in every recording.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from supervisor.control.recording import Entry, observation_data
from supervisor.model.event import Event, EventType
from supervisor.model.observation import Checkpoint, Device, ExitRecord, Memory, Observation, Processes, Slice, Window
from supervisor.model.run import Attempt, Run

NOT_RECORDED = (
    "states of processes, processor and disk of the host",
    "lines of the kernel's log",
    "what could not be read (blind sensors)",
    "keys pressed in the terminal",
    "the metrics file, except step, loss and tokens per second at each check",
)
"""What a check saw and the store does not keep."""
LOG_END = "log_end_bytes"
"""The curve that tells how far the log was read at each check."""


@dataclass(frozen=True, slots=True)
class Log:
    """An attempt's stored log."""

    data: bytes
    gaps: tuple[tuple[int, int], ...] = ()
    """Offset and size of what is lost. `data` does not hold it."""

    @property
    def end(self) -> int:
        """Of the byte stream."""
        return len(self.data) + sum(size for _, size in self.gaps)

    def slice(self, start: int, end: int) -> Slice:
        """The stream's bytes from `start` to `end`; what is lost between them is skipped."""
        for offset, size in self.gaps:
            if start <= offset < end:
                return Slice(offset=offset + size, data=self._bytes(offset + size, end), end=end)
        return Slice(offset=start, data=self._bytes(start, end), end=end)

    def _bytes(self, start: int, end: int) -> bytes:
        lost = sum(size for offset, size in self.gaps if offset < start)
        return self.data[max(0, start - lost) : max(0, end - lost)]


@dataclass(slots=True)
class Curves:
    """The run's curves on their common axis."""

    times: Sequence[float]
    rows: Sequence[dict[str, Any]]
    totals: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """Index and size of each device."""

    def between(self, start: float, end: float) -> range:
        """Places on the axis after `start`, up to `end`."""
        return range(bisect_right(self.times, start), bisect_right(self.times, end))

    def value(self, name: str, place: int) -> float | None:
        """The last value of a curve without labels at a place."""
        row = next((row for row in self.rows if row["name"] == name and not row["labels"]), None)
        return None if row is None else row["last"][place]

    def devices(self, place: int) -> tuple[Device, ...] | None:
        """The devices at a place; None where none was seen."""
        found: dict[str, dict[str, Any]] = {}
        fields = {"gpu_memory_used_bytes": "used_bytes", "gpu_power_w": "power_w", "gpu_util_percent": "util_percent"}
        for row in self.rows:
            if row["name"] in fields and row["last"][place] is not None:
                window = Window(last=row["last"][place], min=row["min"][place], max=row["max"][place])
                found.setdefault(row["labels"]["gpu"], {})[fields[row["name"]]] = window
        devices: list[Device] = []
        for number, (uuid, windows) in enumerate(sorted(found.items())):
            index, total_bytes = self.totals.get(uuid, (number, None))
            devices.append(Device(uuid=uuid, index=index, total_bytes=total_bytes, **windows))
        return tuple(devices) or None


def entries(
    run: Run, spec: dict[str, Any], logs: dict[int, Log], curves: Curves, events: Sequence[Event]
) -> Iterator[Entry]:
    """The recording, in the order of time."""
    head = {
        "spec": spec,
        "run": {"id": run.id, "name": run.name, "node": run.node},
        "not_recorded": list(NOT_RECORDED),
    }
    yield Entry(run.created_at.timestamp(), "spec", head)
    rows: list[tuple[float, int, Entry]] = []
    for attempt in run.attempts:
        if attempt.started_at is None:
            continue
        at = attempt.started_at.timestamp()
        begun = {"type": "attempt", "attempt": attempt.model_dump(mode="json", by_alias=True)}
        rows.append((at, 0, Entry(at, "event", begun)))
        rows += [(one.t, 1, one) for one in _observed(attempt, spec, logs.get(attempt.no, Log(b"")), curves, events)]
    rows += [(one.t, 2, one) for event in events if (one := _told(event)) is not None]
    yield from (entry for _, _, entry in sorted(rows, key=lambda row: row[:2]))


def _observed(
    attempt: Attempt, spec: dict[str, Any], log: Log, curves: Curves, events: Sequence[Event]
) -> Iterator[Entry]:
    assert attempt.started_at is not None
    start = attempt.started_at.timestamp()
    ended = attempt.ended_at.timestamp() if attempt.ended_at else None
    checkpoints = [
        (event.at.timestamp(), Checkpoint(step=event.data["step"], path=event.data["path"], complete=True))
        for event in events
        if event.type == EventType.ATTEMPT_CHECKPOINT and event.attempt == attempt.no
    ]
    offset = told = 0
    looks_for_checkpoints = "checkpoint" in spec or "preset" in spec
    for place in curves.between(start, ended if ended is not None else 1e18):
        at = curves.times[place]
        if ended is not None and at >= ended:
            break
        log_end = curves.value(LOG_END, place)
        until = max(offset, min(log.end, int(log_end))) if log_end is not None else offset
        piece = log.slice(offset, until)
        offset = until
        added = _metrics(curves, place, at) if spec.get("metrics") else b""
        rss_bytes = _whole(curves.value("process_rss_bytes", place))
        seen_by_now = tuple(one for seen_at, one in checkpoints if seen_at <= at + 0.5)
        seen = Observation(
            at_unix_s=at,
            started=True,
            session="alive",
            log=piece,
            metrics=Slice(offset=told, data=added, end=told + len(added)) if spec.get("metrics") else None,
            processes=Processes(alive=1, wrapper_alive=True, rss_bytes=rss_bytes),
            memory=Memory(
                used_bytes=_whole(curves.value("memory_used_bytes", place)),
                limit_bytes=_whole(curves.value("memory_limit_bytes", place)),
            ),
            devices=curves.devices(place),
            checkpoints=seen_by_now if looks_for_checkpoints else None,
        )
        told += len(added)
        yield Entry(at, "observation", observation_data(attempt.no, seen))
    if ended is None:
        return
    last = Observation(
        at_unix_s=ended,
        started=True,
        session="dead",
        log=log.slice(offset, log.end).model_copy(update={"closed": True}),
        exit=_exit(attempt, ended),
        processes=Processes(alive=0, wrapper_alive=False),
        checkpoints=tuple(one for _, one in checkpoints) if looks_for_checkpoints else None,
    )
    yield Entry(ended, "observation", observation_data(attempt.no, last))


def _metrics(curves: Curves, place: int, at: float) -> bytes:
    """The metrics file's last line at a check, made of the curves."""
    step = curves.value("step", place)
    if step is None:
        return b""
    row = {
        "t": at,
        "event": "step",
        "step": int(step),
        "loss": curves.value("loss", place),
        "tokens_per_s": curves.value("tokens_per_s", place),
    }
    return json.dumps({name: value for name, value in row.items() if value is not None}).encode() + b"\n"


def _exit(attempt: Attempt, ended: float) -> ExitRecord | None:
    if attempt.exit is None:
        return None
    kills = attempt.exit.oom_kills
    return ExitRecord(
        code=attempt.exit.code,
        signal=attempt.exit.signal,
        at_unix_s=ended,
        oom_kills_before=None if kills is None else 0,
        oom_kills_after=kills,
    )


def _told(event: Event) -> Entry | None:
    at = event.at.timestamp()
    if event.type == EventType.VERDICT_CHANGED:
        return Entry(at, "verdict", {"attempt": event.attempt, **event.data})
    if event.type == EventType.DECISION_TAKEN:
        return Entry(at, "decision", {"attempt": event.attempt, **event.data})
    return Entry(at, "event", {"type": str(event.type), "attempt": event.attempt, "data": event.data})


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
