"""Finding conda and its environments on a node, without running anybody's shell start-up files.

They are read as text: conda writes down there where it lies, and often only an interactive shell would come by it.
"""

import contextlib
import os
import re
import shlex
import shutil
from typing import NamedTuple

from supervisor.probe import folder
from supervisor.probe.unfit import Unfit

_FLAVOURS = (
    "miniconda3",
    "anaconda3",
    "miniforge3",
    "mambaforge",
    "mambaforge-pypy3",
    "miniconda",
    "anaconda",
    "conda",
)
_HOMES = ("/opt", "/usr/local", "/usr/local/share", "/srv", "/root")
_START_UP = (".bashrc", ".bash_profile", ".profile", ".zshrc", ".config/fish/config.fish")
_SYSTEM_START_UP = ("/etc/profile.d/conda.sh", "/etc/profile", "/etc/bash.bashrc")
_IN_TEXT = re.compile(r"(/[^\s'\"`$();]+?)/(?:bin/conda|etc/profile\.d/conda\.sh|condabin/conda)\b")
_MAMBA_IN_TEXT = re.compile(r"(/[^\s'\"`$();]+/micromamba)['\"]?(?:\s|;|$)", re.MULTILINE)
_MAMBA_ROOT_IN_TEXT = re.compile(r"MAMBA_ROOT_PREFIX=['\"]?(/[^\s'\"]+)")
_ENVS_DIRS = re.compile(r"^envs_(?:dirs|path):[ \t]*\n((?:[ \t]*-[ \t]*\S.*\n?)+)", re.MULTILINE)
MAX_SHOWN = 12


class Conda(NamedTuple):
    """One installation."""

    root: str
    micromamba: str | None
    """The program, where it is micromamba's root."""

    def activation(self, environment: str) -> str:
        """Bash that activates it."""
        if self.micromamba:
            program = shlex.quote(self.micromamba)
            return (
                f"export MAMBA_ROOT_PREFIX={shlex.quote(self.root)}; "
                f'eval "$({program} shell hook --shell bash)" && micromamba activate {shlex.quote(environment)}'
            )
        script = os.path.join(self.root, "etc", "profile.d", "conda.sh")
        if os.path.exists(script):
            return f". {shlex.quote(script)} && conda activate {shlex.quote(environment)}"
        program = shlex.quote(os.path.join(self.root, "bin", "conda"))
        return f'eval "$({program} shell.bash hook)" && conda activate {shlex.quote(environment)}'


def activation(wanted: str, workdir: str, path: str) -> str:
    """Bash that activates the environment of that name, or in that folder (`./env`, `~/envs/a`, `/opt/envs/a`).

    Unfit where there is no conda, or no such environment. `path` is the attempt's PATH.
    """
    found = installations(path)
    if not found:
        raise Unfit(
            f"conda: {wanted}: no conda was found (looked in PATH, in the shell's start-up files, and for "
            f"{', '.join(_FLAVOURS[:4])} and micromamba in {folder.home()}, {', '.join(_HOMES[:2])}). Install it "
            "there, or source it in `setup` instead."
        )
    if "/" in wanted or wanted.startswith("~"):
        place = folder.expand(wanted, workdir)
        if not _is_environment(place):
            raise Unfit(f"conda: {wanted}: there is no environment in {place}. Create it, or correct `conda`.")
        owner = next((one for one in found if place == one.root or place.startswith(one.root + "/")), found[0])
        return owner.activation(place)
    if wanted in ("base", "root"):
        return found[0].activation("base")
    known: dict[str, tuple[Conda, str]] = {}
    for one in found:
        for place in _environments(one.root):
            by_name = place == os.path.join(one.root, "envs", os.path.basename(place))
            known.setdefault(os.path.basename(place), (one, os.path.basename(place) if by_name else place))
    if wanted in known:
        one, shown = known[wanted]
        return one.activation(shown)
    names = ", ".join(["base", *sorted(known)][:MAX_SHOWN])
    roots = ", ".join(one.root for one in found)
    raise Unfit(
        f"conda: {wanted}: there is no environment of that name in {roots}; there are: {names}. Create it, or correct "
        "`conda` (a path works, too)."
    )


def installations(path: str) -> list[Conda]:
    """All that are found, the one that the user's own shell would take first."""
    home = folder.home()
    texts = [
        folder.content(place, 1 << 20).decode("utf-8", "replace")
        for place in (*(os.path.join(home, name) for name in _START_UP), *_SYSTEM_START_UP)
    ]
    roots = [root.replace("//", "/") for text in texts for root in _IN_TEXT.findall(_without_comments(text))]
    program = shutil.which("conda", path=path)
    if program:
        roots.append(os.path.dirname(os.path.dirname(os.path.realpath(program))))
    roots += [os.path.join(place, flavour) for place in (home, *_HOMES) for flavour in _FLAVOURS]
    found = [
        Conda(root, None)
        for root in dict.fromkeys(os.path.normpath(root) for root in roots)
        if os.path.exists(os.path.join(root, "etc/profile.d/conda.sh"))
        or os.path.exists(os.path.join(root, "bin/conda"))
    ]
    return [*found, *_micromambas(home, path, texts)]


def _micromambas(home: str, path: str, texts: list[str]) -> list[Conda]:
    named = [program for text in texts for program in _MAMBA_IN_TEXT.findall(_without_comments(text))]
    usual = [shutil.which("micromamba", path=path), f"{home}/.local/bin/micromamba", f"{home}/bin/micromamba"]
    program = next((one for one in [*named, *usual] if one and os.access(one, os.X_OK)), None)
    if program is None:
        return []
    roots = [root for text in texts for root in _MAMBA_ROOT_IN_TEXT.findall(text)]
    roots += [f"{home}/micromamba", f"{home}/.local/share/mamba", "/opt/micromamba"]
    return [Conda(root, program) for root in dict.fromkeys(roots) if os.path.isdir(root)]


def _environments(root: str) -> list[str]:
    home = folder.home()
    places = [os.path.join(root, "envs"), os.path.join(home, ".conda", "envs")]
    for name in (os.path.join(home, ".condarc"), os.path.join(root, ".condarc")):
        listed = _ENVS_DIRS.search(folder.content(name, 65536).decode("utf-8", "replace") + "\n")
        if listed:
            lines = (line.strip().lstrip("-").strip().strip("'\"") for line in listed.group(1).splitlines())
            places += [folder.expand(line) for line in lines if line]
    found = []
    for place in dict.fromkeys(places):
        with contextlib.suppress(OSError):
            found += [os.path.join(place, name) for name in sorted(os.listdir(place))]
    known = folder.content(os.path.join(home, ".conda", "environments.txt"), 1 << 20).decode("utf-8", "replace")
    found += [line.strip() for line in known.splitlines() if os.path.basename(os.path.dirname(line.strip())) == "envs"]
    return [place for place in dict.fromkeys(found) if _is_environment(place)]


def _is_environment(place: str) -> bool:
    return os.path.isdir(os.path.join(place, "conda-meta")) or os.path.exists(os.path.join(place, "bin", "python"))


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
