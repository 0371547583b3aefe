"""Words for every way in."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.errors import InvalidInput
from supervisor.model.node import Container, NodeSpec, SshAddress
from supervisor.node.bundle import boot_program, pack
from supervisor.node.reach import as_user, attach_argv, container_prefix, inside, probe_argv

WORDS = st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])), max_size=5)
ARCHIVE = pack({"a.py": b""})


@pytest.mark.parametrize(
    ("container", "words"),
    [
        (None, []),
        (Container(kind="pct", id="200"), ["pct", "exec", "200", "--"]),
        (Container(kind="pct", id="200", sudo=True), ["sudo", "-n", "pct", "exec", "200", "--"]),
        (Container(kind="lxc", id="box"), ["lxc-attach", "-n", "box", "--"]),
        (Container(kind="incus", id="box"), ["incus", "exec", "-T", "box", "--"]),
        (Container(kind="docker", id="box"), ["docker", "exec", "-i", "box"]),
        (Container(kind="prefix", prefix=("nsenter", "-t", "1")), ["nsenter", "-t", "1"]),
    ],
)
def test_container_prefix(container: Container | None, words: list[str]) -> None:
    assert container_prefix(container) == words


def test_a_terminal_is_asked_for_where_the_tool_needs_to_be_told() -> None:
    assert container_prefix(Container(kind="docker", id="box"), terminal=True) == ["docker", "exec", "-it", "box"]
    assert container_prefix(Container(kind="incus", id="box"), terminal=True) == ["incus", "exec", "-t", "box", "--"]


def test_the_probe_is_started_alike_everywhere() -> None:
    spec = NodeSpec(name="box", ssh=SshAddress(host="gpubox"), container=Container(kind="pct", id="200"))
    argv = probe_argv(spec, "n0", ARCHIVE)
    assert argv[:4] == ["pct", "exec", "200", "--"]
    assert argv[4:6] == ["/bin/sh", "-c"]
    assert argv[7:11] == ["sh", "-I", "-u", "-c"]
    assert argv[12:] == ["n0", ARCHIVE.digest, str(len(ARCHIVE.content))]
    assert probe_argv(spec.model_copy(update={"python": "/opt/py"}), "n0", ARCHIVE)[4] == "/opt/py"


def test_no_login_shell_can_misread_the_boot_program() -> None:
    assert not set(boot_program()) & set("\n'$!`\\")


@pytest.mark.parametrize("name", ["", "-c", "--login"])
def test_a_user_name_is_no_option(name: str) -> None:
    with pytest.raises(InvalidInput):
        as_user(name, ["true"])


@given(words=WORDS)
def test_every_word_arrives_as_it_was(words: list[str]) -> None:
    """As the present user, through the shell that `as_user` puts around it and the one at the other end of SSH."""
    me = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    argv = inside(NodeSpec(name="n", user=me), ["printf", "%s\\0", *words])
    seen = subprocess.run(["sh", "-c", shlex.join(argv)], capture_output=True, check=True).stdout
    assert seen.decode("utf-8").split("\0")[: max(1, len(words))] == (words or [""])


def test_attach_names_the_whole_way() -> None:
    address = SshAddress(host="gpubox", port=2222, user="root", via="me@jump:22")
    spec = NodeSpec(name="box", ssh=address, container=Container(kind="lxc", id="c-1"))
    argv = attach_argv(spec, ["tmux", "attach", "-t", "r 1"])
    assert argv[:8] == ["ssh", "-t", "-p", "2222", "-l", "root", "-J", "me@jump:22"]
    assert argv[8:10] == ["--", "gpubox"]
    there = shlex.split(argv[10])
    assert there[:4] == ["lxc-attach", "-n", "c-1", "--"]
    assert there[-4:] == ["tmux", "attach", "-t", "r 1"]


def test_attach_on_this_machine_needs_no_ssh() -> None:
    assert attach_argv(NodeSpec(name="local"), ["tmux", "attach"])[-2:] == ["tmux", "attach"]


@pytest.mark.parametrize(
    ("term", "named", "seen"),
    [
        ("", None, "xterm-256color"),
        ("screen", None, "screen"),
        ("xterm", "screen-256color", "screen-256color"),
        ("", "vt100", "vt100"),
        ("screen", "xterm-nobody-knows", "xterm-256color"),
        ("xterm-nobody-knows", None, "xterm-256color"),
    ],
)
def test_attach_has_a_terminal_type_that_the_node_knows(term: str, named: str | None, seen: str) -> None:
    argv = attach_argv(NodeSpec(name="local"), ["sh", "-c", "echo $TERM"], term=named)
    done = subprocess.run(argv, env={"TERM": term, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == seen
