"""The consent as a person reads it: few lines, and every change that Vigil may ever make in them."""

import re
from collections.abc import Iterable, Sequence
from textwrap import wrap

from supervisor.model.causes import Cause, Retry, catalogue
from supervisor.model.code import Code
from supervisor.model.spec import Action, ResumeByConfig, ResumeByEnv, Scalar, Spec
from supervisor.remedy.configuration import Resolved, no_way_in
from supervisor.remedy.knobs import KnobState

MAX_COLUMNS = 100
"""Longer lines are wrapped, or cut where they quote the command."""
MAX_LINES = 25
"""What a person reads. A ladder that does not fit is folded, and only where the fold says every value."""
FOLDED_FROM = 3
"""Shorter sequences are written out."""
_DEVICE = re.compile(r"(?P<index>\d+): (?P<name>.+)")


def lines_of(
    spec: Spec,
    resolved: Resolved,
    steps: Sequence[KnobState],
    *,
    allowed: dict[Action, list[Cause]],
    shown_node: str,
    gpus: Sequence[str],
    code: Code | None,
    checkpoint: str | None,
    refused: str | None = None,
) -> list[str]:
    """The dry run, line by line; `allowed` are the causes by what the policy allows for them."""
    head = [
        *_wrapped(f"refused: {' '.join(refused.split())}" if refused else ""),
        *_joined(f"{spec.name} on {shown_node}, in {spec.workdir}", f"devices: {_devices(spec, gpus)}"),
        *_joined(f"command: {_command(resolved)}", f"config: {_config(spec, resolved)}" if spec.config else ""),
        *(_wrapped(f"env:     {told}", indent=9) if (told := _environment(spec, resolved)) else []),
        *_wrapped(f"code:    {_code(spec, code)}"),
        *_wrapped(f"begins:  {checkpoint or 'without a checkpoint'}; to resume, {_resume(spec)}"),
    ]
    tail = [*_policy(allowed, steps), *_bounds(spec)]
    written = [*head, *_ladder(steps, folded=False), *tail]
    return written if len(written) <= MAX_LINES else [*head, *_ladder(steps, folded=True), *tail]


def _ladder(steps: Sequence[KnobState], *, folded: bool) -> list[str]:
    """Every knob: the live ones each with all its values, the dead ones with the reason."""
    if not steps:
        return ["may change nothing: the spec declares no knobs"]
    names = _names_of_sets(steps)
    lines = ["may change, in this order, for the causes named, and nothing else:"]
    for number, state in enumerate(steps, 1):
        if state.live:
            lines += _wrapped(_knob(number, state, names, folded=folded), indent=5)
    lines += [f"  ({name}) {line}" for causes, name in names.items() for line in _wrapped(", ".join(causes))]
    dead = [f"{number} {state.knob.key} ({state.why})" for number, state in enumerate(steps, 1) if not state.live]
    if dead and not folded:
        return lines + [line for one in dead for line in _wrapped(f"  dead: {one}", indent=8)]
    return lines + (_wrapped(f"  dead: {'; '.join(dead)}", indent=8) if dead else [])


def _knob(number: int, state: KnobState, names: dict[tuple[str, ...], str], *, folded: bool) -> str:
    knob = state.knob
    values = [state.value, *(rung[knob.key] for rung in state.rungs)]
    turns = f"{knob.key} {_sequence(values, folded=folded)}"
    if knob.partner:
        along = [state.partner_value, *(rung[knob.partner] for rung in state.rungs if knob.partner in rung)]
        turns += f", with {knob.partner} {_sequence(along, folded=folded)} (product kept)"
    if knob.changes_training:
        turns += ", changes the training"
    named = names.get(knob.relieves)
    return f"  {number} {turns} | {f'({named})' if named else ', '.join(knob.relieves)}"


def _sequence(values: Sequence[Scalar], *, folded: bool) -> str:
    if folded and len(values) > FOLDED_FROM and (way := _way(values)):
        return f"{_written(values[0])} -> {_written(values[1])} -> ... -> {_written(values[-1])} ({way})"
    return " -> ".join(_written(value) for value in values)


