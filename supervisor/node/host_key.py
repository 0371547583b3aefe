"""The keys of both sides: the host key that a machine shows, for a person to compare and to pin with `vigil node add`,
and the daemon's own, which that machine lets in or not."""

import contextlib

from supervisor.model.errors import InvalidInput, NodeUnreachable
from supervisor.model.node import NodeSpec
from supervisor.model.noun import Noun
from supervisor.node.connection import Connections, Machine
from supervisor.node.keys import own_public_line, public_line
from supervisor.node.options import LinkOptions


class HostKey(Noun):
    """The key that a machine shows at present; showing it trusts nothing."""

    fingerprint: str
    """`SHA256:…`, as `ssh-keygen -l` prints it."""
    line: str
    """`ssh-ed25519 AAAA…`, for `NodeSpec.host_keys`."""


async def host_key(spec: NodeSpec, options: LinkOptions) -> HostKey:
    """Asks the node's machine. NodeUnreachable where it shows none; InvalidInput for a node without SSH."""
    if spec.ssh is None:
        raise InvalidInput(f"{spec.shown} is reached without SSH: it has no host key.")
    key = await Connections.of(options).host_key(Machine.of(spec))
    return HostKey(fingerprint=key.get_fingerprint(), line=public_line(key))


class OwnKey(Noun):
    """The daemon's own key."""

    line: str
    """Its line for `authorized_keys`."""
    accepted: bool | None
    """Whether the node's login lets it in; None where nobody can say, or where there is no login."""


async def own_key(spec: NodeSpec, options: LinkOptions) -> OwnKey:
    """The daemon's key, made when it is not there yet, and whether the node's machine lets it in."""
    accepted = None
    if spec.ssh is not None:
        with contextlib.suppress(NodeUnreachable):
            accepted = await Connections.of(options).lets_own_key_in(Machine.of(spec))
    return OwnKey(line=own_public_line(options.data_folder), accepted=accepted)
