"""Another spec for a run: checked against what it is to be, what it was and what is known, then stored."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from supervisor.control.proving import known_bad
from supervisor.control.written import last_of
from supervisor.model.edit import Edited, SpecText
from supervisor.model.errors import InvalidInput
from supervisor.model.spec import Spec
from supervisor.model.writing import tag_of, write_mapping
from supervisor.node.link import Link
from supervisor.remedy.edit import edited
from supervisor.store.records import RunRecord, Stale
from supervisor.store.store import Store

Submit = Callable[[dict[str, Any]], Awaitable[tuple[Spec, str | None]]]
"""Reads a spec as it is handed in: with its preset filled in, and the text of its configuration file."""


def spec_text(record: RunRecord) -> SpecText:
    """The spec as it was given, to be edited."""
    raw = record.run.spec
    return SpecText(spec=raw, text=write_mapping(raw), tag=tag_of(raw))


async def edit(
    store: Store,
    link: Link,
    record: RunRecord,
    raw: dict[str, Any],
    *,
    submit: Submit,
    by: str,
    why: str | None,
    tag: str | None,
    dry_run: bool,
    now: datetime,
) -> Edited:
    """What the edit comes to; stored unless `dry_run`.

    Stale where `tag` is given and names another content than the present one: nothing is written over a colleague's
    edit. InvalidInput for a spec that is none, or where a change comes without a reason.
    """
    if tag is not None and tag != tag_of(record.run.spec):
        raise Stale(
            f"The spec of {record.run.name} was changed since it was read.",
            remedy="Read it again, and make the change to what is there now.",
        )
    after, file_text = await submit(raw)
    found = await asyncio.to_thread(edited, record.run, record.spec, after, raw, file_text=file_text)
    if found.changed and found.bad is None:
        last = last_of(record)
        # The run's own ledger knows nothing of it; what other runs proved counts as well.
        if proof := await known_bad(store, link, after, last.attempt.overrides if last else {}, file_text):
            note = f"The next attempt would start at a bad point. {proof.sentence}"
            found = found.model_copy(update={"notes": (*found.notes, note)})
    if dry_run or not found.changed:
        return found
    if not (why or "").strip():
        raise InvalidInput("An edit needs a reason.", remedy="Say why it is made; it stands in the run's history.")
    await store.change_spec(record.run.id, after, raw, by=by, why=why, expected_tag=tag_of(record.run.spec), now=now)
    return found.model_copy(update={"saved": True})
