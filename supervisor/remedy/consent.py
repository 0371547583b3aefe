"""The consent: what a run will be, and all that Vigil may ever do to it, said before the launch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from supervisor.model.causes import Cause, Retry, catalogue
from supervisor.model.code import Code
from supervisor.model.spec import Action, ResumeByConfig, ResumeByEnv, Scalar, Spec
from supervisor.remedy.configuration import Resolved, configuration_of, resolve
from supervisor.remedy.knobs import KnobState, ladder
from supervisor.remedy.policy import permission

MAX_COLUMNS = 160
"""Longer lines are wrapped, or cut where they quote the command."""


@dataclass(frozen=True, slots=True)
class Consent:
    """What a person agrees to by launching."""

    lines: tuple[str, ...]
    """For people: at most 25 with up to four knobs; every knob of the ladder has its own."""
    json: dict[str, Any]
    """The same for programs."""


def consent(
    spec: Spec,
    *,
    shown_node: str,
    gpus: Sequence[str] = (),
    file_text: str | None = None,
    steps: Sequence[KnobState] | None = None,
    code: Code | None = None,
    checkpoint: str | None = None,
) -> Consent:
    """The dry run.

    `shown_node`: the node, whole. `gpus`: its devices in words; empty: not known, or none. `file_text`: the text of
    `config.file`. `steps`: the ladder, made from these where it is not given. `code`: what lies in the work folder.
    `checkpoint`: the path that the first attempt resumes from; None begins at the start. InvalidInput where the spec
    cannot be launched.
    """
    resolved = resolve(spec, {}, file_text=file_text, checkpoint=checkpoint)
    ladder_ = list(steps) if steps is not None else ladder(spec, configuration_of(spec, file_text=file_text))
    return Consent(
        lines=tuple(_lines(spec, resolved, ladder_, shown_node, gpus, code, checkpoint)),
        json={
            "name": spec.name,
            "node": shown_node,
            "devices": list(gpus),
            "code": code.model_dump(mode="json") if code else None,
            "command": resolved.command if isinstance(resolved.command, str) else list(resolved.command),
            "config": resolved.values,
            "checkpoint": checkpoint,
            "ladder": [state.model_dump(mode="json", by_alias=True, exclude_defaults=True) for state in ladder_],
            "policy": {action: [row.id for row in rows] for action, rows in permissions(spec, ladder_).items()},
            "budget": spec.budget.model_dump(mode="json"),
        },
    )


def permissions(spec: Spec, steps: Sequence[KnobState]) -> dict[Action, list[Cause]]:
    """Every cause that a restart may be worth something for, under what the run's policy allows for it."""
    actions: dict[Action, list[Cause]] = {"restart": [], "alert": [], "shadow": []}
    for row in catalogue().values():
        if row.retry is Retry.NONE or row.id == "resume_failed":
            continue
        live = any(state.live and {row.id, row.family} & set(state.knob.relieves) for state in steps)
        actions[permission(spec, row.id, correctable=live).action].append(row)
    return actions


def _lines(
    spec: Spec,
    resolved: Resolved,
    steps: Sequence[KnobState],
    shown_node: str,
    gpus: Sequence[str],
    code: Code | None,
    checkpoint: str | None,
) -> list[str]:
    dirty = " with uncommitted changes" if code and code.dirty else ""
    head = [
        f"{spec.name} on {shown_node}, in {spec.workdir}",
        f"devices:    {_devices(spec, gpus)}",
        f"code:       {(code and code.head) or 'as it lies there'}{dirty}; when it has changed, an automatic restart "
        f"{'waits for a person' if spec.code == 'hold' else 'takes the new code'}",
        f"command:    {_command(resolved)}",
        f"config:     {_config(spec, resolved)}",
        f"checkpoint: {checkpoint or 'none, from the beginning'}",
        f"resume:     {_resume(spec)}",
        "may change, in this order, and nothing else:",
    ]
    budget = spec.budget
    tail = [
        *_policy(spec, steps),
        f"budget:     {budget.corrections} corrections and {budget.without_progress} launches of one configuration "
        f"without a new checkpoint, {budget.per_day} restarts a day, {budget.total} in all",
        f"stop:       {spec.stop.signal}, then TERM after {spec.stop.grace_s:g} s "
        f"({spec.stop.save_grace_s:g} s while a checkpoint grows), then KILL; removes nothing",
        "will never: restart what a person stopped; start a configuration proved bad; start anew over checkpoints;",
        "            edit your files; touch checkpoints, data, caches or processes that are not this run's",
    ]
    cut = [line if len(line) <= MAX_COLUMNS else f"{line[: MAX_COLUMNS - 1]}…" for line in head]
    return [*cut, *_ladder_lines(steps), *tail]


def _devices(spec: Spec, gpus: Sequence[str]) -> str:
    if not spec.gpus:
        return "none, as the spec says"
    if not gpus:
        return "none is known"
    if spec.gpus == "all":
        return ", ".join(gpus)
    return ", ".join(gpus[index] if index < len(gpus) else f"{index} (there is no such one)" for index in spec.gpus)


def _command(resolved: Resolved) -> str:
    command = resolved.command if isinstance(resolved.command, str) else " ".join(resolved.command)
    return " ".join(command.split())


def _config(spec: Spec, resolved: Resolved) -> str:
    if spec.config is None:
        return "none"
    if resolved.config_path:
        return f"{resolved.config_path}, used as it is"
    if resolved.config_beside:
        return f"{resolved.config_name}, a copy beside {resolved.config_beside} that differs in the turned values only"
    return f"{resolved.config_name}, written for every attempt from the spec's values"


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
        return "it may begin anew"
    return f"{recipe} is appended"


def _ladder_lines(steps: Sequence[KnobState]) -> list[str]:
    if not steps:
        return ["  nothing: the spec declares no knobs"]
    return [line for number, state in enumerate(steps, 1) for line in _wrapped(_knob_line(number, state))]


def _knob_line(number: int, state: KnobState) -> str:
    knob = state.knob
    relieves = ", ".join(knob.relieves)
    if not state.live:
        return f"  {number} {knob.key} is dead: {state.why} (for {relieves})"
    steps = " -> ".join(_written(value) for value in [state.value, *(rung[knob.key] for rung in state.rungs)])
    partner = ""
    if knob.partner:
        values = [state.partner_value, *(rung[knob.partner] for rung in state.rungs if knob.partner in rung)]
        along = " -> ".join(_written(value) for value in values)
        partner = f", with {knob.partner} {along} (keeps {knob.keep})"
    training = ", changes the training" if knob.changes_training else ""
    return f"  {number} {knob.key} {steps}{partner}{training}, for {relieves}"


def _policy(spec: Spec, steps: Sequence[KnobState]) -> list[str]:
    actions = permissions(spec, steps)
    lines = _wrapped(f"restarts by itself for: {_grouped(actions['restart']) or 'nothing'}")
    if actions["shadow"]:
        lines += _wrapped(f"only says what it would do for: {_grouped(actions['shadow'])}")
    return [
        *lines,
        "for everything else it tells a person and changes nothing; a resume that went wrong it stops before the save",
    ]


def _wrapped(text: str) -> list[str]:
    return wrap(text, MAX_COLUMNS, subsequent_indent="            ", break_long_words=False)


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


def _written(value: Scalar) -> str:
    return "unset" if value is None else str(value)
