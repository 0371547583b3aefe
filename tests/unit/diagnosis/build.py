# ruff: noqa: E501 - messages stand here as they are printed
"""Observations and specs for the tests of the diagnosis, with the time as a value."""

from datetime import datetime
from typing import Any

from supervisor.diagnosis.examine import AttemptContext, Examination, examine
from supervisor.model.noun import from_unix
from supervisor.model.observation import Device, ExitRecord, Gap, Host, KeySeen, Observation, Processes, Slice, Window
from supervisor.model.spec import Spec

START_S = 1_750_000_000.0
GIB = 1 << 30
ALIVE = Processes(alive=2, wrapper_alive=True, states={"R": 1, "S": 9})
GONE = Processes(alive=0, wrapper_alive=False)


def spec(**fields: Any) -> Spec:
    return Spec(name="run", node="local", command="python train.py", **fields)


def context(**fields: Any) -> AttemptContext:
    return AttemptContext(**({"launched_at": from_unix(START_S), "command": "python train.py"} | fields))


def moment(after_s: float) -> datetime:
    return from_unix(START_S + after_s)


def ended(code: int | None, signal: str | None = None, **fields: Any) -> ExitRecord:
    return ExitRecord(code=code, signal=signal, at_unix_s=START_S + 100, **fields)


def ctrl_c(after_s: float = 99.0, *, as_signal: bool = True, byte: int = 3) -> KeySeen:
    return KeySeen(byte=byte, at_unix_s=START_S + after_s, offset=10, as_signal=as_signal)


def look(
    text: str | bytes = "",
    *,
    offset: int = 0,
    after_s: float = 100.0,
    record: ExitRecord | None = None,
    metrics: bytes | None = None,
    gaps: tuple[Gap, ...] = (),
    **fields: Any,
) -> Observation:
    """One observation; with an exit the log is closed and nothing lives."""
    data = text.encode() if isinstance(text, str) else text
    end = max([offset + len(data), *(gap.offset + gap.size_bytes for gap in gaps)])
    defaults: dict[str, Any] = {
        "started": True,
        "processes": GONE if record else ALIVE,
        "session": "dead" if record else "alive",
    }
    return Observation(
        at_unix_s=START_S + after_s,
        log=Slice(offset=offset, data=data, end=end, closed=record is not None, gaps=gaps),
        metrics=None if metrics is None else Slice(offset=0, data=metrics, end=len(metrics), closed=record is not None),
        exit=record,
        **(defaults | fields),
    )


def examined(
    *looks: Observation, of: Spec | None = None, within: AttemptContext | None = None, state: bytes | None = None
) -> Examination:
    """The examination after the last of the observations."""
    examination: Examination | None = None
    for seen in looks:
        now = from_unix(seen.at_unix_s)
        examination = examine(of or spec(), state, seen, now, context=within or context())
        state = examination.state
    assert examination is not None
    return examination


def device(
    *,
    used: float = 0.0,
    low: float | None = None,
    high: float | None = None,
    util: float = 0.0,
    power: float = 60.0,
    own: int | None = None,
    total: int = 80 * GIB,
) -> Device:
    return Device(
        uuid="GPU-1",
        index=0,
        total_bytes=total,
        used_bytes=Window(last=used, min=used if low is None else low, max=used if high is None else high),
        own_bytes=own,
        util_percent=Window(last=util),
        power_w=Window(last=power),
        power_limit_w=400.0,
    )


def idle_host() -> Host:
    return Host(cpu_percent=0.3, disk_read_bps=0.0, disk_write_bps=0.0)


def steps(first: int, last: int, *, total: int | None = None) -> str:
    of = f"/{total}" if total else ""
    return "".join(f"step {step}{of} loss {4 - step * 0.001:.4f} 1.0 s/step\r\n" for step in range(first, last + 1))


OOM = (
    "Traceback (most recent call last):\r\n"
    '  File "train.py", line 9, in step\r\n'
    "    loss.backward()\r\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 79.10 GiB of "
    "which 3.29 GiB is free. Including non-PyTorch memory, this process has 75.80 GiB memory in use. Of the allocated "
    "memory 74.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\r\n"
)
"""What torch prints."""
CPU_OOM = (
    "Traceback (most recent call last):\r\n"
    '  File "train.py", line 9, in step\r\n'
    "RuntimeError: [enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "268435456 bytes. Error code 12 (Cannot allocate memory)\r\n"
)
