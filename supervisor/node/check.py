"""`vigil node check`: what is there, what is missing, how to mend it."""

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
from supervisor.model.noun import Noun
from supervisor.node import decode
from supervisor.node.connection import Connections, Machine
from supervisor.node.opening import open_channel
from supervisor.node.options import LinkOptions
from supervisor.node.refusal import NoCommand, NoStart

_HELLO_S = 15.0
CLOCK_S = 30.0
"""A node's clock may differ so much before times of its log mislead a person."""


class CheckRow(Noun):
    """One thing that was looked at."""

    what: str
    ok: bool
    found: str
    mend: str | None = None
    """What to do about it, where it is not right."""


async def check(spec: NodeSpec, options: LinkOptions) -> list[CheckRow]:
    """Goes the whole way in once; stops at the first thing without which nothing behind it can be seen.

    Never raises for a node that is wrong: that is what the rows say.
    """
    connections = Connections.of(options)
    if spec.ssh is not None:
        connections.join(Machine.of(spec))
    try:
        channel = await open_channel(spec, options)
        try:
            frame = await channel.call("hello", {}, deadline_s=_HELLO_S)
        finally:
            await channel.close()
        facts = decode.noun(NodeFacts, frame.header["result"])
    except VigilError as error:
        stage = _stage(spec, error)
        failed = CheckRow(what=stage, ok=False, found=error.detail, mend=error.remedy or None)
        return [*_passed(spec, before=stage), failed]
    finally:
        if spec.ssh is not None:
            await connections.leave(Machine.of(spec))
    return [*_passed(spec, before="python"), *_fitness(spec, facts, options)]


_STAGES = ("reach", "host key", "login", "container", "python")


def _stage(spec: NodeSpec, error: VigilError) -> str:
    match error:
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
    found = {"container": "entered"}
    if spec.ssh is not None:
        found |= {"reach": f"{spec.ssh.host} answers", "host key": "known", "login": "let in"}
    else:
        found["reach"] = "this machine"
    if spec.container is None:
        del found["container"]
    stages = _STAGES[: _STAGES.index(before)]
    return [CheckRow(what=stage, ok=True, found=found[stage]) for stage in stages if stage in found]


def _fitness(spec: NodeSpec, facts: NodeFacts, options: LinkOptions) -> list[CheckRow]:
    """What `hello` found."""
    missing = {row.what: row for row in facts.missing}
    versions = facts.versions
    rows = [CheckRow(what="python", ok=True, found=versions.get("python") or "found")]
    tmux = versions.get("tmux")
    absent = missing.pop("tmux", None)
    mend = absent.mend if absent else f"apt-get install tmux in {spec.shown}"
    rows.append(CheckRow(what="tmux", ok=tmux is not None, found=tmux or "not there", mend=None if tmux else mend))
    if facts.clock_unix_s is not None:
        behind_s = options.clock().timestamp() - facts.clock_unix_s
        right = abs(behind_s) <= CLOCK_S
        found = "agrees" if right else f"differs by {behind_s:.0f} s"
        rows.append(
            CheckRow(what="clock", ok=right, found=found, mend=None if right else "Start a time service there.")
        )
    gpus = f"{len(facts.gpus)}: {', '.join(gpu.name for gpu in facts.gpus)}" if facts.gpus else facts.gpus_reason
    rows.append(CheckRow(what="gpus", ok=True, found=gpus or "none"))
    rows += [CheckRow(what=row.what, ok=False, found=row.costs, mend=row.mend) for row in missing.values()]
    return rows
