"""What the wrapper starts: argv, environment and paths of an attempt, from its launch record."""

import os
import pwd
import shlex
from collections.abc import Mapping
from typing import Any

from supervisor.probe import folder

TAG = "VIGIL_ATTEMPT"
"""The environment variable, inherited by all of the attempt's processes, that says whose they are."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SETUP_MARK = "setup"
"""A file of the attempt: emptied (which needs no disk) when the setup has succeeded."""


def tag(run: str, attempt: int) -> str:
    """The tag's value."""
    return f"{run}.{attempt}"


def argv(launch: dict[str, Any], attempt_folder: str) -> list[str]:
    """What is executed. A string is a line for bash; a list runs without a shell unless a setup comes first."""
    command, setup = launch["command"], launch.get("setup")
    if isinstance(command, str):
        line = _placed(command, launch, attempt_folder, quote=True)
        if not setup:
            return ["bash", "-o", "pipefail", "-c", line]
        return ["bash", "-o", "pipefail", "-c", _after_setup(setup, attempt_folder) + line]
    words = [_placed(word, launch, attempt_folder, quote=False) for word in command]
    if not setup:
        return words
    return ["bash", "-o", "pipefail", "-c", _after_setup(setup, attempt_folder) + 'exec "$@"', "bash", *words]


def environment(
    launch: dict[str, Any],
    attempt_folder: str,
    from_file: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment: a clean base (lxc-attach and tmux pass foreign variables on), what the `env_file` holds,
    the launch's own, then its secrets."""
    try:
        entry = pwd.getpwuid(os.getuid())
        user, shell = entry.pw_name, entry.pw_shell
    except KeyError:
        user, shell = str(os.getuid()), "/bin/sh"
    home = folder.home()
    variables = {
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": shell or "/bin/sh",
        "PATH": f"{home}/.local/bin:{_node_path()}",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TERM": "screen-256color",
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **(from_file or {}),
    }
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


def _after_setup(setup: str, attempt_folder: str) -> str:
    # The status stands on a line of its own: `eval … || exit` would switch the setup's own `set -e` off.
    mark = shlex.quote(os.path.join(attempt_folder, SETUP_MARK))
    return (
        f"eval {shlex.quote(setup)}\n"
        "__vigil_status=$?\n"
        'if [ "$__vigil_status" -ne 0 ]; then exit "$__vigil_status"; fi\n'
        f": >| {mark}\n"
        "unset __vigil_status\n"
    )


def _placed(text: str, launch: dict[str, Any], attempt_folder: str, *, quote: bool) -> str:
    shown = shlex.quote if quote else str
    config = config_path(launch, attempt_folder)
    if config is not None:
        text = text.replace("{config}", shown(config))
    return text.replace("{attempt}", shown(attempt_folder))


def _node_path() -> str:
    try:
        with open("/etc/environment", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.strip().partition("=")
        if name.removeprefix("export ").strip() == "PATH":
            own = [part for part in value.strip().strip("\"'").split(":") if part.startswith("/")]
            return ":".join([*own, *(part for part in _PATH.split(":") if part not in own)])
    return _PATH
