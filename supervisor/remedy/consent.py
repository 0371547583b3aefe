"""The consent: what a run will be, and all that Vigil may ever do to it, said before the launch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from supervisor.model.causes import Cause, Retry, catalogue
from supervisor.model.code import Code
from supervisor.model.errors import VigilError
from supervisor.model.spec import Action, Spec
from supervisor.remedy.configuration import configuration_of, resolve
from supervisor.remedy.consent_text import lines_of
from supervisor.remedy.knobs import KnobState, ladder
from supervisor.remedy.policy import permission


@dataclass(frozen=True, slots=True)
class Consent:
    """What a person agrees to by launching."""

    lines: tuple[str, ...]
    """For people: at most MAX_LINES as long as the knobs fit; every change that may ever be made is in them."""
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
    begins: str | None = None,
    refused: VigilError | None = None,
) -> Consent:
    """The dry run.

    `shown_node`: the node, whole. `gpus`: its devices in words; empty: not known, or none. `file_text`: the text of
    `config.file`. `steps`: the ladder, made from these where it is not given. `code`: what lies in the work folder.
    `checkpoint`: the path that the first attempt resumes from; None begins at the start. `begins`: how it begins, where
    that needs words. `refused`: why it would not be created so. InvalidInput where the spec cannot be launched.
    """
    resolved = resolve(spec, {}, file_text=file_text, checkpoint=checkpoint)
    ladder_ = list(steps) if steps is not None else ladder(spec, configuration_of(spec, file_text=file_text))
    allowed = permissions(spec, ladder_)
    return Consent(
        lines=tuple(
            lines_of(
                spec,
                resolved,
                ladder_,
                allowed=allowed,
                shown_node=shown_node,
                gpus=gpus,
                code=code,
                checkpoint=begins or checkpoint,
                refused=str(refused) if refused else None,
            )
        ),
        json={
            "name": spec.name,
            "node": shown_node,
            "devices": list(gpus),
            "code": code.model_dump(mode="json") if code else None,
            "command": resolved.command if isinstance(resolved.command, str) else list(resolved.command),
            "config": resolved.values,
            "checkpoint": checkpoint,
            "refused": _problem(refused),
            "ladder": [state.model_dump(mode="json", by_alias=True, exclude_defaults=True) for state in ladder_],
            "policy": {action: [row.id for row in rows] for action, rows in allowed.items()},
            "budget": spec.budget.model_dump(mode="json"),
        },
    )


def _problem(error: VigilError | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"code": error.code, "detail": error.detail, "remedy": error.remedy, "errors": error.faults}


def permissions(spec: Spec, steps: Sequence[KnobState]) -> dict[Action, list[Cause]]:
    """Every cause that a restart may be worth something for, under what the run's policy allows for it."""
    actions: dict[Action, list[Cause]] = {"restart": [], "alert": [], "shadow": []}
    for row in catalogue().values():
        if row.retry is Retry.NONE or row.id == "resume_failed":
            continue
        live = any(state.live and {row.id, row.family} & set(state.knob.relieves) for state in steps)
        actions[permission(spec, row.id, correctable=live).action].append(row)
    return actions
