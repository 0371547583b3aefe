"""What an attempt is launched with: the configuration rendered, flags replaced, the resume recipe applied."""

from collections.abc import Mapping
from dataclasses import replace
from difflib import unified_diff
from pathlib import PurePosixPath
from typing import Any

from supervisor.model.errors import InvalidInput
from supervisor.model.noun import Noun
from supervisor.model.spec import ResumeByConfig, ResumeByEnv, Scalar, Spec
from supervisor.remedy.commandline import Command, with_resume
from supervisor.remedy.document import Document
from supervisor.remedy.objections import object_to
from supervisor.remedy.settings import Configuration, split

NO_ARGUMENTS = frozenset({"auto", "scratch"})
"""Recipes that append nothing: the program finds its checkpoint itself, or may begin anew."""


class Resolved(Noun):
    """One attempt's launch, as far as the spec and the turns decide it; `LaunchArgs` of the wire takes it over."""

    config_text: bytes | None = None
    """The rendered file; None: there is none, or the person's file is used as it is."""
    config_name: str | None = None
    config_beside: str | None = None
    """The person's file beside which the copy is written."""
    config_path: str | None = None
    """The person's file, used as it is."""
    command: tuple[str, ...] | str
    env: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    values: dict[str, Any] = {}
    """The configuration's values, for `Attempt.config`; empty where its file was not read or does not parse."""
    text: str | None = None
    """What `{config}` holds, rendered or as it is; None where it was not read."""
    overrides: dict[str, Scalar] = {}
    diff: str = ""
    """Against the spec as it was given, as a unified difference."""


def resolve(
    spec: Spec,
    overrides: Mapping[str, Scalar],
    *,
    file_text: str | None = None,
    checkpoint: str | None = None,
    attempt_no: int = 1,
) -> Resolved:
    """The launch of one attempt.

    `overrides`: every turned key and its value, whole. `file_text`: the text of `config.file` on the node.
    `checkpoint`: the path to resume from; None begins at the start. A configuration file stays untouched and in use
    as it is while no `config.` key is overridden and none is needed to resume; else a copy is named that stands
    beside it, so that paths relative to it hold. InvalidInput names the key that is not there, and what must not be
    launched at all (`objections`).
    """
    given = Configuration.of(spec, file_text)
    turned = given.turned(overrides)
    object_to(spec, turned)
    resumed = with_checkpoint(spec, turned, checkpoint)
    resolved = Resolved(
        **_files(spec, given, resumed, attempt_no),
        command=resumed.command,
        env=dict(resumed.env),
        unset=tuple(sorted(resumed.unset)),
        values=resumed.document.values if resumed.document else {},
        text=_text(resumed, file_text),
        overrides=dict(overrides),
    )
    before = Resolved(command=given.command, env=dict(given.env), text=_text(given, file_text))
    return resolved.model_copy(update={"diff": difference(before, resolved)})


def with_checkpoint(spec: Spec, configuration: Configuration, checkpoint: str | None) -> Configuration:
    """`configuration` with the spec's resume recipe applied; InvalidInput where it cannot be."""
    recipe = spec.resume
    if isinstance(recipe, ResumeByConfig):
        if checkpoint is None:
            return configuration
        document = configuration.document_for(f"config.{recipe.config}").put(recipe.config, checkpoint, new=True)
        return replace(configuration, document=document)
    if isinstance(recipe, ResumeByEnv):
        if checkpoint is None:
            return configuration
        return replace(
            configuration,
            env={**configuration.env, recipe.env: checkpoint},
            unset=configuration.unset - {recipe.env},
        )
    arguments = "" if recipe is None or recipe in NO_ARGUMENTS else recipe
    return replace(configuration, command=with_resume(configuration.command, arguments, checkpoint))


def no_way_in(spec: Spec) -> str | None:
    """Why the spec's resume arguments would not reach the program, with what to do; None where they would."""
    if not isinstance(spec.resume, str) or spec.resume in NO_ARGUMENTS:
        return None
    folder = spec.checkpoint.path if spec.checkpoint else "."
    try:
        with_resume(spec.command, spec.resume, f"{folder}/CHECKPOINT")
    except InvalidInput as error:
        return f"{error.detail} {error.remedy}"
    return None


def configuration_of(
    spec: Spec, *, file_text: str | None = None, overrides: Mapping[str, Scalar] | None = None
) -> Configuration:
    """The settings of a run with these turns, before its resume recipe; InvalidInput where a key is not there."""
    return Configuration.of(spec, file_text).turned(overrides or {})


def check_overrides(spec: Spec, overrides: Mapping[str, Scalar], *, file_text: str | None = None) -> None:
    """InvalidInput where one of the keys is no setting of the run, or one that the program never sees.

    `file_text` None: `config.file` could not be read; whether its keys are there then shows at the launch.
    """
    unread = spec.config is not None and spec.config.file is not None and file_text is None
    asked = {key: value for key, value in overrides.items() if not (unread and split(key)[0] == "config")}
    configuration_of(spec, file_text=file_text, overrides=asked)


def value_at(spec: Spec, key: str, *, file_text: str | None = None) -> Scalar:
    """What the spec itself sets `key` to; InvalidInput, with the nearest key, where there is none."""
    return configuration_of(spec, file_text=file_text).value(key)


def difference(before: Resolved, after: Resolved) -> str:
    """What changed between two launches: configuration, environment and command as one unified difference."""
    parts: list[str] = []
    for name, one, other in (
        ("config", before.text or "", after.text or ""),
        ("env", _env_lines(before), _env_lines(after)),
        ("command", _command_lines(before.command), _command_lines(after.command)),
    ):
        lines = unified_diff(one.splitlines(), other.splitlines(), name, name, n=1, lineterm="")
        parts += list(lines)
    return "\n".join(parts)


def _files(spec: Spec, given: Configuration, resumed: Configuration, attempt_no: int) -> dict[str, Any]:
    if spec.config is None:
        return {}
    if spec.config.file is None:
        assert resumed.document is not None
        return {"config_text": resumed.document.text.encode(), "config_name": f"config.{spec.config.kind}"}
    if resumed.document is None or resumed.document is given.document:
        return {"config_path": spec.config.file}
    file = PurePosixPath(spec.config.file)
    return {
        "config_text": resumed.document.text.encode(),
        "config_name": f"{file.stem}.vigil-{spec.name}-{attempt_no}{file.suffix}",
        "config_beside": spec.config.file,
    }


def _text(configuration: Configuration, file_text: str | None) -> str | None:
    document: Document | None = configuration.document
    return document.text if document else file_text


def _env_lines(resolved: Resolved) -> str:
    lines = [f"{name}={value}" for name, value in sorted(resolved.env.items())]
    return "\n".join(lines + [f"unset {name}" for name in resolved.unset])


def _command_lines(command: Command) -> str:
    return command if isinstance(command, str) else "\n".join(command)
