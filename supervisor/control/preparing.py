"""From the plan of a launch to the attempt that is written down before it: what is asked of store and node for that."""

import asyncio
from datetime import datetime

from supervisor.control import act, admission, adoption, beginning, between, proving
from supervisor.control.surroundings import Surroundings
from supervisor.control.written import Written
from supervisor.model.decision import Restart
from supervisor.store.records import RunRecord


async def prepared(around: Surroundings, record: RunRecord, plan: Restart, now: datetime) -> Written | str:
    """The write that comes before the launch: the next attempt, or what was decided instead. A sentence where the run
    must wait for other runs.

    InvalidInput, NotFound or CallRefused where it cannot be launched as it is, NodeUnreachable where nobody can say.
    """
    entry = await admission.ask(around.store, around.link, record, around.facts_of_node)
    if entry.why_not is not None:
        return entry.why_not
    if not adoption.is_beginning(record):
        await around.secrets.complete(record.spec)
    text = await act.configuration_text(around.link, record.spec)
    decision = await proving.vetted(around.store, around.link, record, plan, text, now)
    if not isinstance(decision, Restart):
        return between.settled(record, decision, now)
    plan, lying = await beginning.first(around.link, record, decision)
    # A thread: the configuration is read and written, and other runs are watched meanwhile.
    change = await asyncio.to_thread(between.planned, record, plan, text, now, takes=entry.takes, lying=lying)
    return proving.marked(change, record.spec, around.link.facts, text)
