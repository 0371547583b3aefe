"""What another spec means for a run: what changes, from when it holds, and what is known of where it leads. Pure."""

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any

from supervisor.model.edit import Edited
from supervisor.model.errors import Conflict, Fault, InvalidInput
from supervisor.model.run import Attempt, Run
from supervisor.model.spec import Scalar, Spec
from supervisor.model.writing import write_mapping
from supervisor.remedy.configuration import check_overrides, configuration_of, value_at
from supervisor.remedy.knobs import ladder
from supervisor.remedy.ledger import Entry, ledger_of, point

FIXED = ("name", "node", "user")
"""What makes the run the one that it is, where it is."""
AT_ONCE = frozenset(
    {"policy", "watch", "budget", "knobs", "resume", "stop", "completion", "progress", "signatures", "code"}
)
"""Keys that Vigil itself reads, at every check or decision. The others are read by a launch."""


def edited(
    run: Run,
    before: Spec,
    after: Spec,
    raw: Mapping[str, Any],
    *,
    file_text: str | None = None,
    saved: bool = False,
) -> Edited:
    """What changing the spec of `run` from `before` to `after`, written as `raw`, comes to.

    Conflict where a key differs that cannot change; InvalidInput where a setting that is turned is no setting any more.
    """
    _same_run(run, before, after)
    last = run.attempts[-1] if run.attempts else None
    turned = last.overrides if last else {}
    _still_settings(after, turned, last, file_text)
    changed = sorted(key for key in {*raw, *run.spec} if raw.get(key) != run.spec.get(key))
    lives = last is not None and last.state != "ended"
    bad = _bad(run, after, turned, last, file_text) if changed else None
    where = [f"The next attempt would start where attempt {bad.attempt} was proved bad ({bad.cause})."] if bad else []
    return Edited(
        saved=saved,
        changed=tuple(changed),
        diff=difference(run.spec, raw),
        now=tuple(key for key in changed if key in AT_ONCE) if lives else (),
        later=tuple(key for key in changed if not lives or key not in AT_ONCE),
        notes=(*_stay_turned(run, before, after, turned, file_text), *_dead(after, file_text), *where),
        bad=bad.attempt if bad else None,
    )


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Both as YAML, as a unified difference."""
    lines = unified_diff(
        write_mapping(before).splitlines(), write_mapping(after).splitlines(), "before", "after", n=2, lineterm=""
    )
    return "\n".join(lines)


def _same_run(run: Run, before: Spec, after: Spec) -> None:
    for key in FIXED:
        if getattr(before, key) != getattr(after, key):
            raise Conflict(
                f"The {key} of the run {run.name} cannot change.",
                remedy=f"Put it back, or start another run with it: vigil stop {run.name}, then vigil run -f SPEC.",
            )


def _still_settings(after: Spec, turned: Mapping[str, Scalar], last: Attempt | None, file_text: str | None) -> None:
    try:
        check_overrides(after, turned, file_text=file_text)
    except InvalidInput as error:
        assert last is not None
        place = error.faults[0].get("place", "") if error.faults else ""
        raise InvalidInput(
            f"The run's turned settings ({', '.join(sorted(turned))}) must stay settings of it: {error.detail}",
            remedy="Keep the key, or start another run from this spec.",
            faults=[Fault(place=place, detail=f"is turned in attempt {last.no}")] if place else [],
        ) from error


def _bad(
    run: Run, after: Spec, turned: Mapping[str, Scalar], last: Attempt | None, file_text: str | None
) -> Entry | None:
    """What proved the point bad at which the next attempt would start."""
    if last is None:
        return None
    try:
        configuration = configuration_of(after, file_text=file_text, overrides=turned)
    except InvalidInput:
        return None  # its file could not be read now: the launch will say it
    return ledger_of(run.attempts, resume=after.resume).bad(point(configuration, last.code, resume=after.resume))


def _stay_turned(
    run: Run, before: Spec, after: Spec, turned: Mapping[str, Scalar], file_text: str | None
) -> Sequence[str]:
    """Settings that the edit changes and that do not follow it, because they are turned."""
    notes = []
    for key, value in turned.items():
        old, new = _value(before, key, file_text), _value(after, key, file_text)
        if old != new:
            notes.append(
                f"{key} is turned to {value} and stays so; to take the spec's own: "
                f"vigil restart {run.name} --set {key}={new} -m WHY"
            )
    return notes


def _value(spec: Spec, key: str, file_text: str | None) -> Scalar:
    try:
        return value_at(spec, key, file_text=file_text)
    except InvalidInput:
        return None


def _dead(after: Spec, file_text: str | None) -> Sequence[str]:
    try:
        configuration = configuration_of(after, file_text=file_text)
    except InvalidInput:
        return []
    return [f"Knob {state.knob.key} is dead: {state.why}." for state in ladder(after, configuration) if not state.live]
