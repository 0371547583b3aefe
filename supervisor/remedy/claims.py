"""Devices belong to one run at a time, and runs start in the order in which they were asked for. Pure.

That no device has two owners is the store's to keep (its key is the device); here is decided who is to go next.
"""

from collections.abc import Mapping, Sequence

from supervisor.model.claim import Contender
from supervisor.model.run import RunState


def why_not(me: Contender, others: Sequence[Contender], index_of: Mapping[str, int]) -> str | None:
    """Why `me` may not start now, for a person; None: it may.

    `others`: every other run that has not ended for good. `index_of`: a device's UUID to its index on the node.
    Nobody is passed over: who was asked for earlier and waits for one of the same devices goes first, also where a
    later run would fit in between.
    """
    if (other := _awaited(me, others)) is not None:
        return f"after {other.name}{_until_a_person(other, 'ends it for good')}"
    taken = [(each, _shared(me.wants, each.claims)) for each in others]
    if parts := [_claimed(each, devices, index_of) for each, devices in taken if devices]:
        return "; ".join(parts)
    first = [each for each in others if _goes_before(each, me, others)]
    if not first:
        return None
    next_ = min(first, key=_place)
    return f"{_named(_shared(me.wants, next_.wants), index_of)} first for {next_.name}, which was asked for earlier"


def _awaited(me: Contender, others: Sequence[Contender]) -> Contender | None:
    """The run that must end first; one that is gone has ended."""
    return next((each for each in others if each.id == me.after), None)


def _goes_before(other: Contender, me: Contender, others: Sequence[Contender]) -> bool:
    """It waits for nothing but devices, wants one of ours, and was there earlier."""
    if other.state is not RunState.PENDING or other.on_hold or set(other.wants) <= set(other.claims):
        return False
    if any(each.id == other.after for each in (*others, me)):
        return False
    return _place(other) < _place(me) and bool(_shared(me.wants, other.wants))


def _place(one: Contender) -> tuple[object, str]:
    return one.since, one.id


def _claimed(other: Contender, devices: Sequence[str], index_of: Mapping[str, int]) -> str:
    frees = "frees them" if len(devices) > 1 else "frees it"
    return f"{_named(devices, index_of)} claimed by {other.name}{_until_a_person(other, frees)}"


def _until_a_person(other: Contender, stopping: str) -> str:
    """A held run may go on, so it has not ended for good."""
    return f", which is held: `vigil stop {other.name}` {stopping}" if other.state is RunState.HELD else ""


def _shared(wanted: Sequence[str], others: Sequence[str]) -> list[str]:
    there = set(others)
    return [device for device in wanted if device in there]


def _named(devices: Sequence[str], index_of: Mapping[str, int]) -> str:
    names = sorted((str(index_of.get(device, device)) for device in devices), key=lambda name: (len(name), name))
    return f"GPU{'s' if len(names) > 1 else ''} {', '.join(names)}"
