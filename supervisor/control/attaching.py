"""Which terminal a person gets to see, and how it says that its attempt has ended."""

from supervisor.control.written import last_of
from supervisor.model.errors import NotFound
from supervisor.model.node import NodeSpec
from supervisor.model.run import Attachment, Attempt, Run, ending_of
from supervisor.node.link import Link
from supervisor.node.reach import attach_argv
from supervisor.store.records import RunRecord


async def attach(
    link: Link, node: NodeSpec, record: RunRecord, *, write: bool, attempt: int | None = None, term: str | None = None
) -> Attachment:
    """The command that shows the attempt's terminal (default: the newest's); read-only unless `write`.

    `term`: the type of the person's terminal. NotFound where there is no such attempt, or where it has ended and its
    session is gone; then it says where its log is.
    """
    chosen = _chosen(record, attempt)
    ended = ending_of(chosen)
    try:
        argv = await link.session(record.run.id, chosen.no, label=f"vigil: {ended}" if ended else None)
    except NotFound as error:
        if ended is None:
            raise
        raise _gone(record.run, chosen, ended) from error
    shown = attach_argv(node, argv if write else [*argv, "-r"], term=term)
    return Attachment(argv=tuple(shown), attempt=chosen.no, ended=ended)


def _chosen(record: RunRecord, number: int | None) -> Attempt:
    last = last_of(record)
    if last is None:
        raise NotFound(f"{record.run.name} was never launched.")
    if number is None:
        return last.attempt
    if number not in record.records:
        raise NotFound(
            f"Run {record.run.name} has no attempt {number}.", remedy=f"It has {len(record.records)}: 1 is the first."
        )
    return record.records[number].attempt


def _gone(run: Run, attempt: Attempt, ended: str) -> NotFound:
    return NotFound(
        f"The terminal of attempt {attempt.no} of {run.name} is gone: {ended}; only the last dead sessions are kept.",
        remedy=f"Its log is: vigil logs {run.name} --attempt {attempt.no}",
    )
