"""Adopting a session and accepting a spec for it: what is asked of the node, and what is written."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from supervisor.control import act, adoption
from supervisor.control.facts import Facts
from supervisor.control.nodes import Nodes
from supervisor.control.watch import Watch
from supervisor.control.written import last_of
from supervisor.model.adoption import Adoption, SessionRef
from supervisor.model.errors import Conflict
from supervisor.model.run import ENDED, Adopted, Run
from supervisor.model.spec import Spec
from supervisor.node.link import Link
from supervisor.probe.wire import AdoptableArgs, ObserveArgs
from supervisor.store.records import RunRecord
from supervisor.store.store import Store


class FleetAdopting:
    """The part of the fleet that is about runs which people started."""

    store: Store
    _nodes: Nodes
    _now: Callable[[], datetime]

    async def adopt(self, node: str, session: SessionRef, *, by: str, dry_run: bool = False) -> Adopted:
        """The run that watches the session, with the draft; with `dry_run` only the draft.

        NotFound (node, session, nothing runs there), Conflict (its name, or another run watches it), NodeUnreachable.
        """
        found = await self._nodes.link(node, session.user).adoptable(
            AdoptableArgs(
                tmux=session.tmux,
                pane=session.pane,
                socket=session.socket,
                socket_name=session.socket_name,
                log=session.log,
            )
        )
        spec, data, notes = adoption.drafted(found, node=node, user=session.user, name=session.name)
        answer = Adopted(spec=data, notes=tuple(notes), unknown=found.unknown, session=_without_draft(found))
        if dry_run:
            return answer
        record = await self.store.create_adopted(spec, data, _without_draft(found), by=by, now=self._now())
        self._watch(record.run)
        return answer.model_copy(update={"run": self._seen(record.run)})

    async def accept(self, key: str, data: dict[str, Any], *, by: str) -> Run:
        """A spec for an adopted run: watch only ends, and the next attempt is Vigil's own. The session goes on.

        Its checkpoints are looked for at once, so that the next attempt knows where to go on.
        """
        record = await self.store.load_run(key)
        whole = {"name": record.run.name, "node": record.run.node, **data}
        spec, _ = await self._submitted(whole)
        last = last_of(record)
        if last is None or last.attempt.adopted is None or last.attempt.state == "launching":
            raise Conflict(f"The run {record.run.name} is not adopted.", remedy="Look: vigil show " + record.run.name)
        if spec.user != record.spec.user:
            raise Conflict(
                f"It is watched as {record.spec.user or 'the user of the node'}, not as {spec.user or 'that one'}.",
                remedy="Forget the run (its session goes on), and adopt it again with that --user.",
            )
        facts = await self._looked(self._nodes.link(record.run.node, spec.user), record, spec)
        record = await self.store.accept(record.run.id, spec, whole, by=by, now=self._now(), facts=facts)
        if record.run.state not in ENDED:
            self._watch(record.run).wake()
        return self._seen(record.run)

    async def _submitted(self, data: dict[str, Any], *, must_read: bool = False) -> tuple[Spec, str | None]:
        raise NotImplementedError  # the fleet's own

    def _watch(self, run: Run) -> Watch:
        raise NotImplementedError

    def _seen(self, run: Run) -> Run:
        raise NotImplementedError

    async def _looked(self, link: Link, record: RunRecord, spec: Spec) -> dict[str, Any]:
        """What the spec's plan finds on the node."""
        last = last_of(record)
        assert last is not None
        await link.adopt(act.adopt_args(record.run.id, record.token, spec, last.attempt))
        seen = await link.observe(
            ObserveArgs(
                run=record.run.id,
                attempt=last.attempt.no,
                token=record.token,
                log_cursor=last.log_cursor,
                metrics_cursor=last.metrics_cursor,
                wait_s=0.0,
                wake="end",
                alarms=[],
                screen=False,
                about=False,
                limit_bytes=0,
            )
        )
        facts = Facts(checkpoints=seen.checkpoints)
        return facts.model_dump(mode="json", include={"checkpoints"}, by_alias=True)


def _without_draft(found: Adoption) -> Adoption:
    return Adoption.model_validate(found.model_dump(exclude={"draft"}))
