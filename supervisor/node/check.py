"""`vigil node check`: what is there, what is missing, how to mend it."""

from collections.abc import Mapping
from typing import Any

from supervisor.model.errors import (
    ContainerDown,
    HostKeyChanged,
    HostKeyUnknown,
    LoginRefused,
    NodeUnfit,
    NodeUnreachable,
    VigilError,
)
from supervisor.model.node import NodeFacts, NodeSpec
from supervisor.node import decode, fitness
from supervisor.node.connection import Connections, Machine
from supervisor.node.fitness import CheckRow
from supervisor.node.opening import open_channel
from supervisor.node.options import LinkOptions
from supervisor.node.refusal import NoCommand, NoStart, NoUser, SudoRefused

__all__ = ["CLOCK_S", "CheckRow", "check"]

_HELLO_S = 15.0
_FITNESS_S = 45.0
"""A driver that sleeps takes seconds until it says how many devices there are."""
CLOCK_S = 30.0
"""A node's clock may differ so much before times of its log mislead a person."""


async def check(spec: NodeSpec, options: LinkOptions, *, paths: Mapping[str, str] | None = None) -> list[CheckRow]:
    """Goes the whole way in once; stops at the first thing without which nothing behind it can be seen.

    `paths` are further folders there whose free disk is shown, by what they are for. Never raises for a node that is
    wrong: that is what the rows say.
    """
    connections = Connections.of(options)
    if spec.ssh is not None:
        connections.join(Machine.of(spec))
    try:
        facts, seen = await _asked(spec, options, dict(paths or {}))
    except VigilError as error:
        stage = _stage(spec, error)
        failed = CheckRow(what=stage, ok=False, found=error.detail, mend=error.remedy or None)
        return [*_passed(spec, before=stage), failed]
    finally:
        if spec.ssh is not None:
            await connections.leave(Machine.of(spec))
    return [*_passed(spec, before="python"), *_who(facts), *fitness.rows(spec, facts, seen), *_clock(facts, options)]


async def _asked(spec: NodeSpec, options: LinkOptions, paths: dict[str, str]) -> tuple[NodeFacts, dict[str, Any]]:
    channel = await open_channel(spec, options)
    try:
        frame = await channel.call("hello", {}, deadline_s=_HELLO_S)
        facts = decode.noun(NodeFacts, frame.header["result"])
        looked = await channel.call("fitness", {"paths": paths}, deadline_s=_FITNESS_S)
        return facts, dict(looked.header["result"])
    finally:
        await channel.close()


_STAGES = ("reach", "host key", "login", "sudo", "container", "user", "python")


def _stage(spec: NodeSpec, error: VigilError) -> str:
    match error:
        case SudoRefused():
            return "sudo" if spec.container and spec.container.sudo else "user"
        case NoUser():
            return "user"
        case NoCommand() | NoStart():
            return "container" if spec.container else "login" if spec.ssh else "python"
        case HostKeyUnknown() | HostKeyChanged():
            return "host key"
        case LoginRefused():
            return "login"
        case ContainerDown():
            return "container"
        case NodeUnfit():
            return "python"
        case NodeUnreachable():
            return "reach"
    return "python"


def _passed(spec: NodeSpec, *, before: str) -> list[CheckRow]:
    """What must have gone well for the way to have come so far."""
    found: dict[str, str] = {}
    if spec.ssh is not None:
        found |= {"reach": f"{spec.ssh.host} answers", "host key": "known", "login": "let in"}
    else:
        found["reach"] = "this machine"
    if spec.container is not None:
        found["container"] = "entered"
        if spec.container.sudo:
            found["sudo"] = "without a password"
    stages = _STAGES[: _STAGES.index(before)]
    return [CheckRow(what=stage, ok=True, found=found[stage]) for stage in stages if stage in found]


def _who(facts: NodeFacts) -> list[CheckRow]:
    """As whom runs live there: said by the probe, which is that user."""
    return [CheckRow(what="user", ok=True, found=f"{facts.user}, {facts.home}")] if facts.user else []


def _clock(facts: NodeFacts, options: LinkOptions) -> list[CheckRow]:
    if facts.clock_unix_s is None:
        return []
    behind_s = options.clock().timestamp() - facts.clock_unix_s
    if abs(behind_s) <= CLOCK_S:
        return [CheckRow(what="clock", ok=True, found="agrees", needed=False)]
    mend = "as root: timedatectl set-ntp true (a container has the clock of its machine)"
    return [CheckRow(what="clock", ok=False, found=f"differs by {behind_s:.0f} s", mend=mend, needed=False)]
