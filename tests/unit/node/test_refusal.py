"""What logins, container tools and shells say instead of starting the probe."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.errors import ContainerDown, NodeUnfit, NodeUnreachable, VigilError
from supervisor.model.node import Container, NodeSpec, SshAddress
from supervisor.node.refusal import NoCommand, NoStart, NoUser, SudoRefused, explain, unfit

SSH = SshAddress(host="gpubox")


def node(kind: str = "pct") -> NodeSpec:
    """A container of that kind."""
    return NodeSpec(name="box", ssh=SSH, container=Container(kind=kind, id="200"))  # type: ignore[arg-type]


PLAIN = NodeSpec(name="plain", ssh=SSH)


@pytest.mark.parametrize(
    ("spec", "status", "said", "kind", "word"),
    [
        (node("lxc"), 1, "lxc-attach: x: ../src/lxc/attach.c: get_attach_context: 406 Connection refused - Failed to"
         " get init pid", ContainerDown, "lxc-start"),
        (node("pct"), 255, "container '200' not running!", ContainerDown, "pct start 200"),
        (node("pct"), 255, "CT 200 not running", ContainerDown, "pct start 200"),
        (node("pct"), 2, "Configuration file 'nodes/pve/lxc/200.conf' does not exist", ContainerDown, "pct list"),
        (node("docker"), 1, "Error response from daemon: No such container: 200", ContainerDown, "docker ps -a"),
        (node("docker"), 1, "Error response from daemon: container 0af is not running", ContainerDown, "docker start"),
        (node("docker"), 1, "Error response from daemon: Container 0af is paused, unpause the container before exec",
         ContainerDown, "docker start"),
        (node("incus"), 1, "Error: Instance is not running", ContainerDown, "incus start"),
        (node("incus"), 1, 'Error: Failed to fetch instance "200" in project "default": Instance not found',
         ContainerDown, "incus list"),
        (node("lxc"), 127, 'lxc_attach_run_command: 1841 No such file or directory - Failed to exec "python3"',
         NodeUnfit, "install python3"),
        (node("docker"), 126, 'OCI runtime exec failed: exec failed: unable to start container process: exec: "python3"'
         ": executable file not found in $PATH: unknown", NodeUnfit, "install python3"),
        (PLAIN, 127, "bash: line 1: python3: command not found", NodeUnfit, "install python3"),
        (PLAIN, 127, "zsh:1: command not found: python3", NodeUnfit, "install python3"),
        (PLAIN, 127, "fish: Unknown command: python3", NodeUnfit, "install python3"),
        (PLAIN, 127, "sh: 1: python3: not found", NodeUnfit, "install python3"),
        (node("pct"), 127, "bash: line 1: pct: command not found", NoCommand, "another kind"),
        (node("pct"), 1, "sudo: a password is required", SudoRefused, "LOGIN ALL=(root) NOPASSWD: "),
        (node("pct"), 1, "Sorry, user me is not allowed to execute '/usr/bin/lxc-attach -n b -- x' as root on gpubox.",
         SudoRefused, "NOPASSWD"),
        (node("pct"), 1, "sudo: sorry, you must have a tty to run sudo", SudoRefused, "NOPASSWD"),
        (PLAIN.model_copy(update={"user": "train"}), 1, "su: user train does not exist or the user entry does not"
         " contain all the required fields", NoUser, "Create the user"),
        (PLAIN.model_copy(update={"user": "train"}), 1, "This account is currently not available.", NoUser, "shell"),
        (PLAIN, None, "", NodeUnreachable, ""),
        (PLAIN, 1, "Please login as the user \"debian\" rather than the user \"root\".", NoStart, ""),
    ],
)  # fmt: skip
def test_wordings(spec: NodeSpec, status: int | None, said: str, kind: type[VigilError], word: str) -> None:
    error = explain(spec, status, f"Welcome to gpubox!\n{said}\n")
    assert type(error) is kind
    assert word in error.remedy
    assert spec.shown in error.detail


@given(status=st.none() | st.integers(0, 255), said=st.text())
def test_anything_gives_an_error_that_is_not_endless(status: int | None, said: str) -> None:
    assert len(str(explain(node(), status, said))) < 4000


@pytest.mark.parametrize("said", ["", "{}", "[1]", '{"what": "bundle", "detail": "x"}', "\0"])
def test_unfit_reads_whatever_the_boot_program_says(said: str) -> None:
    assert isinstance(unfit(PLAIN, said), NodeUnfit)
