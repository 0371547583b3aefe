"""Small files and small parsers of the node's side."""

import os
import tempfile
import termios
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.probe import announced, fence, folder, host, stacks, terminal
from supervisor.probe.wire import CallError


def test_announcements_need_no_new_block_and_a_full_file_loses_only_news(tmp_path: Path) -> None:
    path = str(tmp_path / "announced")
    announced.reserve(path)
    blocks = Path(path).stat().st_blocks
    announced.announce(path, "stop", "because")
    announced.announce(path, "SIGINT")
    assert [one["what"] for one in announced.announcements(path)] == ["stop", "SIGINT"]
    for _ in range(300):
        announced.announce(path, "SIGTERM", "x" * 100)
    found = announced.announcements(path)
    assert found[0]["why"] == "because"
    assert 10 < len(found) < 300
    assert Path(path).stat().st_blocks == blocks
    assert announced.announcements(str(tmp_path / "none")) == []


def test_who_creates_a_file_is_the_only_one(tmp_path: Path) -> None:
    path = str(tmp_path / "started")
    assert folder.create_file(path, b"mine")
    assert not folder.create_file(path, b"yours")
    assert Path(path).read_bytes() == b"mine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["started"]


def test_reserved_records_are_filled_in_place(tmp_path: Path) -> None:
    path = str(tmp_path / "exit.json")
    folder.reserve(path, 4096)
    inode = Path(path + ".reserved").stat().st_ino
    folder.fill(path, b'{"code": 1}')
    assert folder.read_json(path) == {"code": 1}
    assert Path(path).stat().st_ino == inode
    folder.fill(path, b'{"code": 2}')
    assert folder.read_json(path) == {"code": 2}


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"\xff"])
def test_half_a_record_is_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "r").write_bytes(text)
    assert folder.read_json(str(tmp_path / "r")) is None


def test_a_state_folder_too_long_for_a_socket_is_unfit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("x" * 120)))
    with pytest.raises(CallError, match="107 bytes") as caught:
        folder.socket_path("r1")
    assert caught.value.code == "node_unfit"
    assert "XDG_STATE_HOME" in caught.value.remedy


def test_a_relative_state_home_is_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    assert folder.state_home() == f"{folder.home()}/.local/state/vigil"


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8))
def test_tokens_only_rise(tokens: list[int]) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", place)
        highest = 0
        for token in tokens:
            if token < highest:
                with pytest.raises(CallError, match="held by claim"):
                    fence.claim("r1", token)
            else:
                assert fence.claim("r1", token) == token
                highest = token
            assert fence.token_in_force("r1") == highest


def test_the_lock_is_high_inheritable_and_exclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder.make_private(folder.run_folder("r1"))
    lock = fence.lock_run("r1", 0.0)
    assert lock is not None
    assert lock >= 100
    assert os.get_inheritable(lock)
    assert fence.lock_run("r1", 0.0) is None
    os.close(lock)
    again = fence.lock_run("r1", 0.0)
    assert again is not None
    os.close(again)


def test_a_typed_byte_means_what_the_programs_terminal_says() -> None:
    master, slave = terminal.open_pair(200, 50)
    try:
        assert os.get_terminal_size(slave) == (200, 50)
        assert terminal.pressed(master, b"a\x03b\x1c") == [(3, 2), (28, 3)]
        attributes = termios.tcgetattr(slave)
        assert not attributes[0] & termios.IXON
        attributes[6][termios.VINTR] = b"\x18"
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        assert terminal.pressed(master, b"\x03\x18") == [(3, None), (24, 2)]
        attributes[3] &= ~termios.ISIG
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        assert terminal.pressed(master, b"\x03\x18") == [(3, None)]
    finally:
        os.close(master)
        os.close(slave)


def test_host_figures_are_parsed() -> None:
    assert host.parse_cpu("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2") == (150, 1000)
    assert host.parse_cpu("intr 5") is None
    disks = "8 0 sda 1 0 100 0 1 0 200 0\n8 1 sda1 1 0 90 0 1 0 190 0\n7 0 loop0 1 0 5 0 1 0 5 0\n"
    nvme = "259 0 nvme0n1 1 0 10 0 1 0 20 0\n259 1 nvme0n1p1 1 0 10 0 1 0 20 0\n"
    assert host.parse_disks(disks + nvme) == (110, 220)


def test_caught_signals_are_read_from_the_mask() -> None:
    assert stacks.catches("Name:\tx\nSigCgt:\t0000000000000200\n", 10)
    assert not stacks.catches("SigCgt:\t0000000000000200\n", 12)
    assert not stacks.catches("", 10)
