"""What runs in the command's shell before the command: conda, then the virtual environment, then the person's setup."""

import os
import shlex
from typing import Any

from supervisor.probe import conda, folder
from supervisor.probe.unfit import Unfit

MARK = "setup"
"""A file of the attempt: emptied (which needs no disk) when the preamble has succeeded."""
STEP = "setup.step"
"""Another: which step it is at."""


def is_there(launch: dict[str, Any]) -> bool:
    """Whether anything runs before the command."""
    return bool(launch.get("setup") or launch.get("venv") or launch.get("conda"))


def text(launch: dict[str, Any], attempt_folder: str, workdir: str, path: str) -> str:
    """The lines before the command. Unfit where conda, its environment or the virtual environment is missing."""
    steps = []
    if launch.get("conda"):
        steps.append((f"conda: {launch['conda']}", conda.activation(launch["conda"], workdir, path)))
    if launch.get("venv"):
        steps.append((f"venv: {launch['venv']}", _venv(launch["venv"], workdir)))
    if launch.get("setup"):
        steps.append(("setup", launch["setup"]))
    mark, step_file = (shlex.quote(os.path.join(attempt_folder, name)) for name in (MARK, STEP))
    lines = []
    for what, line in steps:
        # The status stands on a line of its own: `eval … || exit` would switch the setup's own `set -e` off.
        lines += [
            f"printf %s {shlex.quote(what)} 2>/dev/null >| {step_file} || :",
            f"eval {shlex.quote(line)}",
            "__vigil_status=$?",
            'if [ "$__vigil_status" -ne 0 ]; then exit "$__vigil_status"; fi',
        ]
    return "\n".join([*lines, f": >| {mark}", "unset __vigil_status", ""])


def is_over(attempt_folder: str) -> bool:
    """The preamble has succeeded."""
    try:
        return os.stat(os.path.join(attempt_folder, MARK)).st_size == 0
    except OSError:
        return False


def step(attempt_folder: str) -> str:
    """What it was at last: `setup`, `venv: .venv`, `conda: vit`."""
    return folder.content(os.path.join(attempt_folder, STEP), 4096).decode("utf-8", "replace") or "setup"


def _venv(wanted: str, workdir: str) -> str:
    place = folder.expand(wanted, workdir)
    script = os.path.join(place, "bin", "activate")
    if not os.path.exists(script):
        what = "it has no bin/activate" if os.path.isdir(place) else "there is no such folder"
        raise Unfit(
            f"venv: {place}: {what}. Create it (cd {shlex.quote(workdir)} && python3 -m venv {shlex.quote(wanted)}), "
            "or correct `venv`."
        )
    python = os.path.join(place, "bin", "python")
    if not os.path.exists(python):
        target = f" (it pointed at {os.readlink(python)})" if os.path.islink(python) else ""
        raise Unfit(f"venv: {place}: its Python is gone{target}. Make the environment anew, or correct `venv`.")
    return f". {shlex.quote(script)}"