def _way(values: Sequence[Scalar]) -> str | None:
    """How each value follows from the one before, where that is so for all: then a reader can fill in the rest.

    The last one may be the bound at which the steps end.
    """
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) != len(values):
        return None
    turns = len(numbers) - 1
    halves = [one // 2 if isinstance(one, int) else one / 2 for one in numbers[:-1]]
    if halves[:-1] == numbers[1:-1] and halves[-1] <= numbers[-1] < numbers[-2]:
        return f"{turns} halvings"
    doubles = [one * 2 for one in numbers[:-1]]
    if doubles[:-1] == numbers[1:-1] and numbers[-2] < numbers[-1] <= doubles[-1]:
        return f"{turns} doublings"
    return None


def _names_of_sets(steps: Sequence[KnobState]) -> dict[tuple[str, ...], str]:
    """Long sets of causes that several knobs share are written once, under a letter."""
    sets = [state.knob.relieves for state in steps if state.live and len(state.knob.relieves) > 2]
    shared = [causes for causes in dict.fromkeys(sets) if sets.count(causes) > 1]
    return {causes: chr(ord("a") + place) for place, causes in enumerate(shared[:26])}


def _policy(allowed: dict[Action, list[Cause]], steps: Sequence[KnobState]) -> list[str]:
    """What the policy allows. The causes that stand beside the live knobs are not said a second time."""
    named = {cause for state in steps if state.live for cause in state.knob.relieves}
    above = [row for row in catalogue().values() if {row.id, row.family} & named]
    restart = allowed["restart"]
    others = _grouped(row for row in restart if row not in above)
    if any(row in restart for row in above):
        but = ", ".join(row.id for row in above if row not in restart)
        others = f"these{f' (not {but})' if but else ''}{f', {others}' if others else ''}"
    lines = []
    if allowed["shadow"]:
        lines = _wrapped(f"only says what it would do for: {_grouped(allowed['shadow'])}", indent=2)
    said = f"restarts by itself for: {others or 'nothing'}; else it tells a person"
    return [*_wrapped(said, indent=2), *lines]


def _bounds(spec: Spec) -> list[str]:
    budget, stop = spec.budget, spec.stop
    return [
        *_wrapped(
            f"budget:  {budget.corrections} corrections, {budget.without_progress} launches of a point without a "
            f"checkpoint, {budget.per_day} restarts a day, {budget.total} in all"
        ),
        *_wrapped(
            f"stop:    {stop.signal}, TERM after {stop.grace_s:g} s ({stop.save_grace_s:g} s while a checkpoint "
            "grows), then KILL; removes nothing"
        ),
        "never:   restart what a person stopped, start a configuration proved bad, go on over checkpoints,",
        "         edit your files, touch checkpoints, data, caches or processes that are not this run's",
    ]


def _joined(first: str, second: str) -> list[str]:
    """On one line where both fit; else the first is cut, and the second wrapped below it."""
    one = f"{first}; {second}" if second else first
    return [one] if len(one) <= MAX_COLUMNS else [_cut(first), *(_wrapped(second) if second else [])]


def _devices(spec: Spec, gpus: Sequence[str]) -> str:
    if not spec.gpus:
        return "none, as the spec says"
    if not gpus:
        return "none is known"
    if spec.gpus == "all":
        return _folded_devices(gpus)
    return _folded_devices(
        [gpus[index] if index < len(gpus) else f"{index} (there is no such one)" for index in spec.gpus]
    )


def _folded_devices(gpus: Sequence[str]) -> str:
    """`0-7: NVIDIA H200`: neighbours of one name together."""
    parts: list[tuple[int, int, str] | str] = []
    for gpu in gpus:
        match = _DEVICE.fullmatch(gpu)
        if match is None:
            parts.append(gpu)
            continue
        index, name = int(match["index"]), match["name"]
        last = parts[-1] if parts else None
        if isinstance(last, tuple) and last[2] == name and last[1] == index - 1:
            parts[-1] = (last[0], index, name)
        else:
            parts.append((index, index, name))
    shown = [part if isinstance(part, str) else _span(*part) for part in parts]
    return ", ".join(shown)


def _span(first: int, last: int, name: str) -> str:
    return f"{first}: {name}" if first == last else f"{first}-{last}: {name}"


def _environment(spec: Spec, resolved: Resolved) -> str:
    """Names only: a value may be long, and a secret's is nobody's business."""
    parts = [f"sets {', '.join(resolved.env)}"] if resolved.env else []
    if spec.secrets:
        parts.append(f"is given the secret{'s' if len(spec.secrets) > 1 else ''} {', '.join(spec.secrets)}")
    if spec.env_file:
        parts.append(f"takes what {spec.env_file} on the node holds")
    return "; ".join(parts)


def _code(spec: Spec, code: Code | None) -> str:
    head = code.head[:12] if code and code.head else "as it lies there"
    dirty = " + uncommitted changes" if code and code.dirty else ""
    later = "waits for a person" if spec.code == "hold" else "goes on with it"
    return f"{head}{dirty}; on changed code an automatic restart {later}"


def _command(resolved: Resolved) -> str:
    command = resolved.command if isinstance(resolved.command, str) else " ".join(resolved.command)
    return " ".join(command.split())


def _config(spec: Spec, resolved: Resolved) -> str:
    if resolved.config_path:
        return f"{resolved.config_path}, used as it is"
    if resolved.config_beside:
        return f"{resolved.config_name}, a copy beside {resolved.config_beside} that differs in the turned values only"
    return f"{resolved.config_name}, rendered from the spec"


def _resume(spec: Spec) -> str:
    recipe = spec.resume
    if recipe is None:
        return "no recipe: once it has made progress it is not restarted without a person"
    if isinstance(recipe, ResumeByConfig):
        return f"config.{recipe.config} is set to the checkpoint's path"
    if isinstance(recipe, ResumeByEnv):
        return f"env.{recipe.env} is set to the checkpoint's path"
    if recipe == "auto":
        return "the program finds its checkpoint itself"
    if recipe == "scratch":
        return "nothing: it may begin anew"
    if (why := no_way_in(spec)) is not None:
        return f"NOTHING, so it is not restarted without a person once it has made progress. {why}"
    return f"{recipe} is appended"


def _grouped(rows: Iterable[Cause]) -> str:
    """Causes by name; a family by its own name where all of it that counts is there."""
    present = {row.id for row in rows}
    parts: list[str] = []
    for family in dict.fromkeys(row.family for row in catalogue().values()):
        members = [row.id for row in catalogue().values() if row.family == family and row.retry is not Retry.NONE]
        members = [member for member in members if member != "resume_failed"]
        here = [member for member in members if member in present]
        parts += [family] if here and here == members else here
    return ", ".join(parts)


def _wrapped(text: str, indent: int = 9) -> list[str]:
    return wrap(text, MAX_COLUMNS, subsequent_indent=" " * indent, break_long_words=True, break_on_hyphens=False)


def _cut(line: str) -> str:
    return line if len(line) <= MAX_COLUMNS else f"{line[: MAX_COLUMNS - 1]}…"


def _written(value: Scalar) -> str:
    return "unset" if value is None else str(value)
