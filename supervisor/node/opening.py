"""Starting a probe: the way in, then the first words."""

import asyncio
import secrets
import shlex

from supervisor.model.errors import NodeUnreachable, VigilError
from supervisor.model.node import NodeSpec
from supervisor.node.channel import Channel
from supervisor.node.connection import Connections, Machine
from supervisor.node.options import LinkOptions
from supervisor.node.pipe import LocalPipe
from supervisor.node.reach import probe_argv
from supervisor.node.refusal import cannot_start


async def open_channel(spec: NodeSpec, options: LinkOptions) -> Channel:
    """A probe that has spoken. Whoever opens it has joined the machine (`Connections.join`) and closes it.

    Raises, within about three times `connect_s`, the error that says what is wrong: NodeUnreachable, HostKeyUnknown,
    HostKeyChanged, LoginRefused, ContainerDown, NodeUnfit.
    """
    nonce = secrets.token_hex(8)
    archive = options.probe()
    channel = Channel(spec, nonce, archive)
    argv = probe_argv(spec, nonce, archive)
    if spec.ssh is None:
        try:
            channel.attach(await LocalPipe.start(argv, channel))
        except OSError as error:
            raise cannot_start(spec, argv) from error
    else:
        channel.attach(await Connections.of(options).run(Machine.of(spec), shlex.join(argv), channel))
    try:
        async with asyncio.timeout(options.connect_s):
            await channel.ready()
    except TimeoutError as error:
        late = _silent(spec, options, channel)
        await channel.close()
        raise late from error
    except BaseException:
        await channel.close()
        raise
    return channel


def _silent(spec: NodeSpec, options: LinkOptions, channel: Channel) -> VigilError:
    said = channel.said.strip()
    words = f" It printed: {said[-500:]}" if said else ""
    return NodeUnreachable(f"{spec.shown}: the probe did not speak within {options.connect_s:g} s.{words}")
