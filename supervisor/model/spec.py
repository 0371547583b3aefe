"""A run's spec: what a person asks for. Shapes and defaults are those of docs/spec.md."""

import re
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

import re2
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from supervisor.model.causes import Retry, catalogue, families
from supervisor.model.node import LOGIN_NAME, NODE_NAME
from supervisor.model.noun import Noun
from supervisor.model.secret import SecretName
from supervisor.model.signature import OwnSignature

RUN_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
Scalar = str | int | float | bool | None
Action = Literal["restart", "alert", "shadow"]
MAX_SECONDS = 1e9
"""Thirty years: beyond it a time plus a wait is no time any more."""
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]
Span = Annotated[float, Field(gt=0, le=MAX_SECONDS)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]


def _tuple_of_one(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _progress_pattern(pattern: str) -> str:
    """It is read with google-re2, so that no pattern can hang the daemon: look-around is refused here, not there."""
    options = re2.Options()
    options.log_errors = False
    try:
        groups = re2.compile(pattern, options=options).groupindex
    except re2.error as error:
        why = error.args[0]
        raise ValueError(f"is no regular expression: {why.decode() if isinstance(why, bytes) else why}") from error
    if "step" not in groups:
        raise ValueError(r"needs a group named `step`, such as step (?P<step>\d+)")
    return pattern


class ConfigSpec(Noun):
    """The program's configuration file."""

    file: str | None = None
    """A file on the node, relative to `workdir`; never edited."""
    format: Literal["toml", "yaml", "json"] | None = None
    values: dict[str, Any] | None = None
    """Rendered for every attempt."""

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.file is None) == (self.values is None):
            raise ValueError("needs either `file`, or `format` with `values`")
        if self.values is not None and self.format is None:
            raise ValueError("`values` need `format`: toml, yaml or json")
        return self

    @property
    def kind(self) -> Literal["toml", "yaml", "json"]:
        """The format, from the file's suffix where it is not said."""
        if self.format:
            return self.format
        suffix = (self.file or "").rsplit(".", 1)[-1].lower()
        return {"toml": "toml", "json": "json"}.get(suffix, "yaml")  # type: ignore[return-value]


_REPEATED_REPEAT = re.compile(r"[+*}?]\)+[+*{]")
"""The node matches with Python's own engine, which nobody can break off: `(\\d+)*` over a long name stops the probe."""


class CheckpointSpec(Noun):
    """Where checkpoints appear; how progress is proved."""

    path: str
    """Relative to `workdir`."""
    step: str = r"step_(\d+)"
    """A regular expression for the name of a checkpoint; its first group is the step."""
    complete: str | None = None
    """The file that is written last in a checkpoint's folder."""

    @model_validator(mode="after")
    def _pattern(self) -> Self:
        try:
            groups = re.compile(self.step).groups
        except re.error as error:
            raise ValueError(f"`step` is no regular expression: {error}") from error
        if groups < 1:
            raise ValueError("`step` needs one group that holds the step, such as step_(\\d+)")
        if _REPEATED_REPEAT.search(self.step):
            raise ValueError("`step` repeats a repeat, which can take for ever: write it without, such as step_(\\d+)")
        return self


class ResumeByConfig(Noun):
    """Resume by a key of the configuration."""

    config: str


class ResumeByEnv(Noun):
    """Resume by an environment variable."""

    env: str


Resume = str | ResumeByConfig | ResumeByEnv
"""Arguments with `{checkpoint}`; or `auto` (the program finds it), `scratch` (it may begin anew)."""


class Knob(Noun):
    """A setting that Vigil may turn."""

    key: Annotated[
        str, Field(pattern=r"^(env\.[A-Za-z_][A-Za-z0-9_]*|config\..+|args\.(?:-{1,2}.+|[A-Za-z_][\w./@-]*))$")
    ]
    """`env.NAME`, `config.PATH`, `args.--flag`, or `args.a.b` for an override such as `a.b=8`."""
    relieves: tuple[str, ...]
    """Causes or families."""
    set: Scalar = None
    unset: Literal[True] | None = None
    step: Literal["halve", "double"] | None = None
    add: float | None = None
    choose: tuple[Scalar, ...] | None = None
    min: float | None = None
    max: float | None = None
    partner: Annotated[str | None, Field(alias="with")] = None
    """The key that is turned along, solved from `keep`."""
    keep: str | None = None
    """A product of keys that must stay equal, such as `config.a * config.b`."""
    changes_training: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [name for name in ("set", "unset", "step", "add", "choose") if name in self.model_fields_set]
        if len(ways) != 1:
            raise ValueError(
                f"knob {self.key} needs exactly one of set, unset, step, add, choose; has {ways or 'none'}"
            )
        if self.step and self.step == "halve" and self.min is None:
            raise ValueError(f"knob {self.key} halves: say where it ends with `min`")
        if self.step and self.step == "double" and self.max is None:
            raise ValueError(f"knob {self.key} doubles: say where it ends with `max`")
        if (self.partner is None) != (self.keep is None):
            raise ValueError(f"knob {self.key}: `with` and `keep` go together")
        for cause in self.relieves:
            if cause not in catalogue() and cause not in families():
                raise ValueError(
                    f"knob {self.key} relieves {cause!r}, which is neither a cause nor a family{_near(cause)}"
                )
        return self


