"""Knobs: which are live, with which value, and what one turn of them would set."""

from collections.abc import Mapping

from supervisor.model.errors import InvalidInput
from supervisor.model.noun import Noun
from supervisor.model.spec import Knob, Scalar, Spec
from supervisor.remedy.keep import MAX_PRODUCT, keys_of, solve
from supervisor.remedy.literal import write_env
from supervisor.remedy.settings import Configuration

MAX_RUNGS = 32
"""How many turns of one knob are spelled out; bounds end nearly every ladder long before."""


class KnobState(Noun):
    """One knob of the ladder: live with its value and all that it may become, or dead and why."""

    knob: Knob
    live: bool
    value: Scalar = None
    partner_value: Scalar = None
    """What the partner is set to, where the knob has one."""
    why: str | None = None
    """Why it is dead."""
    rungs: tuple[dict[str, Scalar], ...] = ()
    """Every setting that this knob may lead to, turn by turn: key to value, the partner's included."""


class Dead(Exception):  # noqa: N818 - an answer, not a fault of the program
    """The knob cannot be turned; its text says why."""


def ladder(spec: Spec, configuration: Configuration) -> list[KnobState]:
    """Every knob of the spec in its order: the whole of what Vigil may ever change."""
    return [_state(spec, knob, configuration) for knob in spec.knobs]


def turn(spec: Spec, knob: Knob, configuration: Configuration, factors: int = 1) -> dict[str, Scalar]:
    """What turning the knob sets: key to value, the partner's included. `factors`: how many steps at once.

    A step that would cross a bound ends at it. Dead (with the reason) where the knob is not there or at its end, and
    where `keep` cannot be kept; a whole number stays one.
    """
    value = _value(configuration, knob.key)
    if knob.step is None and knob.add is None:
        return {knob.key: _chosen(knob, value, factors)}
    current = _numeric(knob.key, value)
    wanted = _stepped(knob, current, factors)
    if wanted == current:
        raise Dead(f"is at its end ({_written(current)})")
    if knob.partner is None or knob.keep is None:
        return {knob.key: wanted}
    return _solved(spec, knob, configuration, wanted)


def product(keep: str, configuration: Configuration) -> int:
    """What the keys of `keep` multiply to; Dead where one of them is no whole number above zero."""
    result = 1
    for key in keys_of(keep):
        value = _numeric(key, _value(configuration, key))
        if not isinstance(value, int) or value < 1:
            raise Dead(f"cannot keep {keep}: {key} is {_written(value)}, not a whole number above zero")
        result *= value
    return result


def keeps(knob: Knob, before: Configuration, after: Configuration) -> bool:
    """Proof, read from both configurations as they would be launched, that `keep` holds."""
    return knob.keep is None or product(knob.keep, before) == product(knob.keep, after)


def same(key: str, one: Scalar, other: Scalar) -> bool:
    """Whether both values of `key` reach the program as the same: 1 is not true, but `8` of the environment is 8."""
    if key.startswith("config."):
        return one == other and isinstance(one, bool) == isinstance(other, bool)
    return (one is None) == (other is None) and write_env(one) == write_env(other)


def _state(spec: Spec, knob: Knob, configuration: Configuration) -> KnobState:
    partner: Scalar = None
    try:
        value = _value(configuration, knob.key)
    except Dead as dead:
        return KnobState(knob=knob, live=False, why=str(dead))
    try:
        partner = _value(configuration, knob.partner) if knob.partner else None
    except Dead as dead:
        return KnobState(knob=knob, live=False, why=f"{knob.partner}, which is turned along, cannot be read: {dead}")
    rungs: list[dict[str, Scalar]] = []
    why: str | None = None
    here = configuration
    seen: list[Mapping[str, Scalar]] = []
    while len(rungs) < MAX_RUNGS:
        try:
            rung = turn(spec, knob, here)
            here = here.turned(rung)
        except Dead as dead:
            why = str(dead)
            break
        except InvalidInput as error:
            why = error.detail.rstrip(".")
            break
        if rung in seen:
            break
        seen.append(rung)
        rungs.append(rung)
    return KnobState(
        knob=knob,
        live=bool(rungs),
        value=value,
        partner_value=partner,
        why=None if rungs else why,
        rungs=tuple(rungs),
    )


