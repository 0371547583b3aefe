"""The first attempt of a run: what lies on its node, what a person chose, and which checkpoints are the run's own."""

from supervisor.control.written import facts_of
from supervisor.model.begin import Begin, Lying
from supervisor.model.decision import Restart
from supervisor.model.observation import Checkpoint, Observation
from supervisor.model.spec import Spec
from supervisor.node.link import Link
from supervisor.probe.wire import CheckpointPlan
from supervisor.remedy.beginning import objection
from supervisor.store.records import RunRecord

NO_STEP = -1
"""The step of a checkpoint whose name holds none: below every other."""


async def look(link: Link, spec: Spec, begin: Begin) -> Lying:
    """What lies there. NodeUnreachable where nobody can say."""
    if spec.checkpoint is None and begin.checkpoint is None:
        return Lying()
    plan = spec.checkpoint
    args = CheckpointPlan(path=plan.path, step=plan.step, complete=plan.complete) if plan else None
    return await link.lying(spec.workdir, args, begin.checkpoint)


async def first(link: Link, record: RunRecord, plan: Restart) -> tuple[Restart, Lying | None]:
    """The plan of the launch that comes, and what lies there before it; InvalidInput where it must not begin so.

    Only a first launch is looked at: what comes later has its own checkpoints, and what is adopted has begun already.
    """
    if record.run.attempts or (record.request is not None and record.request.adopts is not None):
        return plan, None
    lying = await look(link, record.spec, record.begin)
    if error := objection(record.spec, record.begin, lying):
        raise error
    if lying.asked is None:
        return plan, lying
    hypothesis = f"It goes on from {lying.asked.path}."
    changes = {"checkpoint": lying.asked.path, "checkpoint_step": lying.asked.step, "hypothesis": hypothesis}
    return plan.model_copy(update=changes), lying


def own(record: RunRecord, seen: Observation) -> Observation:
    """The observation without the checkpoints that are older than the run; the program that finds its checkpoint
    itself finds those too."""
    if not seen.checkpoints or not record.records or record.spec.resume == "auto":
        return seen
    older = facts_of(record.records[min(record.records)]).older
    kept = tuple(one for one in seen.checkpoints if older.get(one.path, 0.0) != one.modified_unix_s)
    return seen if len(kept) == len(seen.checkpoints) else seen.model_copy(update={"checkpoints": kept})


def older_of(lying: Lying | None) -> dict[str, float | None]:
    """Path and time of what lay there before the run; written anew it is the run's own."""
    return {one.path: one.modified_unix_s for one in (lying.found or ())} if lying else {}


def origin(record: RunRecord) -> Checkpoint | None:
    """The checkpoint that the run began from, as a person chose it: what a restart goes back to while it has none of
    its own."""
    if not record.records:
        return None
    row = record.records[min(record.records)]
    path = facts_of(row).resumed_path
    if path is None:
        return None
    step = row.attempt.resumed_from
    return Checkpoint(step=NO_STEP if step is None else step, path=path, complete=True)
