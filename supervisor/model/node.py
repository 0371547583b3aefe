"""A node: a container or a plain machine where runs live, and how to reach it."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from supervisor.model.noun import Moment, Noun

NODE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
LOGIN_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.@+\\$-]{0,63}$"
HOST_NAME = r"^[A-Za-z0-9_:\[][A-Za-z0-9_.:%\[\]-]{0,252}$"
JUMP_HOST = r"^([A-Za-z0-9_][A-Za-z0-9_.+\\$-]{0,63}@)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}(:[0-9]{1,5})?$"
CONTAINER_NAME = r"^([A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,252})?$"
"""Empty where none is named. What else a shell or a sudoers file could read into it has no place in a name."""
ONE_WORD = r"^[^\x00-\x1f\x7f]+$"
TERM_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$"
"""The type of a terminal, as in TERM."""
ContainerKind = Literal["pct", "lxc", "incus", "docker", "prefix"]


class SshAddress(Noun):
    """Where sshd listens, as asyncssh and ssh_config understand it."""

    host: Annotated[str, Field(pattern=HOST_NAME)]
    """A name, an address, or a `Host` of ssh_config."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """None: what ssh_config says, else 22."""
    user: Annotated[str, Field(pattern=LOGIN_NAME)] | None = None
    via: Annotated[str, Field(pattern=JUMP_HOST)] | None = None
    """A jump host, `[user@]host[:port]`."""


class Container(Noun):
    """The container on that machine."""

    kind: ContainerKind
    id: Annotated[str, Field(pattern=CONTAINER_NAME)] = ""
    """Its id or name; empty for `prefix`."""
    sudo: bool = False
    """Put `sudo -n` before the prefix."""
    prefix: tuple[Annotated[str, Field(pattern=ONE_WORD)], ...] = ()
    """For `prefix`: the argv that is put before the probe's command."""

    @model_validator(mode="after")
    def _complete(self) -> "Container":
        if self.kind == "prefix":
            if not self.prefix:
                raise ValueError("kind prefix needs `prefix`: the argv that enters the container")
        elif not self.id or self.id.startswith("-"):
            raise ValueError(f"kind {self.kind} needs `id`: the container's id or name, not starting with '-'")
        return self


class NodeSpec(Noun):
    """A node as a person added it."""

    name: Annotated[str, Field(pattern=NODE_NAME)]
    ssh: SshAddress | None = None
    """None: this machine, as a local process."""
    container: Container | None = None
    user: Annotated[str, Field(pattern=LOGIN_NAME)] | None = None
    """Who runs live as; None: whoever the login or the container gives."""
    python: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-][^\x00-\x1f\x7f]*$")] | None = None
    """The interpreter for the probe; None: the first `python3` >= 3.10 in PATH."""
    host_keys: tuple[str, ...] = ()
    """Pinned host keys in OpenSSH's format; empty: known_hosts decides."""

    @property
    def shown(self) -> str:
        """The node, always whole: `gpubox / ct 200`."""
        machine = self.ssh.host if self.ssh else "this machine"
        if self.container is None:
            return machine
        word = {"pct": "ct", "prefix": "prefix"}.get(self.container.kind, self.container.kind)
        return f"{machine} / {word} {self.container.id or ' '.join(self.container.prefix)}"


class LinkState(Noun):
    """Whether Vigil sees the node; blindness is no failure."""

    ok: bool
    last_seen: Moment | None = None
    error: str | None = None
    """Why not, in one sentence."""
    code: str | None = None
    """The error's code."""


class Missing(Noun):
    """Something that a node lacks."""

    what: str
    costs: str
    """What Vigil cannot do without it."""
    mend: str
    """The command that mends it."""


class Gpu(Noun):
    """A device as NVML names it."""

    uuid: str
    index: int
    name: str
    total_bytes: int | None


class NodeFacts(Noun):
    """What `hello` says of a node."""

    versions: dict[str, str | None] = {}
    """`python`, `tmux`, `probe`, `driver`, `kernel`."""
    boot_id: str | None = None
    pid1_start_ticks: int | None = None
    clock_unix_s: float | None = None
    user: str | None = None
    home: str | None = None
    hostname: str | None = None
    gpus: tuple[Gpu, ...] = ()
    gpus_reason: str | None = None
    """Why there are none, where there are none."""
    limits: dict[str, str | int | float | None] = {}
    """`memory_bytes` with `memory_source`, `cpus`, `nofile`, `shm_bytes`, `disk_free_bytes`, …"""
    missing: tuple[Missing, ...] = ()

    def chosen(self, gpus: Literal["all"] | tuple[int, ...]) -> tuple[Gpu, ...]:
        """The devices that `gpus` of a spec asks for, in the node's order; one that is not there is left out."""
        return tuple(gpu for gpu in self.gpus if gpus == "all" or gpu.index in gpus)
