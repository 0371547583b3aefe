"""A preset: what is known of a trainer beforehand, as a data file says it."""

from typing import Annotated, Any

from pydantic import Field

from supervisor.model.noun import Noun
from supervisor.model.spec import Action, Knob, Resume, Scalar

SETTING = "setting."
"""Before the name of a setting that may be written on the command line or in the configuration."""


class PresetKnob(Knob):
    """A knob whose keys may be `setting.NAME`: wherever the person wrote NAME."""

    key: Annotated[str, Field(pattern=r"^(setting\.[A-Za-z]\w*|env\.[A-Za-z_]\w*|config\..+|args\..+)$")]
    optional: bool = False
    """Left out, instead of shown as dead, where the setting is written nowhere."""


class ResumeBySetting(Noun):
    """Resume by a setting: an argument, or a key of the configuration."""

    setting: str


class PresetCheckpoint(Noun):
    """As in the spec, but the path may be said by a setting of the trainer."""

    path: str | None = None
    path_setting: str | None = None
    """The setting that holds the folder, such as `output_dir`."""
    step: str | None = None
    complete: str | None = None


class Preset(Noun):
    """One data file. Whatever it says counts only where the spec says nothing."""

    about: str = ""
    """One line for people."""
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}
    progress: str | None = None
    checkpoint: PresetCheckpoint | None = None
    resume: ResumeBySetting | Resume | None = None
    knobs: tuple[PresetKnob, ...] = ()
    policy: dict[str, Action] = {}
    watch: dict[str, Scalar] = {}
    stop: dict[str, Any] = {}
    completion: dict[str, Scalar] = {}
