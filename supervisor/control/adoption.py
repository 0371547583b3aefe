"""A run whose attempt a person started: what may be asked of it, and its draft. Pure; what may be decided about it is
remedy's."""

import re
from typing import Any

from supervisor.control.written import last_of
from supervisor.model.adoption import Adoptable
from supervisor.model.errors import Conflict, InvalidInput
from supervisor.model.reading import parse_spec
from supervisor.model.run import Call
from supervisor.model.spec import Spec
from supervisor.remedy.presets import with_preset
from supervisor.store.records import RunRecord

WHY = "adopted"
HYPOTHESIS = "A person started it; Vigil watches."
_OPTIONAL = ("preset", "checkpoint", "secrets", "gpus", "conda", "venv", "env")
"""Of a draft, in the order in which they are left out until the rest is a spec."""


def is_beginning(record: RunRecord) -> bool:
    """A session is to be watched as its first attempt: nothing is launched."""
    return record.request is not None and record.request.adopts is not None


def refuse(record: RunRecord, call: Call) -> None:
    """Conflict where what a person asks would end an adopted session, or launch before its spec was accepted."""
    run, last = record.run, last_of(record)
    if call not in ("start", "stop", "restart"):
        return
    if is_beginning(record):
        raise Conflict(f"The run {run.name} is being adopted.", remedy="Ask again in a moment.")
    if last is None or last.attempt.adopted is None:
        return
    adopted = last.attempt.adopted
    if not last.ended and call != "start":
        raise Conflict(
            f"The run {run.name} was adopted: Vigil did not start it and does not end it.",
            remedy=f"End it by hand, in its session ({adopted.place or adopted.session} on {adopted.socket}). "
            f"To watch it no more: vigil rm {run.name}",
        )
    if adopted.accepted is None and call != "stop":
        raise Conflict(
            f"The run {run.name} was adopted and is only watched.",
            remedy=f"Accept a spec first: vigil run -f SPEC --adopts {run.name}",
        )


def drafted(
    found: Adoptable, *, node: str, user: str | None, name: str | None
) -> tuple[Spec, dict[str, Any], list[str]]:
    """The draft as a spec, as it is written, and the notes; what would make it invalid is left out and noted."""
    notes = list(found.draft.notes)
    data = {"name": name or run_name(found.session), "node": node, **({"user": user} if user else {})}
    data |= {key: value for key, value in found.draft.spec.items() if value not in (None, {}, [])}
    # Vigil watches what it did not start by what it prints; how often it may act is for who accepts the spec.
    for left_out in (None, *_OPTIONAL):
        if left_out is not None and left_out not in data:
            continue
        if left_out is not None:
            notes.append(f"{left_out}: {data.pop(left_out)!r} was recognised, but does not make a valid spec as it is")
        try:
            with_preset(parse_spec(data, source="the draft"))
            return parse_spec(data, source="the draft"), data, notes
        except InvalidInput:
            continue
    return parse_spec(data, source="the draft"), data, notes


def run_name(session: str) -> str:
    """A run's name from a session's."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", session).strip("-._")[:60]
    return name if len(name) > 1 or name.isalpha() else f"session-{name or 'adopted'}"
