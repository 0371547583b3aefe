"""SSH connections: one per machine, shared by the links to its containers."""

import asyncio
import random
import socket
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import asyncssh

from supervisor.model.errors import LoginRefused, NodeUnreachable
from supervisor.model.node import NodeSpec, SshAddress
from supervisor.node.keys import HostKeyCheck, own_key, own_public_line
from supervisor.node.options import LinkOptions
from supervisor.node.pipe import Ear, SharedConnection, SshPipe, close

_KEEPALIVE_S = 15
_KEEPALIVE_MISSES = 3
_CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
"""Before the default ones: a packet costs 0.02 ms with AES-GCM and 0.15 with asyncssh's first choice, ChaCha20. Ciphers
in ssh_config take precedence."""
_JITTER_S = 0.2
"""Before each connect: a daemon that starts does not knock everywhere at the same instant."""


class Machine(NamedTuple):
    """What makes two nodes share a connection: the same address, and the same idea of its host key."""

    address: SshAddress
    pinned: tuple[str, ...]

    @classmethod
    def of(cls, spec: NodeSpec) -> "Machine":
        """The machine that a node's SSH address names."""
        assert spec.ssh is not None
        return cls(spec.ssh, spec.host_keys)


class Connections:
    """All SSH connections of one daemon."""

    def __init__(self, options: LinkOptions) -> None:
        """Use `of`."""
        self._options = options
        self._members: defaultdict[Machine, int] = defaultdict(int)
        self._shared: defaultdict[Machine, list[SharedConnection]] = defaultdict(list)
        self._locks: defaultdict[Machine, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._at_once = asyncio.Semaphore(options.connects_at_once)

    @classmethod
    def of(cls, options: LinkOptions) -> "Connections":
        """The connections that belong to these options."""
        if cls not in options.shared:
            options.shared[cls] = cls(options)
        connections: Connections = options.shared[cls]
        return connections

    def join(self, machine: Machine) -> None:
        """Somebody wants to use the machine until `leave`; its connections stay open meanwhile."""
        self._members[machine] += 1

    async def leave(self, machine: Machine) -> None:
        """Closes the machine's connections after the last user."""
        self._members[machine] -= 1
        if self._members[machine]:
            return
        del self._members[machine]
        self._locks.pop(machine, None)
        for shared in self._shared.pop(machine, []):
            await shared.close()

    async def run(self, machine: Machine, command: str, ear: Ear) -> SshPipe:
        """Runs `command` there over a connection that has room, a new one where none has.

        NodeUnreachable, HostKeyUnknown, HostKeyChanged or LoginRefused where that fails, within twice `connect_s`.
        """
        async with self._locks[machine]:
            connections = self._shared[machine]
            for closed in [shared for shared in connections if shared.connection.is_closed()]:
                connections.remove(closed)
                closed.abort()
            for shared in [shared for shared in connections if shared.usable]:
                pipe = await self._open(machine, shared, command, ear)
                if pipe is not None:
                    return pipe
            fresh = await self._connect(machine)
            connections.append(fresh)
            pipe = await self._open(machine, fresh, command, ear)
        if pipe is None:
            raise NodeUnreachable(
                f"{machine.address.host}: sshd opens no session.",
                remedy="Look at MaxSessions in its sshd_config: Vigil needs one session per container.",
            )
        return pipe

    async def lets_own_key_in(self, machine: Machine) -> bool:
        """Whether the daemon's own key, and no other, is let in. NodeUnreachable and the like where nobody can say."""
        try:
            shared = await self._connect(machine, own_key_only=True)
        except LoginRefused:
            return False
        await shared.close()
        return True

    async def host_key(self, machine: Machine) -> asyncssh.SSHKey:
        """The key that the machine shows now, trusted or not."""
        address = machine.address
        async with self._at_once:
            try:
                async with asyncio.timeout(self._options.connect_s):
                    tunnel = await self._jump(machine)
                    try:
                        place = self._place(address) | ({} if tunnel is None else {"tunnel": tunnel})
                        place.pop("username", None)
                        key = await asyncssh.get_server_host_key(**place)
                    finally:
                        if tunnel is not None:
                            await close(tunnel)
            except (TimeoutError, OSError, ValueError, asyncssh.Error) as error:
                raise unreachable(address, error) from error
        if key is None:
            raise NodeUnreachable(f"{address.host} showed no host key.")
        return key

    async def _open(self, machine: Machine, shared: SharedConnection, command: str, ear: Ear) -> SshPipe | None:
        try:
            async with asyncio.timeout(self._options.connect_s):
                return await SshPipe.start(command, ear, shared)
        except asyncssh.ChannelOpenError:
            shared.full = True
            return None
        except TimeoutError as error:
            shared.abort()
            raise unreachable(machine.address, error) from error
        except (OSError, asyncssh.Error) as error:
            raise unreachable(machine.address, error) from error

    async def _connect(self, machine: Machine, *, own_key_only: bool = False) -> SharedConnection:
        async with self._at_once:
            await asyncio.sleep(random.uniform(0, _JITTER_S))
            address = machine.address
            check = self._check(machine)
            try:
                async with asyncio.timeout(self._options.connect_s):
                    tunnel = await self._jump(machine)
                    arguments = self._arguments(address, check) | ({} if tunnel is None else {"tunnel": tunnel})
                    if own_key_only:
                        own = {"client_keys": [str(own_key(self._options.data_folder))], "agent_path": None}
                        arguments |= own
                    try:
                        connection, _ = await asyncssh.create_connection(lambda: _Client(check), **arguments)
                    except BaseException:
                        if tunnel is not None:
                            tunnel.abort()
                        raise
            except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
                raise check.error(error) from error
            except asyncssh.PermissionDenied as error:
                raise LoginRefused(
                    f"{_spelled(address)} refused the login: {error.reason}.",
                    remedy="Add this line to ~/.ssh/authorized_keys there: "
                    + own_public_line(self._options.data_folder),
                ) from error
            except (TimeoutError, OSError, ValueError, asyncssh.Error) as error:
                raise unreachable(address, error) from error
            return SharedConnection(connection, tunnel)

    async def _jump(self, machine: Machine) -> asyncssh.SSHClientConnection | None:
        """The connection to the jump host, verified by known_hosts like any other."""
        if machine.address.via is None:
            return None
        user, _, place = machine.address.via.rpartition("@")
        host, _, port = place.partition(":")
        address = SshAddress(host=host, port=int(port) if port else None, user=user or None)
        check = self._check(Machine(address, ()))
        try:
            connection, _ = await asyncssh.create_connection(lambda: _Client(check), **self._arguments(address, check))
        except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
            raise check.error(error) from error
        return connection

    def _check(self, machine: Machine) -> HostKeyCheck:
        config = self._config(machine.address)
        files = [*config.get("UserKnownHostsFile", ()), *config.get("GlobalKnownHostsFile", ())]
        if self._options.known_hosts is not None:
            files.insert(0, self._options.known_hosts)
        return HostKeyCheck(_spelled(machine.address), machine.pinned, files)

    def _arguments(self, address: SshAddress, check: HostKeyCheck) -> dict[str, Any]:
        config = self._config(address)
        named = [*self._options.client_keys, *map(Path, config.get("IdentityFile", ()))]
        if self._options.personal_keys:
            named += [Path("~/.ssh/id_ed25519"), Path("~/.ssh/id_ecdsa"), Path("~/.ssh/id_rsa")]
        keys = [own_key(self._options.data_folder), *(key for key in map(Path.expanduser, named) if key.is_file())]
        return {
            **self._place(address),
            **({} if config.get("Ciphers") else {"encryption_algs": _CIPHERS}),
            "known_hosts": check.trusted,
            "client_keys": [str(key) for key in dict.fromkeys(keys)],
            "ignore_encrypted": True,
            "agent_path": () if self._options.personal_keys else None,
            "password_auth": False,
            "kbdint_auth": False,
            "connect_timeout": self._options.connect_s,
            "login_timeout": self._options.connect_s,
            "keepalive_interval": _KEEPALIVE_S,
            "keepalive_count_max": _KEEPALIVE_MISSES,
        }

    def _config(self, address: SshAddress) -> Any:
        """What ssh_config says of that host."""
        return asyncssh.SSHClientConnectionOptions(**self._place(address), client_keys=None, known_hosts=None).config

    def _place(self, address: SshAddress) -> dict[str, Any]:
        place: dict[str, Any] = {"host": address.host, "config": self._config_files()}
        if address.port is not None:
            place["port"] = address.port
        if address.user is not None:
            place["username"] = address.user
        return place

    def _config_files(self) -> list[str] | None:
        path = self._options.ssh_config
        return [str(path)] if path is not None and path.is_file() else None


def unreachable(address: SshAddress, error: BaseException) -> NodeUnreachable:
    """What went wrong on the way, in one sentence."""
    if isinstance(error, NodeUnreachable):
        return error
    where = _spelled(address)
    match error:
        case TimeoutError():
            return NodeUnreachable(f"{where} does not answer.", remedy="Is it switched on, and is the port open?")
        case ConnectionRefusedError():
            return NodeUnreachable(f"{where} refuses the connection.", remedy="Does sshd run there, on that port?")
        case socket.gaierror():
            return NodeUnreachable(f"{where}: no such host name.", remedy="Is the name in DNS or in ssh_config?")
    return NodeUnreachable(f"{where}: {error or type(error).__name__}.")


class _Client(asyncssh.SSHClient):
    """Asks the check where no trusted key matched."""

    def __init__(self, check: HostKeyCheck) -> None:
        self._check = check

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        return self._check.validate(key)


def _spelled(address: SshAddress) -> str:
    user = f"{address.user}@" if address.user else ""
    port = f":{address.port}" if address.port else ""
    via = f" (via {address.via})" if address.via else ""
    return f"{user}{address.host}{port}{via}"
