"""Receipts: what a change cost and whether it helped. Written when the next attempt began, and again as it goes on."""

from datetime import datetime

from supervisor.model.causes import Retry
from supervisor.model.noun import Moment, Noun
from supervisor.model.run import VIGIL, Attempt, Receipt, turns_written

GLOBAL_BATCH = "total_train_batch_size"
"""As `Seen.told` names the batch over all devices and accumulation steps."""


class Seen(Noun):
    """Times that the attempts themselves do not carry. None: not seen."""

    progress_ended_at: Moment | None = None
    """When the attempt before completed its last step; its end is taken where this is not known."""
    first_step_at: Moment | None = None
    """When the present attempt completed its first step."""
    caught_up_at: Moment | None = None
    """When the present attempt first completed a step that the one before had not completed."""
    told: dict[str, float] = {}
    """Settings that the present attempt told in its log, by name."""
    told_before: dict[str, float] = {}
    """Those of the one before."""


def receipt(previous: Attempt, current: Attempt, seen: Seen = Seen()) -> Receipt:
    """Cost and effect of going from `previous` to `current`, as far as it is known by now.

    Steps lost are those that were completed twice. Seconds lost run from the last completed step of `previous` to
    the first new one of `current`; None until that was seen. `helped`: True once `current` passed the step where
    `previous` failed (or finished), False when it ended for the same cause before, else None.
    """
    steps = _steps_lost(previous, current)
    seconds = _seconds(seen.progress_ended_at or previous.ended_at, _caught_up(previous, seen))
    helped = _helped(previous, current)
    arrived = _arrived(current, seen)
    proof = _proof(current, seen, arrived)
    return Receipt(
        steps_lost=steps,
        seconds_lost=seconds,
        helped=helped,
        arrived=arrived,
        sentence=_sentence(previous, current, steps, seconds, helped) + proof,
    )


def _steps_lost(previous: Attempt, current: Attempt) -> int | None:
    if previous.last_step is None:
        return 0 if current.first_step is not None else None
    if current.first_step is None:
        return None
    return max(0, previous.last_step - current.first_step + 1)


def _caught_up(previous: Attempt, seen: Seen) -> datetime | None:
    return seen.caught_up_at or (seen.first_step_at if previous.last_step is None else None)


def _seconds(begin: datetime | None, end: datetime | None) -> float | None:
    if begin is None or end is None:
        return None
    return round(max(0.0, (end - begin).total_seconds()), 3)


def _helped(previous: Attempt, current: Attempt) -> bool | None:
    failed = previous.outcome is not None and previous.outcome.retry is not Retry.NONE
    if not failed:
        return None
    assert previous.outcome is not None
    if current.outcome is not None and current.outcome.cause == "finished":
        return True
    if current.last_step is not None and (previous.last_step is None or current.last_step > previous.last_step):
        return True
    if current.outcome is not None and current.outcome.cause == previous.outcome.cause:
        return False
    return None


def _told(current: Attempt, seen: Seen) -> list[tuple[str, float, bool]]:
    """Of the turned settings those that the program told: name, value, and whether it is the value turned to."""
    turns = current.correction.turns if current.correction else ()
    names = {turn.key.rsplit(".", 1)[-1].lstrip("-").replace("-", "_"): turn.to for turn in turns}
    return [(name, seen.told[name], seen.told[name] == to) for name, to in names.items() if name in seen.told]


def _arrived(current: Attempt, seen: Seen) -> bool | None:
    told = _told(current, seen)
    return all(same for _, _, same in told) if told else None


def _proof(current: Attempt, seen: Seen, arrived: bool | None) -> str:
    """What the program itself says of the turn; nothing where nothing was turned."""
    if current.correction is None or not current.correction.turns:
        return ""
    if arrived is None:
        return " Not seen whether the value arrived: the program does not tell it." if current.first_step else ""
    values = ", ".join(f"{name} {value:g}" for name, value, _ in _told(current, seen))
    said = f" The program tells {values}: {'it arrived' if arrived else 'the turned value did not arrive'}"
    whole, before = seen.told.get(GLOBAL_BATCH), seen.told_before.get(GLOBAL_BATCH)
    if whole is None or before is None:
        return f"{said}."
    return f"{said}; global batch {whole:g}, {'as before' if whole == before else f'before {before:g}'}."


def _sentence(
    previous: Attempt, current: Attempt, steps: int | None, seconds: float | None, helped: bool | None
) -> str:
    changed = turns_written(current.correction.turns) if current.correction and current.correction.turns else ""
    what = changed or (current.correction.reason if current.correction else "") or "The same configuration"
    who = "" if current.by == VIGIL else f" by {current.by}"
    why = f" after {previous.outcome.cause}" if previous.outcome else ""
    cost = [
        "steps lost not seen yet" if steps is None else f"{steps} {'step' if steps == 1 else 'steps'} done again",
        "time lost not seen yet" if seconds is None else f"{seconds:.0f} s lost",
    ]
    return f"{what}{who}{why}: {', '.join(cost)}; {_effect(previous, current, helped)}."


def _effect(previous: Attempt, current: Attempt, helped: bool | None) -> str:
    if previous.outcome is not None and previous.outcome.retry is Retry.NONE:
        return f"attempt {previous.no} had not failed"
    place = "its first step" if previous.last_step is None else f"step {previous.last_step}"
    if helped is True:
        return f"it helped: attempt {current.no} got past {place}, where attempt {previous.no} ended"
    if helped is False:
        return f"it did not help: attempt {current.no} ended for the same cause before it got past {place}"
    if current.outcome is not None:
        return f"whether it helped cannot be said: attempt {current.no} ended with {current.outcome.cause}"
    return f"whether it helped shows once attempt {current.no} is past {place}"
