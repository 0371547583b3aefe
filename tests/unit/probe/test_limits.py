"""cgroup v1 and v2 as recorded trees."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.probe.limits import Group, make_group, memory_group, memory_limit, oom_kills, usage

GIB = 1024**3
UNLIMITED = "9223372036854771712"


def tree(base: Path, files: dict[str, str]) -> None:
    """Write a recorded cgroup tree."""
    for name, text in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def mountinfo(base: Path, kind: str, root: str = "/") -> str:
    """A line as the kernel writes it."""
    options = "rw,memory" if kind == "cgroup" else "rw,nsdelegate"
    proc = "25 20 0:22 / /proc rw - proc proc rw\n"
    return proc + f"36 25 0:32 {root} {base} rw,nosuid shared:10 - {kind} {kind} {options}\n"


def test_v2_takes_the_smallest_up_the_tree(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "memory.max": "max\n",
            "a/memory.max": f"{2 * GIB}\n",
            "a/memory.current": f"{GIB}\n",
            "a/memory.stat": f"anon 5\ninactive_file {GIB // 2}\n",
            "a/b/memory.max": f"{4 * GIB}\n",
            "a/b/memory.events": "low 0\noom 3\noom_kill 2\n",
        },
    )
    group = memory_group("0::/a/b\n", mountinfo(tmp_path, "cgroup2"))
    assert group == Group(2, str(tmp_path / "a/b"), str(tmp_path))
    limit = memory_limit(group, {"MemTotal": 64 * GIB, "MemAvailable": GIB})
    assert (limit.limit_bytes, limit.used_bytes, limit.source) == (2 * GIB, GIB // 2, str(tmp_path / "a/memory.max"))
    assert oom_kills(group) == 2


def test_v1_inside_a_proxmox_inner_group_falls_back_to_memtotal(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {"memory.limit_in_bytes": UNLIMITED, "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"},
    )
    text = "9:name=systemd:/lxc/200/ns\n4:memory:/lxc/200/ns\n0::/\n"
    group = memory_group(text, mountinfo(tmp_path, "cgroup", root="/lxc/200/ns"))
    assert group == Group(1, str(tmp_path), str(tmp_path))
    limit = memory_limit(group, {"MemTotal": 8 * GIB, "MemAvailable": 3 * GIB})
    assert (limit.limit_bytes, limit.used_bytes, limit.source) == (8 * GIB, 5 * GIB, "MemTotal")
    assert oom_kills(group) == 4


def test_v1_limit_below_memtotal(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "x/memory.limit_in_bytes": f"{GIB}\n",
            "x/memory.usage_in_bytes": "500\n",
            "x/memory.stat": "cache 9\ntotal_inactive_file 100\n",
        },
    )
    group = memory_group("4:memory:/x\n", mountinfo(tmp_path, "cgroup"))
    assert group is not None
    assert memory_limit(group, {"MemTotal": 8 * GIB})[:2] == (GIB, 400)
    assert usage(group) == 400


@pytest.mark.parametrize("path", ["/../../outside", "/gone/away"])
def test_a_path_that_is_not_visible_is_the_mount_point(tmp_path: Path, path: str) -> None:
    assert memory_group(f"0::{path}\n", mountinfo(tmp_path, "cgroup2")) == Group(2, str(tmp_path), str(tmp_path))


def test_without_a_cgroup_there_is_no_counter_and_no_zero() -> None:
    assert memory_group("", "") is None
    assert memory_limit(None, {}) == (None, None, None)
    assert oom_kills(Group(2, "/no/such", "/no")) is None


def test_a_group_is_not_made_where_it_would_lift_the_parents_limit(tmp_path: Path) -> None:
    tree(tmp_path, {"memory.use_hierarchy": "0\n"})
    assert make_group(Group(1, str(tmp_path), str(tmp_path)), "vigil-r-1") is None
    tree(tmp_path, {"memory.use_hierarchy": "1\n"})
    made = make_group(Group(1, str(tmp_path), str(tmp_path)), "vigil-r-1")
    assert made == Group(1, str(tmp_path / "vigil-r-1"), str(tmp_path))


LINES = st.lists(st.text(st.characters(blacklist_categories=["Cs"]), max_size=60), max_size=6)


@given(LINES, LINES)
def test_any_text_is_read_without_an_error(cgroup: list[str], mounts: list[str]) -> None:
    memory_group("\n".join(cgroup), "\n".join(mounts))
