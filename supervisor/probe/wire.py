"""What goes over the link between a node's probe and Vigil: frames, and the shape of each call.

A frame is `!I` length of all that follows, `!I` length of the JSON header, the header, raw bytes. The whole frame is at
most MAX_FRAME_BYTES. A request's header is `{"id", "op", "args", "deadline_s"}`, a reply's `{"id", "ok", "result"}` or
`{"id", "ok": false, "error": {"code", "detail", "remedy"}}`. Replies come in any order.

Before the first frame the probe prints a line break, then `VIGIL1 <nonce>` and a line break; everything before that
line is whatever the login had to say.
"""

import json
import struct
from typing import Any, Literal, NamedTuple, TypedDict

PROTOCOL = 1
HELLO_WORD = b"VIGIL1 "
MAX_FRAME_BYTES = 256 * 1024
MAX_SLICE_BYTES = 192 * 1024
"""Log bytes in one reply, so that header and metrics fit beside them."""
MAX_PREAMBLE_BYTES = 64 * 1024
"""How much of what a login prints is kept for the error text."""
IDLE_END_S = 120.0
"""A probe without a request for so long ends itself."""
CALL_MARGIN_S = 5.0
"""A call's deadline is its `wait_s` and this."""
COLUMNS = 200
ROWS = 50

_LENGTHS = struct.Struct("!II")
_LENGTH = struct.Struct("!I")

Op = Literal[
    "hello",
    "lying",
    "claim",
    "launch",
    "observe",
    "stop",
    "read",
    "memory",
    "stacks",
    "screen",
    "session",
    "forget",
    "code",
    "servers",
    "reap",
    "fitness",
    "clear",
    "adoptable",
    "adopt",
]


class WireError(Exception):
    """The stream holds something that is no frame."""


class CallError(Exception):
    """The probe says no to a call. `code` is one of the codes of Vigil's errors, such as `stale_token`."""

    def __init__(self, code: str, detail: str, remedy: str = "") -> None:
        """`detail` names the place and the value, `remedy` what to do about it."""
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.remedy = remedy


class Frame(NamedTuple):
    """One frame, decoded."""

    header: dict[str, Any]
    raw: bytes


class RunKey(TypedDict):
    """Which attempt a call means, and by which claim."""

    run: str
    """The run's id: letters, digits and `-` only; it becomes a folder's name."""
    attempt: int
    token: int
    """The claim's token; a lower one than the node remembers is refused with `stale_token`."""


class CheckpointPlan(TypedDict):
    """Where the attempt's checkpoints appear."""

    path: str
    step: str
    complete: str | None


class Confided(TypedDict, total=False):
    """What a launch with secrets says of them. Their values are no part of it: they are the end of the raw part, as
    `delivery.packed` makes it, and are never written down."""

    secrets: list[str]
    """The names of the variables whose values the wrapper must be handed before it starts anything."""
    parcel_bytes: int
    """So many bytes at the end of the raw part are the values; what stands before is the rendered configuration."""
    env_file: str | None
    """A file of NAME=VALUE lines on the node, relative to workdir; the wrapper reads it."""
    give_up: str | None
    """Why this attempt cannot be launched: unless it has begun, a tombstone makes sure that it never does."""


class LaunchArgs(RunKey, Confided):
    """All that the node needs to launch one attempt; written down there, so that any later probe can observe it."""

    command: str | list[str]
    """A line for `bash -o pipefail -c`, or an argv. `{config}` and `{attempt}` are still in it."""
    setup: str | None
    """Bash for the command's own shell."""
    venv: str | None
    """A virtual environment to activate before it, relative to workdir."""
    conda: str | None
    """A conda environment to activate before that, by name or by path."""
    workdir: str
    """`~` and `~/…` are expanded on the node."""
    env: dict[str, str]
    """`{config}`, `{attempt}` expanded on the node; put over the clean base."""
    unset: list[str]
    config_path: str | None
    """A file on the node that is used as it is, relative to workdir; None with `config_name` for a rendered one."""
    config_name: str | None
    """Name of the rendered file in the attempt's folder (`config.toml`), or, with `config_beside`, beside that file."""
    config_beside: str | None
    """Write the rendered copy beside this file (relative to workdir). The rendered text is the frame's raw part."""
    metrics: str | None
    """Path of the metrics file, `{attempt}` still in it."""
    checkpoint: CheckpointPlan | None
    code_since: str | None
    """The commit of the attempt before: what lies between is told with the code."""
    gpus: list[str] | None
    """UUIDs for CUDA_VISIBLE_DEVICES; None: leave the variable alone."""
    columns: int
    rows: int


