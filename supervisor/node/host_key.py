"""The host key that a machine shows, for a person to compare and to pin with `vigil node add`."""

from supervisor.model.errors import InvalidInput
from supervisor.model.node import NodeSpec
from supervisor.model.noun import Noun
from supervisor.node.connection import Connections, Machine
from supervisor.node.keys import public_line
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
