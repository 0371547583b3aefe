"""The text of what differs from the commit: kept with the attempt, masked and cut, so that it can be read later.

The text is made with diffutils' `diff`, which knows no configuration: git's own diff would run what the repository's
configuration names.
"""

import contextlib
import os
import subprocess
import time
from typing import Any

from supervisor.probe.code import DELETED, Look, content_of
from supervisor.probe.git import Git
from supervisor.probe.redaction import redacted

FILE = "code.diff"
"""In the attempt's folder."""
MAX_TEXT_BYTES = 256 * 1024
TEXT_S = 10.0
MAX_SIDE_BYTES = 512 * 1024
"""Of a larger file only the hash is told."""
MAX_OTHERS = 500
MAX_OTHER_BYTES = 1024 * 1024
_TEXT_SUFFIXES = (".yaml", ".yml", ".toml", ".json", ".cfg", ".ini", ".txt", ".md", ".env", ".jinja", ".sql")


def text_of(look: Look, record: dict[str, Any]) -> bytes:
    """The difference that `record`, the result of `look`, speaks of; empty where there is none."""
    if look.root is None or not (record.get("files") or record.get("untracked") or look.others):
        return b""
    until = time.monotonic() + TEXT_S
    parts = [f"# against commit {record['head']}" + (f" of {record['branch']}" if record["branch"] else "") + "\n"]
    files = dict(sorted((record.get("files") or {}).items()))
    olds = _olds(Git(look.root, until), [look.old[name] for name in files if look.old.get(name)])
    size = shown = 0
    for name, content in files.items():
        if size > MAX_TEXT_BYTES or time.monotonic() > until:
            break
        parts.append(_file(look, name, content, olds, until))
        size += len(parts[-1])
        shown += 1
    if shown < len(files):
        parts.append(f"# {len(files) - shown} more changed files are not shown: {', '.join(list(files)[shown:])}\n")
    parts += _others(look, until)
    if record.get("cut"):
        parts.append("# there is more than is listed here\n")
    return _cut(redacted("".join(parts)).encode("utf-8", "backslashreplace"))


def _file(look: Look, name: str, content: str, olds: dict[str, bytes], until: float) -> str:
    assert look.root is not None
    old_name = look.old.get(name, "")
    if old_name and old_name not in olds:
        return f"# {name}: {old_name} -> {content}, no text: large, binary or in a submodule\n"
    path = os.path.join(look.root, name)
    with contextlib.suppress(OSError):
        if content != DELETED and os.stat(path).st_size > MAX_SIDE_BYTES:
            return f"# {name}: {old_name} -> {content}, no text: large\n"
    new = "/dev/null" if content == DELETED or os.path.islink(path) else path
    labels = [f"a/{name}" if old_name else "/dev/null", "/dev/null" if content == DELETED else f"b/{name}"]
    try:
        done = subprocess.run(
            ["diff", "-u", "--label", labels[0], "--label", labels[1], "--", "-", new],
            input=olds.get(old_name, b""),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            cwd="/",
            timeout=max(0.1, until - time.monotonic()),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"# {name}: {old_name} -> {content}, no text: `diff` is missing or took too long\n"
    return done.stdout[: MAX_TEXT_BYTES + 1].decode("utf-8", "backslashreplace")


def _olds(git: Git, names: list[str]) -> dict[str, bytes]:
    """The committed contents that are small enough to be shown."""
    if not names:
        return {}
    answer = git.ask("cat-file", "--batch-check", data="".join(f"{name}\n" for name in names).encode())
    small = []
    for line in (answer or b"").decode("ascii", "replace").splitlines():
        words = line.split()
        if len(words) == 3 and words[1] == "blob" and int(words[2]) <= MAX_SIDE_BYTES:
            small.append(words[0])
    found: dict[str, bytes] = {}
    text = git.ask("cat-file", "--batch", data="".join(f"{name}\n" for name in small).encode()) if small else b""
    while text:
        head, _, text = text.partition(b"\n")
        words = head.decode("ascii", "replace").split()
        if len(words) != 3:
            break
        found[words[0]] = text[: int(words[2])]
        text = text[int(words[2]) + 1 :]
    return found


def _others(look: Look, until: float) -> list[str]:
    """Names and hashes of the text files that git does not know."""
    lines: list[str] = []
    for name in look.others:
        suffix = os.path.splitext(name)[1]
        path = os.path.join(look.root or "/", name)
        if name not in look.untracked and suffix not in _TEXT_SUFFIXES:
            continue
        if len(lines) >= MAX_OTHERS or time.monotonic() > until:
            lines.append("# … and more that git does not know\n")
            break
        with contextlib.suppress(OSError):
            if os.lstat(path).st_size <= MAX_OTHER_BYTES:
                lines.append(f"# not known to git: {name} {look.untracked.get(name) or content_of(path)}\n")
    return lines


def _cut(text: bytes) -> bytes:
    if len(text) <= MAX_TEXT_BYTES:
        return text
    note = f"\n# cut: {len(text)} bytes, the first {MAX_TEXT_BYTES} are shown\n".encode()
    kept = text[: MAX_TEXT_BYTES - len(note)].decode("utf-8", "ignore").encode()
    return kept + note
