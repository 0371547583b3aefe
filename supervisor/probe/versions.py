"""Which Python and which libraries an attempt really runs with: read from its living processes and the folders that
they import from. Nothing is imported, and of the person's programs only the interpreter is asked for its version,
isolated (`-I -S`), where that is not ours.
"""

import functools
import json
import os
import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from supervisor.probe import folder, preamble, processes

FILE = "versions.json"
"""In the attempt's folder."""
LOOKS_S = (0.1, 0.1, 0.2, 0.3, 0.3, 0.5, 0.5, 1, 1, 2, 3, 5, 5, 10, 10, 20, 20, 20, 20)
"""Pauses between the looks at a new attempt, two minutes in all: it may be a while before it is what it is."""
SETTLED_S = 30.0
"""A Python that has run for so long without PyTorch will not load one."""
ASK_S = 5.0
MAX_ENVIRON_BYTES = 1 << 20
MAX_MAPS_BYTES = 4 << 20
NAMES = (
    "torch",
    "transformers",
    "accelerate",
    "deepspeed",
    "lightning",
    "pytorch_lightning",
    "datasets",
    "peft",
    "trl",
    "tokenizers",
    "flash_attn",
    "triton",
    "numpy",
    "jax",
)
ALWAYS = ("torch", "transformers")
"""Their absence is told too."""
_PYTHON = re.compile(r"(?:python|pypy)(?:3(?:\.\d+)?)?\Z")
_MINOR = re.compile(r"(?:python|pypy)(3\.\d+)\Z")
_DISTRIBUTION = re.compile(r"(.+?)-(\d[^-]*?)(?:-py[\d.]+)?\.(?:dist|egg)-info\Z")
_NCCL = re.compile(r"nvidia_nccl_cu\d+\Z")
_TORCH_MAPPED = re.compile(rb"^\S+ r.xp .*?(/\S*)/torch/lib/libtorch[^/]*\.so", re.MULTILINE)
_CUDA = re.compile(r"^cuda\b[^=\n]*=\s*['\"]([\d.]+)['\"]", re.MULTILINE)


class Interpreter(NamedTuple):
    """One Python process of an attempt, as far as it matters which libraries it finds."""

    executable: str
    words: list[str]
    environ: dict[str, str]
    cwd: str
    torch_from: str | None
    """The folder that its loaded PyTorch lies in."""


class Seeker:
    """Looks at a new attempt until it is known what it runs with; the result lies in the attempt's folder."""

    def __init__(
        self,
        place: str,
        launch: dict[str, Any],
        living: Callable[[], list[processes.Stat]],
        looks_s: Sequence[float] = LOOKS_S,
    ) -> None:
        """`living` answers the attempt's processes without its wrapper."""
        self._place = place
        self._launch = launch
        self._living = living
        self._looks_s = looks_s
        self._lock = threading.Lock()
        self._busy = False

    def begin(self) -> None:
        """Start looking, unless that is under way or done."""
        with self._lock:
            if self._busy or (found(self._place) or {}).get("settled"):
                return
            self._busy = True
        threading.Thread(target=self.seek, daemon=True).start()

    def seek(self) -> None:
        """Look until it is known, or until the last look; blocks."""
        try:
            began = time.monotonic()
            for pause_s in self._looks_s:
                time.sleep(pause_s)
                if os.path.exists(os.path.join(self._place, "exit.json")):
                    return
                seen = self._look(time.monotonic() - began)
                if seen is not None and seen != found(self._place):
                    self._write(seen)
                if seen is not None and seen["settled"]:
                    return
            if not self._in_preamble():
                # No Python of it was seen, or none that stayed: to look on would cost the node for as long as it runs.
                self._write({"versions": (found(self._place) or {}).get("versions", {}), "settled": True})
        except OSError:
            return
        finally:
            self._busy = False

    def _look(self, age_s: float) -> dict[str, Any] | None:
        if self._in_preamble():
            return None  # conda is a Python program, too
        pythons = [one for stat in self._living() if stat.lives and (one := interpreter(stat.pid)) is not None]
        if not pythons:
            return None
        chosen = next((one for one in pythons if one.torch_from), pythons[0])
        versions = versions_of(chosen)
        settled = chosen.torch_from is not None or age_s >= SETTLED_S
        return {"versions": versions, "settled": settled}

    def _in_preamble(self) -> bool:
        return preamble.is_there(self._launch) and not preamble.is_over(self._place)

    def _write(self, seen: dict[str, Any]) -> None:
        folder.replace_file(os.path.join(self._place, FILE), json.dumps(seen).encode())


def found(place: str) -> dict[str, Any] | None:
    """`versions` and whether they are `settled`; None where nothing was seen so far."""
    return folder.read_json(os.path.join(place, FILE))


