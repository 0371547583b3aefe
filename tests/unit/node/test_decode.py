"""From the probe's JSON to nouns."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.errors import NodeUnreachable
from supervisor.model.node import NodeFacts
from supervisor.node.decode import noun, observation, piece
from supervisor.probe.wire import Frame

SEEN: dict[str, Any] = {
    "at_unix_s": 5.0,
    "log": {
        "offset": 7,
        "size": 3,
        "end": 12,
        "closed": False,
        "gaps": [{"offset": 10, "size_bytes": 2, "why": "disk"}],
    },
    "metrics": {"offset": 0, "size": 2, "end": 2, "closed": True, "gaps": []},
    "exit": {
        "code": None,
        "signal": "SIGKILL",
        "keys": [{"byte": 3, "at_unix_s": 1.0, "offset": 2, "as_signal": True}],
    },
    "devices": [{"uuid": "GPU-1", "index": 0, "used_bytes": {"last": 1.0}}],
    "blind": {"tmux": "does not answer"},
}


def frame(result: dict[str, Any], raw: bytes) -> Frame:
    return Frame({"id": 1, "ok": True, "result": result}, raw)


def test_log_and_metrics_are_cut_from_the_raw_part() -> None:
    seen = observation(frame(SEEN, b"abc{}"))
    assert (seen.log.data, seen.log.next_offset, seen.log.drained) == (b"abc", 12, True)
    assert seen.metrics is not None
    assert (seen.metrics.data, seen.metrics.closed) == (b"{}", True)
    assert seen.exit is not None
    assert seen.exit.keys[0].byte == 3


def test_no_metrics_file() -> None:
    assert observation(frame(SEEN | {"metrics": None}, b"abc")).metrics is None


def test_fewer_bytes_than_announced_are_a_broken_link() -> None:
    with pytest.raises(NodeUnreachable, match="announced 2 bytes of metrics"):
        observation(frame(SEEN, b"abc"))


def places(data: Any) -> list[Any]:
    """Every mapping inside that becomes a noun."""
    found = [data, data["log"], data["metrics"], data["exit"]]
    found += [data["log"]["gaps"][0], data["exit"]["keys"][0], data["devices"][0], data["devices"][0]["used_bytes"]]
    return found


@given(
    where=st.lists(st.integers(0, 7), min_size=1),
    value=st.none() | st.integers() | st.dictionaries(st.text(), st.text()),
)
def test_keys_of_a_newer_probe_are_left_out(where: list[int], value: Any) -> None:
    data = _copy(SEEN)
    for number in where:
        places(data)[number]["key_of_the_future"] = value
    assert observation(frame(data, b"abc{}")) == observation(frame(SEEN, b"abc{}"))


def test_a_wrong_type_is_a_broken_link_that_names_the_place() -> None:
    with pytest.raises(NodeUnreachable, match="boot_id"):
        noun(NodeFacts, {"boot_id": {"not": "text"}, "new": 1})


def test_a_slice_of_a_file() -> None:
    seen = piece(frame({"offset": 3, "size": 2, "end": 9}, b"xy"))
    assert (seen.offset, seen.data, seen.end, seen.next_offset) == (3, b"xy", 9, 5)


def _copy(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _copy(value) for key, value in data.items()}
    return [_copy(value) for value in data] if isinstance(data, list) else data