class Watch(Noun):
    """When Vigil looks, and from when silence counts."""

    interval_s: Annotated[float, Field(ge=0.2, le=3600)] = 5.0
    first_progress_s: Span = 3600.0
    stall: Literal["auto"] | Span = "auto"
    stale_after_s: Span = 1800.0


class Budget(Noun):
    """How often Vigil may try."""

    corrections: Count = 8
    """Turns since the last checkpoint progress."""
    without_progress: Count = 3
    """Launches of one and the same point without it."""
    total: Count = 20
    per_day: Count = 6
    backoff_s: Annotated[tuple[Seconds, ...], Field(min_length=1)] = (0.0, 30.0, 120.0, 600.0)
    """By consecutive launches of the same point."""


class Preflight(Noun):
    """A command that may refuse a configuration before it costs a launch."""

    command: str
    timeout_s: Span = 60.0


class Stop(Noun):
    """How the attempt is ended politely."""

    signal: Literal["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] = "SIGINT"
    grace_s: Seconds = 60.0
    save_grace_s: Seconds = 3600.0
    """While a checkpoint grows."""
    clean: tuple[str, ...] = ()


class Completion(Noun):
    """When the work counts as complete."""

    exit_code: Annotated[int, Field(ge=0, le=255)] = 0
    marker: str = "auto"


class Spec(Noun):
    """What a person asks for. Only `name`, `node` and `command` are required."""

    name: Annotated[str, Field(pattern=RUN_NAME)]
    node: Annotated[str, Field(pattern=NODE_NAME)]
    user: Annotated[str, Field(pattern=LOGIN_NAME)] | None = None
    workdir: str = "~"
    setup: str | None = None
    venv: str | None = None
    conda: str | None = None
    command: Annotated[str, Field(min_length=1)] | Annotated[tuple[str, ...], Field(min_length=1)]
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}
    secrets: tuple[SecretName, ...] = ()
    env_file: Annotated[str, Field(min_length=1)] | None = None
    config: ConfigSpec | None = None
    metrics: str | None = None
    logs: Annotated[tuple[str, ...], BeforeValidator(_tuple_of_one)] = ()
    progress: Annotated[str, AfterValidator(_progress_pattern)] | None = None
    checkpoint: CheckpointSpec | None = None
    resume: Resume | None = None
    gpus: Literal["all"] | tuple[Annotated[int, Field(ge=0, le=1023)], ...] = "all"
    after: str | None = None
    preset: str | None = None
    knobs: tuple[Knob, ...] = ()
    policy: dict[str, Action] = {}
    """By cause, family, retry class or `default`; the most specific wins."""
    watch: Watch = Watch()
    budget: Budget = Budget()
    preflight: Preflight | None = None
    stop: Stop = Stop()
    completion: Completion = Completion()
    signatures: Annotated[tuple[OwnSignature, ...], Field(max_length=64)] = ()
    """Of the program's own messages; the diagnosis asks them before its own."""
    code: Literal["hold", "live"] = "hold"

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for key in self.policy:
            if key != "default" and key not in catalogue() and key not in families() and key not in set(Retry):
                raise ValueError(
                    f"policy names {key!r}, which is no cause, family, retry class or `default`{_near(key)}"
                )
        for name in self.secrets:
            if name in self.env or any(knob.key == f"env.{name}" for knob in self.knobs):
                raise ValueError(f"{name} is a secret: it can stand neither in `env` nor as a knob")
        if isinstance(self.command, str):
            if not self.command.strip():
                raise ValueError("command is empty")
            words = self.command
        else:
            words = " ".join(self.command)
        if "{config}" in words and self.config is None:
            raise ValueError("command names {config}, but there is no `config`")
        if isinstance(self.resume, ResumeByConfig) and self.config is None:
            raise ValueError("resume by a configuration key needs `config`")
        return self

    @property
    def config_is_used(self) -> bool:
        """`{config}` stands in the command or the environment; else a `config.` knob is dead."""
        words = [self.command] if isinstance(self.command, str) else list(self.command)
        return any("{config}" in word for word in [*words, *self.env.values()])


NOT_YET: dict[str, str] = {
    "preflight": "put the check at the head of `setup`",
    "logs": "let the program print to its terminal as well",
    "stop.clean": "remove them at the head of `setup`: rm -f PATTERN",
}
"""Keys of the spec, dotted, that this version reads but cannot honour yet, with what to do meanwhile."""


def _near(word: str) -> str:
    close = get_close_matches(word, [*catalogue(), *families(), *Retry, "default"], n=1)
    return f": did you mean {close[0]!r}?" if close else ""
