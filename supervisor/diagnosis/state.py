"""What the fold remembers of one attempt between two looks: a small versioned value."""

from dataclasses import dataclass, field

from pydantic import ConfigDict, TypeAdapter, ValidationError

from supervisor.diagnosis.text import Cursor

VERSION = 1
"""Another version in a stored state means: fold the stored log anew."""
MAX_STATE_BYTES = 64 * 1024
MAX_FOLD_BYTES = 60 * 1024
MAX_OPEN_HITS = 24
MAX_PAST_HITS = 8
MAX_TEXT_BYTES = 300
"""Of a line that is kept as evidence."""
_CONFIG = ConfigDict(ser_json_inf_nan="constants", ser_json_bytes="base64", val_json_bytes="base64")


@dataclass(slots=True)
class Hit:
    """A signature seen in the log, with the circumstances of its first match."""

    id: str
    role: str
    cause: str | None
    order: int
    """Ordinal of the line among all lines of the attempt."""
    line: int | None
    text: str
    writer: str | None = None
    count: int = 1
    last_order: int = 0
    traceback: bool = False
    """An exception ended here: nobody caught it before it was printed."""
    evaluating: bool = False
    """Frames or the phase say that evaluation was at work."""
    capturing: bool = False
    """Frames say that a graph was being captured."""
    steps: int = 0
    """How many progress events came before it."""
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Counter:
    """One counter that the program prints."""

    value: float = -1.0
    total: float | None = None
    epoch: int | None = None
    first: float | None = None
    stride: float = 0.0
    skipped: float = 0.0
    """What a jump at the begin still weighs in the rate that a bar tells, in steps."""
    resets: int = 0
    events: int = 0


@dataclass(slots=True)
class Series:
    """The latest values of what progress lines tell, newest last."""

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    """NaN stands for not finite, -1 for not told; same length as `losses`."""
    seconds: list[float] = field(default_factory=list)
    """Time of one step."""
    usual_seconds: list[float] = field(default_factory=list)
    """The first ones after warm-up: what is usual in this attempt."""
    data_shares: list[float] = field(default_factory=list)
    """Which part of a step waited for data."""
    memory_bytes: list[float] = field(default_factory=list)
    """As the program tells its own use, over the whole attempt, evenly thinned out."""
    memory_stride: int = 1
    memory_told: int = 0
    scales: list[float] = field(default_factory=list)
    """Loss scales after each reduction."""
    norms_told: int = 0
    nan_counters_zero: bool = False
    """The framework itself counts no nan and no skipped iteration."""


@dataclass(slots=True)
class Trace:
    """The traceback that is being printed, and what exceptions ended the last ones."""

    open: bool = False
    functions: list[str] = field(default_factory=list)
    first: tuple[int | None, str] | None = None
    """Line and text of the first exception since the last progress that is not the launcher's."""
    last: tuple[int | None, str] | None = None
    launcher: bool = False
    """A launcher's own exception was seen since the last progress."""
    exceptions: int = 0
    stray: tuple[int | None, str] | None = None
    """The first line since the last progress that has an exception's form and belongs to no traceback."""
    prefix: str = ""
    """What stands before each of its lines, every digit as 0."""


@dataclass(slots=True)
class DeviceMemory:
    """One device's memory over the observations."""

    total: float | None = None
    first_used: float | None = None
    """When the attempt was first seen, before it can have taken much."""
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    peak: float = 0.0


