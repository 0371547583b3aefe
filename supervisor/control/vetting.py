"""What a person asks for, looked at before it is accepted: how a run begins, and whether its point was proven bad."""

from supervisor.control.beginning import look
from supervisor.control.proving import known_bad
from supervisor.control.written import last_of
from supervisor.model.begin import Begin, Lying
from supervisor.model.errors import CallRefused, NodeUnreachable, VigilError
from supervisor.model.spec import Scalar, Spec
from supervisor.node.link import Link
from supervisor.remedy.beginning import objection
from supervisor.remedy.proof import refusal
from supervisor.store.records import RunRecord
from supervisor.store.store import Store


async def beginning_of(
    store: Store, link: Link, spec: Spec, begin: Begin, text: str | None
) -> tuple[Lying, VigilError | None]:
    """What lies on the node before the run, and why it must not begin so. A node that cannot be asked now is asked
    before the launch."""
    try:
        lying = await look(link, spec, begin)
    except (NodeUnreachable, CallRefused):
        return Lying(), None
    error: VigilError | None = objection(spec, begin, lying)
    if error is None and not begin.anyway and (proof := await known_bad(store, link, spec, {}, text)):
        error = refusal(proof)
    return lying, error


async def check_point(
    store: Store, link: Link, record: RunRecord, overrides: dict[str, Scalar], text: str | None
) -> None:
    """Conflict where this very point was proven bad, by whomever."""
    last = last_of(record)
    turned = {**(last.attempt.overrides if last else {}), **overrides}
    if proof := await known_bad(store, link, record.spec, turned, text):
        raise refusal(proof)
