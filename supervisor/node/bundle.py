"""The probe as one file: a zip archive that Python runs without anything being installed on the node."""

import base64
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

OLDEST_PYTHON = "3.10"
"""What libtmux and the probe need on the node; `boot.py` asks for the same."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT = frozenset({"__pycache__", "test", "pytest_plugin.py", "py.typed"})
"""What only the tests and the type checkers of libtmux need."""


class Bundle(NamedTuple):
    """The archive and the name under which a node keeps it."""

    content: bytes
    digest: str
    """SHA-256 of the content."""


@cache
def bundle() -> Bundle:
    """The archive of the installed probe, libtmux and pynvml, built once per process."""
    return pack(
        {
            "supervisor/__init__.py": b"",
            **dict(_tree(files("supervisor.probe"), "supervisor/probe")),
            **dict(_tree(files("libtmux"), "libtmux")),
            "pynvml.py": _module("pynvml"),
        }
    )


@cache
def boot_program() -> str:
    """What follows `python3 -c`: `boot.py` as one line that no login shell can misread.

    It holds no line break, no single quote, no `$` and no `!`: csh would stumble over each of them.
    """
    source = files("supervisor.node").joinpath("boot.py").read_bytes()
    text = base64.b64encode(zlib.compress(source, 9)).decode("ascii")
    return f'import base64,zlib;exec(zlib.decompress(base64.b64decode("{text}")))'


def pack(contents: Mapping[str, bytes]) -> Bundle:
    """A zip archive of these files, by name; equal files give equal bytes, whatever the clock says."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, contents[name])
    content = buffer.getvalue()
    return Bundle(content, hashlib.sha256(content).hexdigest())


def _tree(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.name in _LEFT_OUT:
            continue
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _tree(entry, path)
        elif entry.name.endswith((".py", ".toml", ".json", ".conf")):
            yield path, entry.read_bytes()


def _module(name: str) -> bytes:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the module {name} is not installed beside Vigil", name=name)
    return Path(spec.origin).read_bytes()