def _value(configuration: Configuration, key: str) -> Scalar:
    try:
        return configuration.value(key)
    except InvalidInput as error:
        fault = error.faults[0] if error.faults else {}
        remedy = fault.get("remedy")
        raise Dead(fault.get("detail", error.detail) + (f" ({remedy})" if remedy else "")) from error


def _chosen(knob: Knob, value: Scalar, factors: int) -> Scalar:
    if knob.unset:
        if value is None:
            raise Dead("is not set")
        return None
    if knob.choose is None:
        if same(knob.key, value, knob.set):
            raise Dead(f"is already {_written(value)}")
        return knob.set
    places = [index for index, choice in enumerate(knob.choose) if same(knob.key, choice, value)]
    following = knob.choose[places[-1] + 1 :] if places else knob.choose
    if not following:
        raise Dead(f"is at the last of its choices ({_written(value)})")
    return following[min(factors, len(following)) - 1]


def _numeric(key: str, value: Scalar) -> int | float:
    if value is None:
        raise Dead(f"{key} is not set, so there is nothing to turn")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Dead(f"{key} is {_written(value)}, not a number")
    return value


def _stepped(knob: Knob, current: int | float, factors: int) -> int | float:
    """The value after `factors` steps, within the bounds; `current` where they allow no step in that direction."""
    wanted: int | float
    if knob.add is not None:
        added = knob.add * factors
        if isinstance(current, int) and not float(added).is_integer():
            raise Dead(f"is the whole number {current} and would not stay one with {_written(knob.add)} added")
        wanted = current + (int(added) if isinstance(current, int) else added)
    elif knob.step == "halve":
        wanted = current // 2**factors if isinstance(current, int) else current / 2**factors
    else:
        wanted = current * 2**factors
    down = wanted < current
    bounded = max(wanted, knob.min) if down and knob.min is not None else wanted
    bounded = min(bounded, knob.max) if not down and knob.max is not None else bounded
    if isinstance(current, int) and not isinstance(bounded, int):
        # A bound such as 2.5 is met by the next whole number inside it.
        bounded = -int(-bounded // 1) if down else int(bounded // 1)
    return bounded if (bounded < current) == down and bounded != current else current


def _solved(spec: Spec, knob: Knob, configuration: Configuration, wanted: int | float) -> dict[str, Scalar]:
    assert knob.keep is not None
    assert knob.partner is not None
    keys = keys_of(knob.keep)
    if keys.count(knob.key) != 1 or keys.count(knob.partner) != 1:
        raise Dead(f"cannot keep {knob.keep}: it must name {knob.key} and {knob.partner}, each once")
    whole = product(knob.keep, configuration)
    current = configuration.value(knob.key)
    partner = configuration.value(knob.partner)
    assert isinstance(current, int)
    assert isinstance(partner, int)
    assert isinstance(wanted, int)
    if current * partner > MAX_PRODUCT:
        raise Dead(f"cannot keep {knob.keep}: {whole} is too large to be solved")
    lowest, highest = _bounds(spec, knob.partner)
    pair = solve(
        current * partner,
        wanted=wanted,
        above=current if wanted > current else 0,
        lowest=-int(-(knob.min or 1) // 1),
        partner_lowest=lowest,
        partner_highest=highest,
    )
    if pair is None:
        raise Dead(f"has no value from {_written(knob.min or 1)} to {wanted} that keeps {knob.keep} at {whole}")
    return {knob.key: pair[0], knob.partner: pair[1]}


def _bounds(spec: Spec, key: str) -> tuple[int, int | None]:
    """The bounds that the spec's own knob of that key gives to a partner."""
    owner = next((knob for knob in spec.knobs if knob.key == key), None)
    lowest = max(1, -int(-owner.min // 1)) if owner and owner.min is not None else 1
    return lowest, int(owner.max // 1) if owner and owner.max is not None else None


def _written(value: Scalar) -> str:
    return repr(value) if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
