"""What a login, a container tool or a shell said instead of starting the probe, read as an error of ours."""

import json
import re

from supervisor.model.errors import ContainerDown, NodeUnfit, NodeUnreachable, VigilError
from supervisor.model.node import NodeSpec
from supervisor.node.bundle import OLDEST_PYTHON
from supervisor.node.reach import sudoers_line

_SHOWN_CHARACTERS = 2000

_CONTAINER_DOWN = re.compile(
    r"(?P<lxc>Failed to get init pid|Failed to get attach context)"
    r"|container '?\S+'? (?:is )?not running"
    r"|CT \S+ (?:is )?not running"
    r"|(?P<absent>Configuration file '\S+' does not exist"
    r"|No such container|[Ii]nstance not found|not found: instance|Failed to fetch instance)"
    r"|[Ii]nstance is not running|[Cc]ontainer is not running|is paused, unpause"
    r"|The instance is (?:frozen|stopped)"
)
_NOT_FOUND = re.compile(
    r"Failed to exec \"(?P<lxc>[^\"]+)\""
    r"|(?:exec: )?\"(?P<oci>[^\"]+)\": (?:executable file not found|stat [^:]+: no such file)"
    r"|(?:^|[\s:])(?P<sh>[^\s:]+): (?:command )?not found(?!:)"
    r"|command not found: (?P<zsh>\S+)"
    r"|[Uu]nknown command:? '?(?P<fish>[^\s']+)"
    r"|env: [‘'](?P<env>[^’']+)[’']: No such file"
    r"|exec: (?P<dash>[^\s:]+): No such file"
    r"|(?:^|[\s:])(?P<path>/\S+): No such file or directory",
    re.MULTILINE,
)
_SUDO = re.compile(
    r"sudo: (?:a password is required|a terminal is required|.* is not in the sudoers|sorry, you must have a tty)"
    r"|Sorry, user \S+ (?:is not allowed|may not run sudo)|\S+ is not in the sudoers file"
)
_SU = re.compile(
    r"su: (?:user (?P<user>\S+) does not exist|unknown user (?P<busybox>\S+)"
    r"|Authentication failure|must be run from|This account is currently not available)"
    r"|This account is currently not available"
)


class NoCommand(NodeUnfit):
    """The command that enters the node, its container or its user is not there."""


class SudoRefused(NodeUnfit):
    """sudo does not let that login run the command without a password."""


class NoUser(NodeUnfit):
    """That user cannot be used on the node."""


class NoStart(NodeUnreachable):
    """The way in is there, but the probe did not start behind it."""


def unfit(spec: NodeSpec, said: str) -> NodeUnfit:
    """What the boot program found missing; `said` is its JSON."""
    try:
        report = json.loads(said)
        what, detail = str(report["what"]), str(report["detail"])
    except (ValueError, KeyError, TypeError):
        what, detail = "probe", said
    if what == "python":
        return _no_python(spec, f"{spec.shown}: {detail}, and there is no newer one in PATH, venv, conda or uv.")
    return NodeUnfit(f"{spec.shown}: {detail}.")


def explain(spec: NodeSpec, status: int | None, said: str) -> VigilError:
    """Why the probe did not start, from the command's exit status and everything that was printed."""
    said = said.strip()
    if found := _CONTAINER_DOWN.search(said):
        return _container_down(spec, said, absent=found["absent"] is not None)
    if _SUDO.search(said):
        return SudoRefused(
            f"{spec.shown}: sudo asks for a password, or does not allow the command. {_tail(said)}",
            remedy="On that machine, as root, let the login run this one command without a password: "
            f"`visudo -f /etc/sudoers.d/vigil`, with the line {sudoers_line(spec)}",
        )
    if _SU.search(said):
        return NoUser(
            f"{spec.shown}: the user {spec.user!r} cannot be used there. {_tail(said)}",
            remedy="Create the user on the node, give it a login shell, or name another one.",
        )
    if status in {126, 127} and (missing := _missing_command(said)):
        return _not_found(spec, missing)
    if status is None:
        return NodeUnreachable(f"{spec.shown}: the connection ended before the probe spoke. {_tail(said)}".strip())
    if status in {126, 127}:
        return _no_python(spec, f"{spec.shown}: {spec.python or 'python3'} cannot be started. {_tail(said)}")
    return NoStart(f"{spec.shown}: the probe did not start (exit status {status}). {_tail(said)}".strip())


def cannot_start(spec: NodeSpec, argv: list[str]) -> VigilError:
    """The first word of a local command does not exist."""
    return _not_found(spec, argv[0])


def _container_down(spec: NodeSpec, said: str, *, absent: bool) -> ContainerDown:
    container = spec.container
    if container is None:
        return ContainerDown(f"{spec.shown}: {_tail(said)}")
    start = {
        "pct": f"pct start {container.id}",
        "lxc": f"lxc-start -n {container.id}",
        "incus": f"incus start {container.id}",
        "docker": f"docker start {container.id}",
        "prefix": "its own start command",
    }[container.kind]
    listing = {"pct": "pct list", "lxc": "lxc-ls -f", "incus": "incus list", "docker": "docker ps -a"}
    return ContainerDown(
        f"{spec.shown}: there is no such container." if absent else f"{spec.shown}: the container is not running.",
        remedy=f"`{listing.get(container.kind, 'The tool')}` there shows what exists; `{start}` starts it. "
        "Vigil starts no container by itself.",
    )


def _missing_command(said: str) -> str | None:
    found = _NOT_FOUND.search(said)
    return next((name for name in found.groups() if name), None) if found else None


def _not_found(spec: NodeSpec, command: str) -> NodeUnfit:
    python = spec.python or "python3"
    if command == python or "python" in command.rpartition("/")[2]:
        return _no_python(spec, f"{spec.shown}: there is no {python}.")
    return NoCommand(
        f"{spec.shown}: there is no command {command!r}.",
        remedy="Is the node's container of another kind, or is the command outside of the PATH that a login without "
        "a terminal gets? `vigil node check` shows how Vigil goes in.",
    )


def _no_python(spec: NodeSpec, detail: str) -> NodeUnfit:
    return NodeUnfit(
        detail,
        remedy=f"The probe needs Python {OLDEST_PYTHON} or newer: `apt-get install python3` in "
        f"{spec.shown}, or name an interpreter's path in the node's `python`.",
    )


def _tail(said: str) -> str:
    return said[-_SHOWN_CHARACTERS:].strip()
