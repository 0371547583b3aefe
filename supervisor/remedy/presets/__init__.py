"""Presets: what is known of a trainer beforehand, as data. They fill what a spec leaves out and overrule nothing."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from supervisor.model.errors import Fault, InvalidInput
from supervisor.model.preset import Preset, PresetCheckpoint, PresetKnob, ResumeBySetting
from supervisor.model.reading import nearest, parse, parse_spec
from supervisor.model.spec import Spec
from supervisor.remedy.commandline import flags
from supervisor.remedy.places import Place, place_of, placed, written_value
from supervisor.remedy.settings import Configuration

SUFFIX = ".toml"
PARTWISE = frozenset({"env", "checkpoint", "policy", "watch", "stop", "completion"})
"""Keys that are filled key by key; of the others the spec's word stands alone (its own knobs, no others)."""


@cache
def shipped() -> dict[str, Preset]:
    """The presets that come with Vigil, by name."""
    found = {each.name: each for each in files(__name__).iterdir() if each.name.endswith(SUFFIX)}
    return {name.removesuffix(SUFFIX): read_preset(found[name].read_text("utf-8"), name) for name in sorted(found)}


def read_preset(text: str, source: str) -> Preset:
    """The preset that a data file holds; InvalidInput names `source` and every faulty key."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"{source} is not valid TOML: {error}") from error
    return parse(Preset, data, source=source)


def with_preset(spec: Spec, *, file_text: str | None = None, own: Mapping[str, Preset] | None = None) -> Spec:
    """`spec` with what its preset knows and it does not say; the same spec where it names none.

    `file_text`: the text of `config.file` on the node, None where it was not read. `own`: presets that a person added,
    by name; they go before those of that name that come with Vigil. InvalidInput for a preset that there is not
    (naming the nearest), or where the preset needs what only the spec can say. Filling twice fills nothing more.
    """
    if spec.preset is None:
        return spec
    preset = _named(spec.preset, {**shipped(), **(own or {})})
    configuration = Configuration.of(spec, file_text)
    data = spec.model_dump(by_alias=True, exclude_unset=True)
    for key, value in _filling(preset, spec, configuration).items():
        if data.get(key) is None:
            data[key] = value
        elif key in PARTWISE:
            data[key] = {**value, **data[key]}
    if "checkpoint" in data and "path" not in data["checkpoint"]:
        data["checkpoint"] = {**data["checkpoint"], "path": _checkpoint_path(preset, spec, configuration)}
    return parse_spec(data, source=f"the spec with preset {spec.preset}")


def _named(name: str, known: Mapping[str, Preset]) -> Preset:
    if name in known:
        return known[name]
    close = nearest(name, list(known))
    remedy = f"did you mean {close!r}?" if close else f"known presets: {', '.join(sorted(known))}"
    raise InvalidInput(
        f"There is no preset {name!r}.",
        remedy=remedy,
        faults=[Fault(place="preset", value=name, detail="there is no such preset", remedy=remedy)],
    )


def _filling(preset: Preset, spec: Spec, configuration: Configuration) -> dict[str, Any]:
    """What the preset says of this spec, as the spec would say it."""
    data = preset.model_dump(by_alias=True, exclude_unset=True, exclude={"about", "checkpoint", "resume", "knobs"})
    if isinstance(preset.resume, ResumeBySetting):
        data["resume"] = _resume(preset, preset.resume.setting, spec, configuration)
    elif preset.resume is not None:
        data["resume"] = preset.resume if isinstance(preset.resume, str) else preset.resume.model_dump()
    if preset.checkpoint:
        data["checkpoint"] = preset.checkpoint.model_dump(exclude_none=True, exclude={"path_setting"})
    knobs = [_knob(knob, spec, configuration) for knob in preset.knobs]
    if any(knobs):
        data["knobs"] = [knob for knob in knobs if knob]
    return data


def _resume(preset: Preset, name: str, spec: Spec, configuration: Configuration) -> str | dict[str, str]:
    """The recipe for a setting: as an argument where the program takes such arguments, else as a key of its file."""
    place = place_of(name, spec, configuration)
    if place.key.startswith("config.") and not _takes_arguments(preset, configuration):
        return {"config": place.key.removeprefix("config.")}
    flag = place.key.removeprefix("args.") if place.key.startswith("args.") else f"--{name}"
    return f"{flag} {{checkpoint}}" if flag.startswith("-") else f"{flag}={{checkpoint}}"


def _takes_arguments(preset: Preset, configuration: Configuration) -> bool:
    """One of the settings that the preset knows stands on the command line."""
    known = {knob.key.removeprefix("setting.") for knob in preset.knobs}
    if preset.checkpoint and preset.checkpoint.path_setting:
        known.add(preset.checkpoint.path_setting)
    return bool(known & {flag.lstrip("-").replace("-", "_") for flag in flags(configuration.command)})


def _knob(knob: PresetKnob, spec: Spec, configuration: Configuration) -> dict[str, Any] | None:
    """The knob with its keys as they are here; None where it is optional and its setting is written nowhere."""
    name = knob.key.removeprefix("setting.")
    place = place_of(name, spec, configuration) if name != knob.key else Place(knob.key, written=True)
    if knob.optional and place.written is False:
        return None
    data = knob.model_dump(by_alias=True, exclude_unset=True, exclude={"optional"})
    for key in ("key", "with", "keep"):
        if key in data:
            data[key] = placed(data[key], spec, configuration)
    return data


def _checkpoint_path(preset: Preset, spec: Spec, configuration: Configuration) -> str:
    checkpoint = preset.checkpoint or PresetCheckpoint()
    name = checkpoint.path_setting
    found = written_value(name, spec, configuration) if name else None
    moved = any(word.startswith("cd ") for word in (spec.setup or "").splitlines()) or _changes_folder(configuration)
    if isinstance(found, str) and found and (found.startswith("/") or not moved):
        return found
    why = f"{name} is not written where it can be read" if name else "it is the program's own choice"
    if isinstance(found, str) and found:
        why = f"{name} is {found!r}, but the command changes its folder"
    elif name and spec.config and spec.config.file and configuration.document is None:
        why = f"{name} is not on the command line, and {configuration.no_document}"
    raise InvalidInput(
        f"Preset {spec.preset} cannot know where the checkpoints lie: {why}.",
        remedy="Write `checkpoint: {path: FOLDER}`.",
        faults=[Fault(place="checkpoint.path", detail="is missing")],
    )


def _changes_folder(configuration: Configuration) -> bool:
    command = configuration.command
    texts = command.split() if isinstance(command, str) else command
    return "cd" in texts or "pushd" in texts