class LaunchReply(TypedDict):
    """How a launch went."""

    state: Literal["started", "already", "refused"]
    """`already` only where `started` exists and is no tombstone."""
    why: str | None
    given_up: bool
    """Refused for good: a tombstone stands there, and only another attempt can begin."""
    folder: str
    started_unix_s: float | None
    boot_id: str
    code: dict[str, Any]
    """The shape of `supervisor.model.code.Code`; empty where it was not looked at in time."""
    config_path: str | None
    """Where `{config}` pointed."""
    socket: str
    """tmux socket path."""
    session: str


class AdoptableArgs(TypedDict):
    """A session that Vigil did not start."""

    tmux: str
    """Its name."""
    pane: str | None
    """`WINDOW.PANE` or tmux's own id (`%5`); None: the only one that is at work."""
    socket: str | None
    socket_name: str | None
    """As `tmux -L`; without both: tmux's default of the node's user."""
    log: str | None


class AdoptArgs(RunKey):
    """What `adoptable` found, to be watched from now on as that attempt."""

    adopted: dict[str, Any]
    command: str | list[str]
    workdir: str
    metrics: str | None
    checkpoint: CheckpointPlan | None


class ObserveArgs(RunKey):
    """What one check wants to see."""

    log_cursor: int
    metrics_cursor: int
    wait_s: float
    """Answer early when there is more log, the attempt ended, or an alarm passed; at the latest after so long."""
    wake: Literal["end", "log", "alarm"]
    """What answers early: `end` = only the attempt's end or an alarm; `log` = any new byte as well."""
    alarms: list[str]
    """Literal strings whose passing in the log answers early."""
    screen: bool
    about: bool
    """Whether the attempt's code and versions are asked for."""
    limit_bytes: int


class StopArgs(RunKey):
    """How to end an attempt."""

    signal: str
    grace_s: float
    """After the polite signal; then TERM, half of it again (at most 10 s), then KILL."""
    why: str
    save_grace_s: float
    """While a checkpoint grows, the grace is at least this."""


class StopReply(TypedDict):
    """Who survived."""

    gone: bool
    survivors: list[dict[str, Any]]
    """`pid`, `start_ticks`, `comm`, `state`; state D is unkillable."""
    steps: list[str]
    """What was done: `SIGINT to group 4711`, …"""


def encode(header: dict[str, Any], raw: bytes = b"") -> bytes:
    """One frame. WireError where it would be larger than MAX_FRAME_BYTES."""
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    total = _LENGTH.size + len(text) + len(raw)
    if total > MAX_FRAME_BYTES:
        raise WireError(f"a frame of {total} bytes is larger than {MAX_FRAME_BYTES}")
    return _LENGTHS.pack(total, len(text)) + text + raw


class Decoder:
    """Cuts a byte stream into frames, however the bytes arrive."""

    def __init__(self) -> None:
        """Begins empty."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes. WireError where the stream is no stream of frames; then give it up."""
        self._buffer += data
        frames: list[Frame] = []
        while len(self._buffer) >= _LENGTHS.size:
            total, header_size = _LENGTHS.unpack_from(self._buffer)
            if total > MAX_FRAME_BYTES or header_size > total - _LENGTH.size:
                raise WireError(f"no frame begins with {bytes(self._buffer[:16])!r}")
            if len(self._buffer) < _LENGTH.size + total:
                break
            begin = _LENGTHS.size
            text = bytes(self._buffer[begin : begin + header_size])
            raw = bytes(self._buffer[begin + header_size : _LENGTH.size + total])
            del self._buffer[: _LENGTH.size + total]
            try:
                header = json.loads(text)
            except ValueError as error:
                raise WireError(f"a frame's header is no JSON: {text[:80]!r}") from error
            if not isinstance(header, dict):
                raise WireError(f"a frame's header is no mapping: {text[:80]!r}")
            frames.append(Frame(header, raw))
        return frames
