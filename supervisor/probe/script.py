"""What the wrapper starts: argv, environment and paths of an attempt, from its launch record."""

import os
import shlex
from collections.abc import Mapping
from typing import Any

from supervisor.probe import environment as clean
from supervisor.probe import folder, preamble

TAG = "VIGIL_ATTEMPT"
"""The environment variable, inherited by all of the attempt's processes, that says whose they are."""


def tag(run: str, attempt: int) -> str:
    """The tag's value."""
    return f"{run}.{attempt}"


def argv(launch: dict[str, Any], attempt_folder: str) -> list[str]:
    """What is executed. A string is a line for bash; a list runs without a shell unless a preamble comes first.

    Unfit where the preamble names what is not there.
    """
    command = launch["command"]
    before = ""
    if preamble.is_there(launch):
        path = environment(launch, attempt_folder).get("PATH", os.defpath)
        before = preamble.text(launch, attempt_folder, workdir(launch), path)
    if isinstance(command, str):
        return ["bash", "-o", "pipefail", "-c", before + _placed(command, launch, attempt_folder, quote=True)]
    words = [_placed(word, launch, attempt_folder, quote=False) for word in command]
    if not before:
        return words
    return ["bash", "-o", "pipefail", "-c", before + 'exec "$@"', "bash", *words]


def environment(
    launch: dict[str, Any],
    attempt_folder: str,
    from_file: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment: a clean base (lxc-attach and tmux pass foreign variables on), what the `env_file` holds,
    the launch's own, then its secrets."""
    variables = {**clean.base(), **(from_file or {})}
    if launch.get("gpus") is not None:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(launch["gpus"])
    for name, value in launch.get("env", {}).items():
        variables[name] = _placed(value, launch, attempt_folder, quote=False).replace("{run}", launch["run"])
    for name in launch.get("unset", []):
        variables.pop(name, None)
    variables.update(secrets or {})
    variables["VIGIL_RUN"] = launch["run"]
    variables[TAG] = tag(launch["run"], launch["attempt"])
    return variables


def workdir(launch: dict[str, Any]) -> str:
    """The folder that the command starts in."""
    return folder.expand(launch.get("workdir") or "~")


def env_file_path(launch: dict[str, Any]) -> str | None:
    """The file of environment variables; None where the run names none."""
    path = launch.get("env_file")
    return folder.expand(path, workdir(launch)) if path else None


def config_path(launch: dict[str, Any], attempt_folder: str) -> str | None:
    """Where `{config}` points: a file that is used as it is, or the rendered one; None where there is none."""
    name = launch.get("config_name")
    if name:
        beside = launch.get("config_beside")
        if beside:
            return os.path.join(os.path.dirname(folder.expand(beside, workdir(launch))), name)
        return os.path.join(attempt_folder, name)
    path = launch.get("config_path")
    return folder.expand(path, workdir(launch)) if path else None


def metrics_path(launch: dict[str, Any], attempt_folder: str) -> str | None:
    """The metrics file; None where the run names none."""
    path = launch.get("metrics")
    return folder.expand(path.replace("{attempt}", attempt_folder), workdir(launch)) if path else None


def _placed(text: str, launch: dict[str, Any], attempt_folder: str, *, quote: bool) -> str:
    shown = shlex.quote if quote else str
    config = config_path(launch, attempt_folder)
    if config is not None:
        text = text.replace("{config}", shown(config))
    return text.replace("{attempt}", shown(attempt_folder))
