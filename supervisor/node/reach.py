"""How a command gets onto a node: the container's prefix, the user, and the words for SSH."""

import shlex

from supervisor.model.errors import InvalidInput
from supervisor.model.node import Container, NodeSpec, SshAddress
from supervisor.node import boot
from supervisor.node.bundle import Bundle, boot_program

_AS_USER = (
    'if [ "$(id -un)" = "$1" ]; then shift 2; exec "$@"; '
    'elif [ "$(id -u)" = 0 ]; then exec su - "$1" -c "$2"; '
    'else exec sudo -n su - "$1" -c "$2"; fi'
)
"""$1 the user, $2 the command as one word, then the same as an argv. `su -` gives the user's own environment:
`runuser -u` would keep the caller's PATH, `setpriv` its HOME."""

_WITH_TERM = (
    "term=$1; shift; "
    'known() { if command -v infocmp >/dev/null 2>&1; then infocmp "$1" >/dev/null 2>&1; '
    'elif command -v tput >/dev/null 2>&1; then tput -T "$1" clear >/dev/null 2>&1; '
    "else case $1 in xterm|xterm-256color|screen|screen-256color|linux|vt100) ;; *) return 1 ;; esac; fi; }; "
    '[ -n "$term" ] || term=$TERM; '
    'if [ -z "$term" ] || ! known "$term"; then '
    'for term in xterm-256color xterm screen vt100; do known "$term" && break; done; fi; '
    'TERM=$term; export TERM; exec "$@"'
)
"""$1 the person's TERM, empty where it is not known. `docker exec -t` puts its own in its place, and `lxc-attach
--clear-env`, the default of some Proxmox versions, none; tmux refuses to attach without one, and with one that the node
has never heard of (`xterm-ghostty`, `xterm-kitty`): then the nearest that it knows is taken."""
_TOOLS = {"pct": "/usr/sbin/pct"}
"""Where a tool lies, if not in /usr/bin."""


_CANDIDATES = " ".join([*boot.NAMES, *(f"{place}/python3".replace("~", '"$HOME"', 1) for place in boot.PLACES)])
_FIND_PYTHON = (
    f'for p in {_CANDIDATES}; do command -v "$p" >/dev/null 2>&1 && exec "$p" "$@"; done; '
    "echo python3: not found >&2; exit 127"
)
"""The first `python3` of all; where it is too old, it looks for another one by itself."""


def probe_argv(spec: NodeSpec, nonce: str, archive: Bundle) -> list[str]:
    """What starts the probe, run on the machine that SSH reaches (or on this one)."""
    python = [spec.python] if spec.python else ["/bin/sh", "-c", _FIND_PYTHON, "sh"]
    return inside(spec, [*python, "-I", "-u", "-c", boot_program(), nonce, archive.digest, str(len(archive.content))])


def attach_argv(spec: NodeSpec, argv: list[str], *, term: str | None = None) -> list[str]:
    """What a person runs on the control host to run `argv` on the node with a terminal.

    It is the person's own `ssh`, with their own keys and known hosts, not the daemon's. `term`: the type of the
    person's terminal; None: whatever arrives there.
    """
    there = inside(spec, ["sh", "-c", _WITH_TERM, "sh", term or "", *argv], terminal=True)
    return there if spec.ssh is None else [*ssh_words(spec.ssh, "-t"), shlex.join(there)]


def ssh_words(address: SshAddress, *options: str) -> list[str]:
    """The person's own `ssh` to that address; what follows is the command there, as one word."""
    words = ["ssh", *options]
    if address.port is not None:
        words += ["-p", str(address.port)]
    if address.user is not None:
        words += ["-l", address.user]
    if address.via is not None:
        words += ["-J", address.via]
    return [*words, "--", address.host]


def inside(spec: NodeSpec, argv: list[str], *, terminal: bool = False) -> list[str]:
    """`argv` as the node's user in the node's container, for the machine that SSH reaches (or this one)."""
    return [*container_prefix(spec.container, terminal=terminal), *as_user(spec.user, argv)]


def container_prefix(container: Container | None, *, terminal: bool = False) -> list[str]:
    """The words before a command that make it run in the container."""
    if container is None:
        return []
    match container.kind:
        case "pct":
            words = ["pct", "exec", container.id, "--"]
        case "lxc":
            words = ["lxc-attach", "-n", container.id, "--"]
        case "incus":
            words = ["incus", "exec", *(["-t"] if terminal else ["-T"]), container.id, "--"]
        case "docker":
            words = ["docker", "exec", "-it" if terminal else "-i", container.id]
        case "prefix":
            words = list(container.prefix)
    return ["sudo", "-n", *words] if container.sudo else words


def sudoers_line(spec: NodeSpec) -> str:
    """The line that lets the login do by sudo what Vigil needs for this node, and nothing beyond it."""
    login = (spec.ssh.user if spec.ssh else None) or "LOGIN"
    container = spec.container
    if container is not None and container.sudo:
        tool, *words = container_prefix(container)[2:]
        command = " ".join([_TOOLS.get(tool, f"/usr/bin/{tool}"), *words, "*"])
    else:
        command = f"/usr/bin/su - {spec.user or 'USER'} -c *"
    return f"{login} ALL=(root) NOPASSWD: {command}"


def as_user(user: str | None, argv: list[str]) -> list[str]:
    """`argv` in the login environment of `user`; unchanged where none is named or it is that user already.

    Needs root, or sudo without a password. InvalidInput where the name would be read as an option.
    """
    if user is None:
        return argv
    if not user or user.startswith("-"):
        raise InvalidInput(f"{user!r} is no user name.", remedy="Write the login name, such as `train`.")
    return ["sh", "-c", _AS_USER, "sh", user, shlex.join(argv), *argv]
