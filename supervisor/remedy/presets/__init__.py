"""Presets: what is known of a trainer beforehand, as data. They fill what a spec leaves out and overrule nothing."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from supervisor.model.errors import Fault, InvalidInput
from supervisor.model.reading import nearest, parse_spec
from supervisor.model.spec import Spec

SUFFIX = ".toml"
PARTWISE = frozenset({"checkpoint", "stop", "completion"})
"""Keys that are filled key by key; of the others the spec's word stands alone (its own knobs, no others)."""


def names() -> list[str]:
    """The presets that there are."""
    found = (each.name for each in files(__name__).iterdir() if each.name.endswith(SUFFIX))
    return sorted(name.removesuffix(SUFFIX) for name in found)


def with_preset(spec: Spec) -> Spec:
    """`spec` with what its preset knows and it does not say; the same spec where it names none.

    InvalidInput for a preset that there is not (naming the nearest), or where the preset needs what only the spec can
    say. Filling twice fills nothing more.
    """
    if spec.preset is None:
        return spec
    data = spec.model_dump(by_alias=True, exclude_unset=True)
    for key, value in _preset(spec.preset).items():
        if data.get(key) is None:
            data[key] = value
        elif key in PARTWISE:
            data[key] = {**value, **data[key]}
    if "checkpoint" in data and "path" not in data["checkpoint"]:
        raise InvalidInput(
            f"Preset {spec.preset} cannot know where the checkpoints lie.",
            remedy="Write `checkpoint: {path: FOLDER}`.",
            faults=[Fault(place="checkpoint.path", detail="is missing")],
        )
    return parse_spec(data, source=f"the spec with preset {spec.preset}")


@cache
def _preset(name: str) -> dict[str, Any]:
    known = names()
    if name not in known:
        close = nearest(name, known)
        remedy = f"did you mean {close!r}?" if close else f"known presets: {', '.join(known)}"
        raise InvalidInput(
            f"There is no preset {name!r}.",
            remedy=remedy,
            faults=[Fault(place="preset", value=name, detail="there is no such preset", remedy=remedy)],
        )
    return tomllib.loads(files(__name__).joinpath(f"{name}{SUFFIX}").read_text("utf-8"))
