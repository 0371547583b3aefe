"""What one check saw of one attempt. The probe's `observe` answers in this shape.

Everything that could not be seen is None, never zero.
"""

from typing import Literal

from pydantic import Field

from supervisor.model.code import Code
from supervisor.model.noun import Noun


class Gap(Noun):
    """Bytes of the attempt's stream that are known to be lost."""

    offset: int
    size_bytes: int
    why: str


class Slice(Noun):
    """A piece of a growing file. `offset` is its place in the stream, not in a segment."""

    offset: int
    data: bytes = b""
    end: int = 0
    """Where the stream ends on the node at present; more is to be fetched while offset + len(data) < end."""
    closed: bool = False
    """No process of the attempt can write to it any more."""
    gaps: tuple[Gap, ...] = ()
    """Gaps that begin at or after the cursor and before the end of this slice."""

    @property
    def next_offset(self) -> int:
        """The cursor for the next call."""
        after_data = self.offset + len(self.data)
        return max([after_data, *(gap.offset + gap.size_bytes for gap in self.gaps if gap.offset <= after_data)])

    @property
    def drained(self) -> bool:
        """Nothing is left to fetch."""
        return self.next_offset >= self.end


class KeySeen(Noun):
    """A control byte that a terminal delivered to the attempt (Ctrl-C is 3, Ctrl-backslash 28)."""

    byte: int
    at_unix_s: float
    offset: int
    as_signal: bool
    """The child's terminal had ISIG and this byte as VINTR or VQUIT."""
    tty: str | None = None
    """The node's terminal that it came in by, the run's own pane or a later view of it; None: not seen."""


class ExitRecord(Noun):
    """The wrapper's record of the end, `exit.json`."""

    code: int | None
    signal: str | None
    """Name such as `SIGKILL`; then `code` is None."""
    at_unix_s: float | None = None
    started_unix_s: float | None = None
    """When the child began."""
    keys: tuple[KeySeen, ...] = ()
    announced: tuple[str, ...] = ()
    """Signals that Vigil had announced before the end, in order; `stop` for the intent itself."""
    oom_kills_before: int | None = None
    oom_kills_after: int | None = None
    oom_counter: str | None = None
    """Which counter: its file, and whether the cgroup is the attempt's own (`own`) or shared (`shared`)."""
    boot_id: str | None = None
    survivors: tuple[int, ...] = ()
    failure: Literal["command_not_found", "workdir", "setup", "secret", "refused"] | None = None
    """Why the command was never started, where it was not."""
    failure_detail: str | None = None
    hung_up: bool = False
    """The terminal went away before the end."""
    unknown_why: str | None = None
    """Why neither code nor signal is known, where an end was seen (of an adopted session)."""

    @property
    def oom_kills(self) -> int | None:
        """How many kills for memory the counter counted meanwhile; None where there is no counter."""
        if self.oom_kills_before is None or self.oom_kills_after is None:
            return None
        return max(0, self.oom_kills_after - self.oom_kills_before)


class Processes(Noun):
    """The attempt's processes; zombies count as gone."""

    alive: int
    wrapper_alive: bool
    child_pid: int | None = None
    states: dict[str, int] = {}
    """How many are in which state of /proc/PID/stat (`R`, `S`, `D`, …)."""
    rss_bytes: int | None = None
    cpu_s: float | None = None
    """User and system time of all of them so far."""
    read_bytes: int | None = None
    written_bytes: int | None = None
    unkillable: tuple[int, ...] = ()
    """In uninterruptible sleep although SIGKILL was sent."""


class Memory(Noun):
    """The memory limit that holds for the attempt and its counters."""

    limit_bytes: int | None = None
    used_bytes: int | None = None
    oom_kills: int | None = None
    source: str | None = None
    """Where the limit stands: a cgroup file, `MemTotal`, `host`."""
    own: bool = False
    """The counter belongs to the attempt's own cgroup."""


class Window(Noun):
    """One device quantity over the time since the last observation, sampled at 10 Hz."""

    last: float | None = None
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    swing: float | None = None
    """Sum of absolute changes."""
    reversals: int | None = None
    """How often the direction changed by more than 1 % of the total."""


class Device(Noun):
    """One GPU as seen since the last observation."""

    uuid: str
    index: int
    name: str = ""
    total_bytes: int | None = None
    used_bytes: Window = Window()
    own_bytes: int | None = None
    util_percent: Window = Window()
    power_w: Window = Window()
    power_limit_w: float | None = None
    temperature_c: float | None = None
    energy_j: float | None = None
    samples: int = 0
    hole_s: float = 0.0
    """Seconds without a sample in the window; drawn as a hole."""


class Host(Noun):
    """The machine or container around the attempt."""

    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    cpu_percent: float | None = None
    disk_read_bps: float | None = None
    disk_write_bps: float | None = None
    load1: float | None = None


class Checkpoint(Noun):
    """A checkpoint found below the spec's `checkpoint.path`."""

    step: int
    path: str
    complete: bool
    """The file that is written last is there (or no such file was named and nothing grew between two looks)."""
    size_bytes: int | None = None
    modified_unix_s: float | None = None


class Screen(Noun):
    """What the terminal shows."""

    columns: int
    rows: int
    at_unix_s: float
    ansi: str


SessionState = Literal["alive", "dead", "lost", "unknown"]


class Observation(Noun):
    """What one check saw."""

    at_unix_s: float
    """The node's wall clock."""
    monotonic_s: float | None = None
    boot_id: str | None = None
    pid1_start_ticks: int | None = None
    """With the boot id: another value means that the node (or container) started anew."""
    attempt_known: bool = True
    """The attempt's folder exists on the node."""
    started: bool | None = None
    """`started` exists and is no tombstone."""
    refused: str | None = None
    """The refusal record of a launch that lost against the fence."""
    log: Slice = Slice(offset=0)
    metrics: Slice | None = None
    """The spec's metrics file; None when none is named."""
    session: SessionState = "unknown"
    exit: ExitRecord | None = None
    processes: Processes | None = None
    memory: Memory | None = None
    devices: tuple[Device, ...] | None = None
    devices_reason: str | None = None
    host: Host | None = None
    checkpoints: tuple[Checkpoint, ...] | None = None
    screen: Screen | None = None
    code: Code | None = None
    """The attempt's code; None: not asked for, or not looked at yet."""
    versions: dict[str, str | None] | None = None
    """What the attempt's Python runs with; None: not asked for, or nothing seen so far."""
    versions_settled: bool = False
    """They will not change any more."""
    blind: dict[str, str] = Field(default_factory=dict)
    """Vantages that failed in this check (`tmux`, `gpu`, `container`, …) with the error text."""
    kernel: tuple[str, ...] = ()