@dataclass(slots=True)
class State:
    """All that is remembered of one attempt."""

    log: Cursor = field(default_factory=Cursor)
    metrics: Cursor = field(default_factory=Cursor)
    order: int = 0
    open: list[Hit] = field(default_factory=list)
    """Since the last completed progress, in order."""
    past: list[Hit] = field(default_factory=list)
    """Roots and handled ones that progress followed, the latest last."""
    counts: dict[str, int] = field(default_factory=dict)
    """How often each signature matched in the whole attempt."""
    recent: list[str] = field(default_factory=list)
    last_line: tuple[int | None, str] | None = None
    progress_line: str = ""
    """The latest line of progress."""
    passed: int = 0
    """How many lines of progress were passed over since the last that was read."""
    passed_line: tuple[str, float] | None = None
    """The latest of them, and when it was seen."""
    reader: int | None = None
    """Which of the progress readers read the last one; it is asked first."""
    trace: Trace = field(default_factory=Trace)
    counters: dict[str, Counter] = field(default_factory=dict)
    series: Series = field(default_factory=Series)
    progress_events: int = 0
    restarted: int = 0
    """How often the program began its own counting anew."""
    rate_per_s: float | None = None
    tokens_per_s: float | None = None
    total_told: float | None = None
    told: dict[str, float] = field(default_factory=dict)
    """Settings that the program told, by name."""
    phase: str = "loading"
    pids: list[int] = field(default_factory=list)
    done_metrics: bool = False
    failed_metrics: str | None = None
    series_time: float | None = None
    """The metrics file's own clock at its last step."""
    retries_first: float | None = None
    retries_last: float | None = None
    clock: tuple[float, float, str | None] | None = None
    """Run time, the node's monotonic clock and its boot, as last seen."""
    launched_at: float | None = None
    """By the node's clock: what a shared metrics file tells from before belongs to an earlier attempt."""
    first_seen_at: float | None = None
    last_output_at: float | None = None
    last_moved_at: float | None = None
    """Any counter moved, also one of loading or evaluation."""
    last_progress_at: float | None = None
    gaps_s: list[float] = field(default_factory=list)
    """Between progress seen and progress seen, newest last."""
    kernel: list[tuple[float, str]] = field(default_factory=list)
    """Lines of the kernel's log that speak of devices or kills, and when they were seen."""
    devices: dict[str, DeviceMemory] = field(default_factory=dict)
    __pydantic_config__ = _CONFIG


@dataclass(slots=True)
class Last:
    """The last verdict: since when its cause holds, and all of it for checks that see nothing."""

    cause: str | None = None
    since: float | None = None
    verdict: str | None = None
    """As JSON."""


@dataclass(slots=True)
class _Stored:
    version: int
    last: Last
    fold: State

    __pydantic_config__ = _CONFIG


_STORED = TypeAdapter(_Stored)
_STATE = TypeAdapter(State)
_LAST = TypeAdapter(Last)


class UnknownVersion(Exception):  # noqa: N818 - reads as what it is
    """The stored state is of another version: fold the stored log anew from `None`."""


def load(stored: bytes | None) -> tuple[State, Last]:
    """What is stored; fresh values for None; UnknownVersion where it cannot be read."""
    if stored is None:
        return State(), Last()
    try:
        read = _STORED.validate_json(stored)
    except ValidationError as error:
        raise UnknownVersion(str(error).splitlines()[0]) from error
    if read.version != VERSION:
        raise UnknownVersion(f"version {read.version}, known is {VERSION}")
    return read.fold, read.last


def freeze(state: State) -> bytes:
    """The fold as JSON, small enough for `seal`; afterwards `state` may be changed."""
    frozen = _STATE.dump_json(state)
    while len(frozen) > MAX_FOLD_BYTES and (state.log.rows or state.past or state.open):
        # Only pathological text comes here: what is least needed goes first.
        if state.log.rows:
            state.log.rows = []
        elif state.past:
            state.past.pop(0)
        else:
            state.open.pop()
        frozen = _STATE.dump_json(state)
    return frozen


def seal(frozen: bytes, last: Last) -> bytes:
    """What is to be stored: the frozen fold with the last verdict, at most MAX_STATE_BYTES."""
    head = b'{"version":%d,"last":' % VERSION
    sealed = head + _LAST.dump_json(last) + b',"fold":' + frozen + b"}"
    if len(sealed) > MAX_STATE_BYTES:
        sealed = head + _LAST.dump_json(Last(last.cause, last.since)) + b',"fold":' + frozen + b"}"
    return sealed


def short(text: str) -> str:
    """A line as evidence: printable, at most MAX_TEXT_BYTES."""
    plain = "".join(char if char.isprintable() else " " for char in text[: MAX_TEXT_BYTES * 2]).strip()
    encoded = plain.encode("utf-8", "replace")
    if len(encoded) <= MAX_TEXT_BYTES:
        return plain
    return encoded[: MAX_TEXT_BYTES - 3].decode("utf-8", "ignore") + "…"
