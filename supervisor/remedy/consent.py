"""The consent: what a run will be, and all that Vigil may ever do to it, said before the launch in at most 25 lines."""

from collections.abc import Iterable, Sequence
from textwrap import wrap

from supervisor.model.causes import Cause, Retry, catalogue
from supervisor.model.spec import Action, ResumeByConfig, ResumeByEnv, Scalar, Spec
from supervisor.remedy.configuration import Resolved
from supervisor.remedy.knobs import KnobState
from supervisor.remedy.policy import permission

MAX_LINES = 25
MAX_COLUMNS = 160
"""Longer lines are wrapped, or cut where they quote the command or one knob."""


def consent(
    spec: Spec,
    resolved: Resolved,
    ladder: Sequence[KnobState],
    *,
    where: str,
    devices: str = "not known yet",
    code: str = "not known yet",
    checkpoint: str | None = None,
) -> list[str]:
    """The dry run for people. `where`: the node, whole; `devices`, `code`: as the node says; `checkpoint`: the path
    that the first attempt resumes from, None for the beginning."""
    head = [
        f"{spec.name} on {where}{f' as {spec.user}' if spec.user else ''}, in {spec.workdir}",
        f"devices:    {devices}",
        f"code:       {code}; when it has changed, an automatic restart "
        f"{'waits for a person' if spec.code == 'hold' else 'takes the new code'}",
        f"command:    {_command(resolved)}",
        f"config:     {_config(spec, resolved)}",
        f"checkpoint: {checkpoint or 'none, from the beginning'}",
        f"resume:     {_resume(spec)}",
        "may change, in this order, and nothing else:",
    ]
    budget = spec.budget
    tail = [
        *_policy(spec, ladder),
        f"budget:     {budget.corrections} corrections and {budget.without_progress} launches of one configuration "
        f"without a new checkpoint, {budget.per_day} restarts a day, {budget.total} in all",
        f"stop:       {spec.stop.signal}, then TERM after {spec.stop.grace_s:g} s "
        f"({spec.stop.save_grace_s:g} s while it saves), then KILL; removes {', '.join(spec.stop.clean) or 'nothing'}",
        "will never: restart what a person stopped; start a configuration proved bad; start anew over checkpoints;",
        "            edit your files; touch checkpoints, data, caches or processes that are not this run's",
    ]
    knobs = _ladder_lines(ladder, MAX_LINES - len(head) - len(tail))
    return [line if len(line) <= MAX_COLUMNS else f"{line[: MAX_COLUMNS - 1]}…" for line in [*head, *knobs, *tail]]


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


def _ladder_lines(ladder: Sequence[KnobState], room: int) -> list[str]:
    if not ladder:
        return ["  nothing: the spec declares no knobs"]
    lines = [_knob_line(number, state) for number, state in enumerate(ladder, 1)]
    if len(lines) <= room:
        return lines
    # Every knob is named, even where there is no room for a line of its own.
    rest = "; ".join(f"{state.knob.key}{'' if state.live else ' (dead)'}" for state in ladder[room - 1 :])
    return [*lines[: room - 1], f"  and {rest}"]


def _knob_line(number: int, state: KnobState) -> str:
    knob = state.knob
    relieves = ", ".join(knob.relieves)
    if not state.live:
        return f"  {number} {knob.key} is dead: {state.why} (for {relieves})"
    steps = " -> ".join(_written(value) for value in [state.value, *(rung[knob.key] for rung in state.rungs)])
    partner = ""
    if knob.partner:
        along = " -> ".join(_written(rung[knob.partner]) for rung in state.rungs if knob.partner in rung)
        partner = f", with {knob.partner} {along} (keeps {knob.keep})"
    training = ", changes the training" if knob.changes_training else ""
    return f"  {number} {knob.key} {steps}{partner}{training}, for {relieves}"


def _policy(spec: Spec, ladder: Sequence[KnobState]) -> list[str]:
    actions: dict[Action, list[Cause]] = {"restart": [], "alert": [], "shadow": []}
    for row in catalogue().values():
        if row.retry is Retry.NONE or row.id == "resume_failed":
            continue
        live = any(state.live and {row.id, row.family} & set(state.knob.relieves) for state in ladder)
        actions[permission(spec, row.id, correctable=live).action].append(row)
    lines = _wrapped(f"restarts by itself for: {_grouped(actions['restart']) or 'nothing'}")
    if actions["shadow"]:
        lines += _wrapped(f"only says what it would do for: {_grouped(actions['shadow'])}")
    return [*lines, "tells a person and changes nothing: for everything else"]


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
