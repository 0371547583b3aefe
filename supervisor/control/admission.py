"""Whether a run may start now: its devices are free, and nobody was there before it."""

from collections.abc import Callable
from dataclasses import dataclass

from supervisor.control.act import visible_gpus
from supervisor.control.adoption import is_beginning
from supervisor.model.claim import Contender
from supervisor.model.node import NodeFacts
from supervisor.node.link import Link
from supervisor.remedy.claims import why_not
from supervisor.store.records import RunRecord, Waiting
from supervisor.store.store import Store


@dataclass(frozen=True, slots=True)
class Admission:
    """What was found."""

    why_not: str | None = None
    """Why it must wait; None: it may start."""
    takes: tuple[str, ...] | None = None
    """The devices that are to be written down as its own with the start; None: it has what it needs."""


async def ask(
    store: Store, link: Link, record: RunRecord, facts_of_node: Callable[[str], NodeFacts | None]
) -> Admission:
    """Asked before every launch. What a run has claimed stays its own over all its attempts, so a restart waits for
    nobody. The answer may be out of date at once: the store refuses a device that was taken meanwhile.

    `facts_of_node`: what a node has said of itself, None while it is not seen. InvalidInput where the spec names a
    device that its node does not have, NodeUnreachable where the node must be asked and cannot.
    """
    if record.after is not None and not is_beginning(record) and (reason := await _awaited(store, record)):
        return Admission(why_not=reason)
    has = record.run.claims
    if has and not (link.facts and link.facts.gpus):
        # The driver does not answer at present: what was claimed stays claimed.
        return Admission()
    wants = tuple(await visible_gpus(link, record.spec) or ())
    if is_beginning(record):
        # It runs already: there is nothing to wait for, and whose device it shares keeps it.
        taken = await store.claimed()
        return Admission(takes=tuple(uuid for uuid in wants if taken.get(uuid, record.run.name) == record.run.name))
    if record.after is None and set(wants) <= set(has):
        return Admission(takes=None if wants == has else wants)
    others = await store.waiting()
    me = next((each.contender for each in others if each.contender.id == record.run.id), None)
    if me is None:
        return Admission(why_not="it is not wanted any more")
    rivals = [_wanting(each, facts_of_node) for each in others if each.contender.id != me.id]
    index_of = {gpu.uuid: gpu.index for gpu in link.facts.gpus} if link.facts else {}
    reason = why_not(me.model_copy(update={"wants": wants, "claims": has}), rivals, index_of)
    return Admission(why_not=reason, takes=wants)


async def _awaited(store: Store, record: RunRecord) -> str | None:
    """The run that it is to come after, for a person. It may be asked for days, so the node is not asked."""
    others = [each.contender for each in await store.waiting()]
    me = next((each for each in others if each.id == record.run.id), None)
    return why_not(me, [each for each in others if each.id != me.id], {}) if me is not None else None


def _wanting(waiting: Waiting, facts_of_node: Callable[[str], NodeFacts | None]) -> Contender:
    facts = facts_of_node(waiting.node)
    if facts is None or not waiting.gpus:
        return waiting.contender
    chosen = tuple(gpu.uuid for gpu in facts.chosen(waiting.gpus))
    return waiting.contender.model_copy(update={"wants": chosen})
