"""One sentence for every event."""

from collections.abc import Callable, Mapping
from typing import Any

from supervisor.model.event import Event, EventType
from supervisor.model.run import Turn, turns_written

Data = Mapping[str, Any]


def sentence_of(event: Event) -> str:
    """What happened, for a person. A fact that the event does not carry is left out, never invented."""
    words = _SENTENCES[event.type](event.data)
    return " ".join(words.split())


def _launched(data: Data) -> str:
    turns = (data.get("correction") or {}).get("turns") or []
    parts = [f"launched in tmux by {data.get('by', 'vigil')}"]
    if turns:
        made = (Turn(key=turn["key"], from_=turn.get("from"), to=turn.get("to")) for turn in turns)
        parts.append(f"with {turns_written(made)}")
    if data.get("resumed_from") is not None:
        parts.append(f"from the checkpoint of step {data['resumed_from']}")
    return ", ".join(parts) + (f": {data['hypothesis']}" if data.get("hypothesis") else "")


def _ended(data: Data) -> str:
    if data.get("started") is False:
        return f"was not started: {data.get('why', '')}"
    ending = data.get("exit") or {}
    how = ending.get("signal") or (f"exit code {ending['code']}" if ending.get("code") is not None else "exit unknown")
    step = f" after step {data['last_step']}" if data.get("last_step") is not None else ""
    return f"ended with {how}{step}: {(data.get('outcome') or {}).get('cause', 'unknown')}"


def _state(data: Data) -> str:
    reason = f": {data['reason']}" if data.get("reason") else ""
    return f"{data.get('from') or 'new'} -> {data.get('to')}{reason}"


def _called(data: Data) -> str:
    why = f": {data['why']}" if data.get("why") else ""
    turned = ", ".join(f"{key}={value}" for key, value in (data.get("set") or {}).items())
    changed = ", ".join(data.get("changed") or ("the spec",))
    call = f"change {changed}" if data.get("call") == "edit" else f"{data.get('call')}"
    if data.get("withdrew"):
        call = f"take back the {data['withdrew']} that waits for a checkpoint"
    return f"{data.get('by')} asked to {call}{f' with {turned}' if turned else ''}{why}"


def _what(data: Data) -> str:
    return {"run": "the run", "all": "everything"}.get(str(data.get("scope")), f"the node {data.get('node')}")


def _released(data: Data) -> str:
    if data.get("expired"):
        return f"the hold of {_what(data)} is over"
    return f"the hold of {_what(data)} was taken back by {data.get('by')}" + (
        f": {data['why']}" if data.get("why") else ""
    )


def _said(key: str) -> Callable[[Data], str]:
    def said(data: Data) -> str:
        inner = data.get(key) or data
        return str(inner.get("sentence") or inner.get("cause") or inner.get("kind") or "")

    return said


def _incident(data: Data) -> str:
    inner = data.get("incident") or data
    return f"{inner.get('cause', '')}: {inner.get('sentence', '')}" if isinstance(inner, Mapping) else str(inner)


_SENTENCES: Mapping[EventType, Callable[[Data], str]] = {
    EventType.RUN_CREATED: lambda data: f"created by {data.get('by')}",
    EventType.RUN_STATE: _state,
    EventType.RUN_CALLED: _called,
    EventType.RUN_DELETED: lambda data: f"{data.get('name')} was deleted by {data.get('by')}",
    EventType.ATTEMPT_LAUNCHED: _launched,
    EventType.ATTEMPT_ADOPTED: lambda data: (
        f"adopted by {data['by']}: watched, not touched" if data.get("by") else "found alive and watched again"
    ),
    EventType.ATTEMPT_FIRST_STEP: lambda data: f"made its first step, {data.get('step')}",
    EventType.ATTEMPT_CHECKPOINT: lambda data: f"wrote the checkpoint of step {data.get('step')}",
    EventType.ATTEMPT_ENDED: _ended,
    EventType.VERDICT_CHANGED: _said("verdict"),
    EventType.DECISION_TAKEN: _said("decision"),
    EventType.LOG_GAP: lambda data: f"{data.get('bytes')} bytes of its log are lost: {data.get('why', '')}",
    EventType.LINK_LOST: lambda data: f"is not seen any more: {data.get('detail', '')}",
    EventType.LINK_BACK: lambda data: f"is seen again after {data.get('blind_s')} s",
    EventType.INCIDENT_OPENED: _incident,
    EventType.INCIDENT_ACTED: _incident,
    EventType.INCIDENT_RESOLVED: _incident,
    EventType.HOLD_SET: lambda data: f"{_what(data)} was put on hold by {data.get('by')}: {data.get('why', '')}",
    EventType.HOLD_RELEASED: _released,
    EventType.NODE_ADDED: lambda data: f"{data.get('name')} ({data.get('shown', '')}) was added by {data.get('by')}",
    EventType.NODE_REMOVED: lambda data: f"{data.get('name')} was removed by {data.get('by')}",
    EventType.SECRET_SET: lambda data: f"the secret {data.get('name')} was set by {data.get('by')}",
    EventType.SECRET_REMOVED: lambda data: f"the secret {data.get('name')} was removed by {data.get('by')}",
    EventType.DAEMON_STARTED: lambda data: f"version {data.get('version')}, process {data.get('pid')}",
}
