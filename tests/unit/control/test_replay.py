"""A recording written and read back, and replayed to what Vigil said of the real run."""

import io
import json
from pathlib import Path

import pytest

from supervisor.control.exported import Log
from supervisor.control.recording import Entry, observation_data, observation_of, read_recording, write_recording
from supervisor.control.replay import replay, told
from supervisor.model.errors import InvalidInput
from supervisor.model.observation import ExitRecord, Observation, Processes, Slice

RECORDED = Path(__file__).parent / "demo.recording.zst"
"""`vigil export` of a real demo: it fails, is corrected, resumes and finishes."""
T = 1_750_000_000.0


def test_a_recorded_demo_is_replayed_to_what_was_said_of_it() -> None:
    entries = list(read_recording(RECORDED))
    replayed = [said.key for said in replay(entries)]
    stored = [said.key for said in told(entries)]
    assert [key for key in replayed if is_settled(key)] == [key for key in stored if is_settled(key)]
    assert {name for _, kind, name, _ in replayed if kind == "decision"} == {"restart", "finish"}
    # The metrics file's phases are not stored, nor when an exit was seen before the end of its stream: so a verdict on
    # the way may be missing, but none may come in.
    following = iter(stored)
    assert all(key in following for key in replayed)


def is_settled(key: tuple[int, str, str, bool]) -> bool:
    """A decision, or a verdict that is final."""
    return key[1] == "decision" or key[3]


def test_replaying_twice_says_the_same() -> None:
    entries = list(read_recording(RECORDED))
    assert list(replay(entries)) == list(replay(entries))


def test_an_observation_comes_back_whole() -> None:
    seen = Observation(
        at_unix_s=T,
        started=True,
        log=Slice(offset=3, data=b"\x00\xffstep 1\r\n", end=12, closed=True),
        exit=ExitRecord(code=1, signal=None, at_unix_s=T),
        processes=Processes(alive=0, wrapper_alive=False),
    )
    assert observation_of(json.loads(json.dumps(observation_data(2, seen)))) == (2, seen)


def test_a_plain_file_is_read_like_a_compressed_one(tmp_path: Path) -> None:
    entries = [Entry(T, "spec", {"spec": {"name": "a", "node": "local", "command": "x"}})]
    compressed = io.BytesIO()
    write_recording(entries, compressed)
    plain = json.dumps({"t": T, "kind": "spec", "data": entries[0].data}).encode() + b"\n"
    for name, data in (("a.zst", compressed.getvalue()), ("a.jsonl", plain)):
        (tmp_path / name).write_bytes(data)
        assert list(read_recording(tmp_path / name)) == entries


@pytest.mark.parametrize(
    "text",
    ["no json", '{"t": 1}', '{"t": 1, "kind": "song", "data": {}}', '{"t": 1, "kind": "event", "data": 3}', "[]"],
)
def test_a_line_that_is_no_entry_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text + "\n", "utf-8")
    with pytest.raises(InvalidInput, match="line 1"):
        list(read_recording(path))


@pytest.mark.parametrize(
    "entries",
    [
        [Entry(T, "observation", {})],
        [Entry(T, "spec", {})],
        [Entry(T, "spec", {"spec": {"name": "a", "node": "local", "command": "x"}}), Entry(T, "observation", {})],
    ],
)
def test_a_recording_that_does_not_hold_together_is_an_error(entries: list[Entry]) -> None:
    with pytest.raises(InvalidInput):
        list(replay(entries))


def test_a_log_with_a_hole_is_cut_by_its_own_offsets() -> None:
    log = Log(b"abcdXYZ", gaps=((4, 10),))
    assert log.end == 17
    assert (log.slice(0, 4).data, log.slice(0, 4).offset) == (b"abcd", 0)
    after = log.slice(4, 17)
    assert (after.offset, after.data) == (14, b"XYZ")
