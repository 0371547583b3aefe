"""Before a launch: was this very point proven bad, by an attempt of any run? After an end: what it proved."""

from dataclasses import replace
from datetime import datetime

from supervisor.control import between
from supervisor.control.written import Written, facts_of, last_of
from supervisor.model.code import Code
from supervisor.model.decision import Decision, GiveUp, Restart
from supervisor.model.errors import CallRefused, InvalidInput, NodeUnreachable, NotFound
from supervisor.model.node import NodeFacts
from supervisor.model.proof import Proof
from supervisor.model.spec import Scalar, Spec
from supervisor.node.link import Link
from supervisor.remedy.configuration import configuration_of
from supervisor.remedy.ledger import Entry, point
from supervisor.remedy.proof import bad, print_of, proves, refusal
from supervisor.store.records import RunRecord
from supervisor.store.store import Store

MAX_TURNS = 32
"""So many points are passed over before Vigil gives up: no ladder is longer."""


def kinds(spec: Spec, facts: NodeFacts | None) -> tuple[str, ...]:
    """The kinds of the devices that the spec would start on."""
    return tuple(gpu.name for gpu in facts.chosen(spec.gpus)) if facts else ()


async def known_bad(
    store: Store, link: Link, spec: Spec, overrides: dict[str, Scalar], file_text: str | None
) -> Proof | None:
    """The attempt that proved this launch bad; None: nobody, or nobody can say. Only where there is a proof is the
    node asked for its code."""
    try:
        mark = print_of(spec, overrides, file_text, kinds(spec, link.facts), spec.node)
    except InvalidInput:
        return None  # the launch itself says what is wrong with it
    proofs = await store.proofs_of([mark]) if mark is not None else []
    if not proofs:
        return None
    return bad(proofs, await _code(link, spec, overrides, file_text))


async def vetted(
    store: Store, link: Link, record: RunRecord, plan: Restart, file_text: str | None, now: datetime
) -> Decision:
    """The plan, where its point is not proven bad. InvalidInput where a person asked for a bad point without saying
    `anyway`. For Vigil's own plan: the next one that is not bad, decided with what the other runs proved."""
    foreign: list[Entry] = []
    decision: Decision = plan
    for _ in range(MAX_TURNS):
        if not isinstance(decision, Restart):
            return decision
        if record.request is not None and (record.request.anyway or record.request.adopts is not None):
            return decision
        proof = await known_bad(store, link, record.spec, decision.overrides, file_text)
        if proof is None:
            return decision
        if record.request is not None or not record.run.attempts:
            error = refusal(proof)
            raise InvalidInput(error.detail, remedy=error.remedy)
        code = record.run.attempts[-1].code
        turned = configuration_of(record.spec, file_text=file_text, overrides=decision.overrides)
        at = point(turned, code, resume=record.spec.resume)
        foreign.append(Entry(attempt=-1 - len(foreign), point=at, cause=proof.cause, good=False, bad=True))
        decision = between.next_plan(record, now, code_now=code, foreign=tuple(foreign))
    return GiveUp(sentence="Every point that the knobs lead to was proved bad, by this run or by others.")


def marked(written: Written, spec: Spec, facts: NodeFacts | None, file_text: str | None) -> Written:
    """The next attempt's row with the fingerprint of its point."""
    overrides = written.attempts[-1].attempt.overrides
    return between.with_print(written, print_of(spec, overrides, file_text, kinds(spec, facts), spec.node))


def proved(written: Written, now: datetime) -> Written:
    """With what the end of the attempt proved, where it proved something."""
    last = last_of(written.after)
    before = last_of(written.before)
    if last is None or not last.ended or before is None or before.ended or last.attempt.outcome is None:
        return written
    mark = facts_of(last).point
    if mark is None or not proves(last.attempt.outcome.cause):
        return written
    command = last.attempt.command
    run = written.after.run
    proof = Proof(
        point=mark,
        code=last.attempt.code,
        run=run.id,
        name=run.name,
        attempt=last.attempt.no,
        cause=last.attempt.outcome.cause,
        at=last.attempt.ended_at or now,
        command=(command if isinstance(command, str) else " ".join(command))[:500],
    )
    return replace(written, proof=proof)


async def _code(link: Link, spec: Spec, overrides: dict[str, Scalar], file_text: str | None) -> Code:
    try:
        command = configuration_of(spec, file_text=file_text, overrides=overrides).command
        return await link.code(spec.workdir, command)
    except (NodeUnreachable, CallRefused, NotFound, InvalidInput):
        return Code()