def interpreter(pid: int) -> Interpreter | None:
    """That process, where it is a Python that may be read."""
    try:
        executable = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
        if not _PYTHON.match(os.path.basename(executable)):
            return None
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None
    entries = folder.content(f"/proc/{pid}/environ", MAX_ENVIRON_BYTES).split(b"\0")
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if b"=" in entry)
    mapped = _TORCH_MAPPED.search(folder.content(f"/proc/{pid}/maps", MAX_MAPS_BYTES))
    return Interpreter(
        executable=executable,
        words=[os.fsdecode(word) for word in folder.content(f"/proc/{pid}/cmdline", 65536).split(b"\0")],
        environ={name: value for name, _, value in pairs},
        cwd=cwd,
        torch_from=os.fsdecode(mapped.group(1)) if mapped else None,
    )


def versions_of(python: Interpreter) -> dict[str, str | None]:
    """`python`, and what is installed where it looks: None for what is always told and is not there."""
    version = _python_version(python.executable)
    versions: dict[str, str | None] = {"python": version} if version else {}
    minor = ".".join(version.split(".")[:2]) if version else None
    places = [place for place in _places(python, minor) if os.path.isdir(place)]
    if not places:
        return versions
    for place in places:
        for name, number in _installed(place).items():
            versions.setdefault(name, number)
            if name == "torch" and versions[name] == number and "cuda" not in versions:
                cuda = _CUDA.search(
                    folder.content(os.path.join(place, "torch", "version.py"), 8192).decode("utf-8", "replace")
                )
                if cuda:
                    versions["cuda"] = cuda.group(1)
    for name in ALWAYS:
        versions.setdefault(name, None)
    return versions


def prefix_of(python: Interpreter) -> str:
    """Where its libraries lie: the virtual environment that it was started from, else its own installation."""
    own = os.path.dirname(os.path.dirname(python.executable))
    word = python.words[0] if python.words else ""
    candidates = []
    if "/" in word:
        candidates.append(os.path.join(python.cwd, word))
    else:
        candidates += [os.path.join(place, word) for place in python.environ.get("PATH", "").split(":") if word]
        candidates += [
            os.path.join(python.environ[name], "bin", "python")
            for name in ("VIRTUAL_ENV", "CONDA_PREFIX")
            if python.environ.get(name)
        ]
    for candidate in candidates:
        if os.path.realpath(candidate) == python.executable:
            prefix = os.path.dirname(os.path.dirname(os.path.normpath(candidate)))
            return prefix if os.path.exists(os.path.join(prefix, "pyvenv.cfg")) else own
    return own


def _places(python: Interpreter, minor: str | None) -> list[str]:
    """The folders that it imports from, in its order."""
    own = os.path.dirname(os.path.dirname(python.executable))
    prefix = prefix_of(python)
    isolated = any(word in ("-I", "-E") for word in python.words[1:4])
    places = [python.torch_from] if python.torch_from else []
    if not isolated:
        places += [
            os.path.join(python.cwd, place) for place in python.environ.get("PYTHONPATH", "").split(":") if place
        ]
    if minor is None:
        return places
    shared = True
    if prefix != own:
        places += [f"{prefix}/{lib}/python{minor}/site-packages" for lib in ("lib", "lib64")]
        text = folder.content(os.path.join(prefix, "pyvenv.cfg"), 8192).decode("utf-8", "replace").lower()
        shared = re.search(r"^include-system-site-packages\s*=\s*true", text, re.MULTILINE) is not None
    if shared:
        if not (isolated or python.environ.get("PYTHONNOUSERSITE")):
            base = python.environ.get("PYTHONUSERBASE") or python.environ.get("HOME", folder.home()) + "/.local"
            places.append(f"{base}/lib/python{minor}/site-packages")
        places += [f"{own}/local/lib/python{minor}/dist-packages", f"{own}/lib/python3/dist-packages"]
        places += [f"{own}/{lib}/python{minor}/site-packages" for lib in ("lib", "lib64")]
    return places


def _installed(place: str) -> dict[str, str]:
    """The versions of the named libraries in that folder."""
    try:
        entries = os.listdir(place)
    except OSError:
        return {}
    installed = {}
    for entry in entries:
        match = _DISTRIBUTION.match(entry)
        if match is None:
            continue
        name = re.sub(r"[-.]+", "_", match.group(1)).lower()
        if name in NAMES:
            installed[name] = match.group(2)
        elif _NCCL.match(name):
            installed["nccl"] = match.group(2)
    return installed


def _python_version(executable: str) -> str | None:
    if os.path.realpath(sys.executable) == executable:
        return platform.python_version()
    try:
        changed_at = os.stat(executable).st_mtime
    except OSError:
        changed_at = 0.0
    told = _asked(executable, changed_at)
    minor = _MINOR.match(os.path.basename(executable))
    return told or (minor.group(1) if minor else None)


@functools.lru_cache(maxsize=64)
def _asked(executable: str, changed_at: float) -> str | None:
    """What it says of itself, without site, environment or current folder."""
    try:
        done = subprocess.run(
            [executable, "-I", "-S", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            timeout=ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout.decode("ascii", "replace").strip()
    return text if re.fullmatch(r"\d+\.\d+\.\d+", text) else None
