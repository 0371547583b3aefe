"""A recorded run: JSON lines, plain or zstd-compressed, one entry a line, in the order of time.

`{"t": unix seconds, "kind": "spec" | "observation" | "verdict" | "decision" | "event", "data": {…}}`. `spec` comes
first: `{"spec", "run", "not_recorded"}`. An attempt begins with the event of type `attempt`. `data` of an observation
is the observation with `attempt` beside it, its log's and metrics file's bytes as base64. `verdict` and `decision` are
what Vigil said then. Secrets were masked before anything was stored.
"""

import base64
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import zstandard

from supervisor.model.errors import InvalidInput
from supervisor.model.observation import Observation

KINDS = frozenset({"spec", "observation", "verdict", "decision", "event"})
MAX_LINE_BYTES = 64 << 20
_MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line."""

    t: float
    """Unix seconds, by the control host's clock."""
    kind: str
    data: dict[str, Any]


def write_recording(entries: Iterable[Entry], out: IO[bytes]) -> None:
    """Write the entries, compressed."""
    with zstandard.ZstdCompressor(level=9).stream_writer(out, closefd=False) as compressed:
        for entry in entries:
            line = json.dumps({"t": entry.t, "kind": entry.kind, "data": entry.data}, ensure_ascii=False)
            compressed.write(line.encode("utf-8", "replace") + b"\n")


def read_recording(path: Path) -> Iterator[Entry]:
    """The entries of a file, plain or compressed; InvalidInput names the line that is none."""
    try:
        with path.open("rb") as file:
            compressed = file.read(4) == _MAGIC
            file.seek(0)
            source: Any = zstandard.ZstdDecompressor().stream_reader(file) if compressed else file
            yield from _entries(io.BufferedReader(source) if compressed else source, path)
    except (OSError, zstandard.ZstdError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.") from error


def observation_data(attempt_no: int, seen: Observation) -> dict[str, Any]:
    """The observation as an entry's data."""
    data = seen.model_dump(mode="json", exclude={"log": {"data"}, "metrics": {"data"}}, exclude_defaults=True)
    for name, piece in (("log", seen.log), ("metrics", seen.metrics)):
        if piece is not None:
            data[name] = {**piece.model_dump(mode="json", exclude={"data"}), "data": _to_text(piece.data)}
    return {"attempt": attempt_no, **data}


def observation_of(data: dict[str, Any]) -> tuple[int, Observation]:
    """The attempt's number and what was seen; ValueError or KeyError where the data is none."""
    rest = {name: value for name, value in data.items() if name != "attempt"}
    for name in ("log", "metrics"):
        if rest.get(name):
            rest[name] = {**rest[name], "data": base64.b64decode(rest[name].get("data", ""))}
    return int(data["attempt"]), Observation.model_validate(rest)


def _entries(lines: IO[bytes], path: Path) -> Iterator[Entry]:
    number = 0
    while line := lines.readline(MAX_LINE_BYTES + 1):
        number += 1
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            entry = Entry(float(row["t"]), row["kind"], row["data"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidInput(f"{path}, line {number}: no entry of a recording.") from error
        if entry.kind not in KINDS or not isinstance(entry.data, dict):
            raise InvalidInput(f"{path}, line {number}: the kind {str(entry.kind)[:40]!r} is unknown.")
        yield entry


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode()
