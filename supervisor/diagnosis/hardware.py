"""What the kernel's log and our own device reads say about the hardware."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from supervisor.diagnosis.state import MAX_TEXT_BYTES, State

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)\).*?: (?P<number>\d+),")
_TELLING = re.compile(r"Xid|[Kk]illed process|oom-kill:|oomd|invoked oom-killer")
KEPT_LINES = 12
KILL_COUNTS_S = 600.0
"""A kill that was logged longer ago belongs to something that was survived."""
XID_CAUSES: dict[int, str] = {
    **dict.fromkeys((8, 13, 31, 32, 69), "illegal_memory_access"),
    **dict.fromkeys((48, 64, 94, 95), "gpu_ecc"),
    **dict.fromkeys((74, *range(144, 151)), "gpu_link"),
    79: "gpu_lost",
    **dict.fromkeys((61, 62, 119, 120), "gpu_firmware"),
    **dict.fromkeys((46, 109, 140, 143, 151, 154, 155, 156, 158), "gpu_reset_required"),
}
"""NVIDIA's catalogue of Xid numbers, reduced to what a restart is worth. Numbers that are not named here are
secondary (43, 45) or to be ignored by themselves (38, 44, 63, 66, 92, 121, 137, 157, 160)."""
_BLIND: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), cause)
    for pattern, cause in (
        (r"(?i)unable to determine the device handle|GPU is lost|fallen off the bus", "gpu_lost"),
        (r"(?i)requires reset|reset required", "gpu_reset_required"),
        (r"(?i)driver/library version mismatch|LIB_RM_VERSION", "driver_mismatch"),
        (
            r"(?i)nvml: unknown error|driver not loaded|couldn't communicate with the nvidia driver"
            r"|no devices were found"
            r"|OPERATING_SYSTEM",
            "driver_unavailable",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A hardware fault with the line that says so."""

    cause: str
    text: str
    number: int | None = None
    repeats: int = 1
    """On the same device."""


def fold_kernel(state: State, lines: Iterable[str], at: float) -> None:
    """Take the telling lines of the kernel's log into the state: they may come before the end that they explain."""
    known = {text for _, text in state.kernel}
    for line in lines:
        text = line[:MAX_TEXT_BYTES]
        if text not in known and _TELLING.search(text):
            known.add(text)
            state.kernel = [*state.kernel, (at, text)][-KEPT_LINES:]


def kernel_lines(state: State, now: float) -> list[str]:
    """The kernel's lines that count now: every Xid, and the kills of the last minutes."""
    return [text for at, text in state.kernel if "Xid" in text or now - at <= KILL_COUNTS_S]


def xid_fault(kernel: Iterable[str]) -> Fault | None:
    """The first Xid that is a fault of its own: what follows it in the burst is clean-up."""
    first: tuple[str, int, str, str] | None = None
    repeats = 0
    for line in kernel:
        match = _XID.search(line)
        if match is None:
            continue
        number = int(match["number"])
        cause = XID_CAUSES.get(number)
        if cause is None:
            continue
        if first is None or (first[0] == "gpu_reset_required" and number != 154 and first[1] == 154):
            first = (cause, number, match["bus"], line)
        if number == first[1] and match["bus"] == first[2]:
            repeats += 1
    if first is None:
        return None
    return Fault(first[0], first[3], first[1], repeats)


def blind_fault(text: str | None) -> Fault | None:
    """What the error text of our own device read says about the device or the driver."""
    if not text:
        return None
    for pattern, cause in _BLIND:
        if pattern.search(text):
            return Fault(cause, text)
    return None
