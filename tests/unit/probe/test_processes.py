"""What /proc says, and whose a process is."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.probe.processes import Members, Stat, Table, figures, lives, parse_stat, read_stat

RUN = f"u{os.getpid()}"
REST = "{state} 11 22 33 34816 55 4194304 1 2 3 4 {user} {system} 0 0 20 0 1 0 {start} 1000 {rss} 18446744073709551615"


@given(
    st.integers(1, 2**22),
    st.binary(min_size=1, max_size=15),
    st.sampled_from("RSDTtZXI"),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.integers(0, 2**50),
    st.integers(0, 2**30),
)
def test_any_name_is_no_obstacle(
    pid: int, comm: bytes, state: str, user: int, system: int, start: int, rss: int
) -> None:
    rest = REST.format(state=state, user=user, system=system, start=start, rss=rss)
    stat = parse_stat(b"%d (%b) %b\n" % (pid, comm, rest.encode()))
    assert stat == Stat(pid, comm.decode("utf-8", "replace"), state, 11, 22, 33, 55, user + system, start, rss)


@pytest.mark.parametrize("name", [b"a) R 1 1 1 (b", b"(", b"x) Z", b"new\nline"])
def test_names_that_look_like_fields(name: bytes) -> None:
    rest = REST.format(state="S", user=1, system=1, start=7, rss=1).encode()
    stat = parse_stat(b"5 (" + name + b") " + rest)
    assert (stat.state, stat.start_ticks) == ("S", 7)


@pytest.mark.parametrize("text", [b"", b"1", b"1 (x", b"1 (x) S 2"])
def test_half_a_line_is_an_error(text: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        parse_stat(text)


def test_this_process_lives_and_another_start_time_is_another() -> None:
    stat = read_stat(os.getpid())
    assert stat is not None
    assert lives(stat.key)
    assert not lives((stat.pid, stat.start_ticks + 1))
    assert read_stat(2**22 + 1) is None


def test_newcomers_are_found_by_tag_descent_and_journal(tmp_path: Path) -> None:
    table = Table()
    members = Members(str(tmp_path), RUN, 1)
    table.refresh(0.0)
    assert members.look(table) == []
    tagged = subprocess.Popen(
        ["sleep", "1000"], env={**os.environ, "VIGIL_ATTEMPT": f"{RUN}.1"}, start_new_session=True
    )
    other = subprocess.Popen(["sleep", "1000"], env={**os.environ, "VIGIL_ATTEMPT": f"{RUN}.10"})
    try:
        table.refresh(1.0)
        (found,) = members.look(table)
        assert found.pid == tagged.pid
        assert {stat.pid for stat in table.tagged(f"{RUN}.")} == {tagged.pid, other.pid}
        # Another probe knows it by the journal, though it carries no tag it could read.
        again = Members(str(tmp_path), RUN, 1)
        assert again.journal == {found.key}
        tagged.send_signal(signal.SIGKILL)
        tagged.wait()
        table.refresh(2.0)
        assert members.look(table) == []
        table.refresh(3.0, full=True)
        assert again.look(table) == []
    finally:
        for process in (tagged, other):
            process.kill()
            process.wait()


def test_a_journal_of_another_boot_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("another-boot 1\n1 5\n")
    assert Members(str(tmp_path), RUN, 1).journal == set()


def test_figures_count_no_zombies_and_know_no_zero_for_nobody() -> None:
    def stat(pid: int, state: str) -> Stat:
        return Stat(pid, "x", state, 1, 1, 1, -1, 100, pid, 10)

    seen = figures([stat(2**22 + 1, "R"), stat(2**22 + 2, "Z"), stat(2**22 + 3, "D")], True, 5)
    assert (seen["alive"], seen["states"]) == (2, {"R": 1, "D": 1})
    nobody = figures([], False, None)
    assert (nobody["alive"], nobody["rss_bytes"], nobody["cpu_s"]) == (0, None, None)
