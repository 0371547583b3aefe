"""From the record to what remedy must know. Pure."""

from supervisor.control.beginning import origin
from supervisor.control.written import facts_of, last_of
from supervisor.model.code import Code
from supervisor.model.run import LinkView, Run
from supervisor.remedy.context import RemedyContext
from supervisor.store.records import RunRecord


def remedy_context(record: RunRecord, *, code_now: Code | None = None) -> RemedyContext:
    """The facts around a decision about this run. `code_now`: what lies in its work folder, where it was asked."""
    last = last_of(record)
    rows = {number: facts_of(row) for number, row in record.records.items()}
    facts = rows[last.attempt.no] if last else None
    checkpoints = facts.checkpoints if facts else None
    began_from = origin(record)
    candidates = checkpoints or ()
    if began_from is not None and all(one.path != began_from.path for one in candidates):
        candidates = (began_from, *candidates)
    return RemedyContext(
        file_text=facts.file_text if facts else None,
        checkpoints=candidates,
        checkpoints_known=checkpoints is not None or record.spec.checkpoint is None,
        progress_made=any(
            row.attempt.last_step is not None or rows[number].checkpoint_seen_at is not None
            for number, row in record.records.items()
        ),
        blind_for_s=facts.unseen_s if facts else 0.0,
        request=record.request.kind if record.request else None,
        checkpoint_at_launch={number: one.checkpoint_at_launch for number, one in rows.items()},
        checkpoint_seen_at=facts.checkpoint_seen_at if facts else None,
        code_now=code_now,
    )


def seen_run(record: RunRecord) -> Run:
    """The run as decided upon: the store keeps no link, and whoever decides is about to ask the node anyway."""
    return record.run.model_copy(update={"link": LinkView(ok=True)})
