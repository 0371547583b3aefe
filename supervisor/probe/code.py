"""Which code an attempt runs: the commit of its work folder, what differs from it, and the scripts that it names.

All is known by content: a file's hash is the object id that git would give it, so that a commit of what had been tried
is seen to be the same. Everything is bounded in time and number; what could not be seen says so in `why`.
"""

import contextlib
import hashlib
import os
import shlex
import shutil
import stat
import time
from typing import Any

from supervisor.probe.git import FILTERS, Git, NotSafe

LOOK_S = 5.0
"""All of it may take so long."""
MAX_FILES = 200
"""Names in each list."""
MAX_NAME_BYTES = 300
MAX_LOOKED_AT = 5000
"""Files whose content is read; more only where a copied repository's index is stale."""
MAX_FILE_BYTES = 8 * 1024 * 1024
"""Larger files count by their size: they are data."""
MAX_SUBMODULES = 20
CODE_SUFFIXES = (".py", ".pyi", ".pyx", ".sh", ".c", ".cc", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".rs")
"""Of the files that git does not know only these count: a run's own checkpoints and logs are no change of its code."""
DELETED = "deleted"
_MODULE = "160000"
_LFS = b"version https://git-lfs.github.com/spec/"
_NO_LFS_POINTER_BYTES = 1024


class Look:
    """One look at the code of a work folder. `record` is the shape of `supervisor.model.code.Code`."""

    def __init__(self, workdir: str, words: "str | list[str]" = "", since: str | None = None) -> None:
        """`words`: the command, whose scripts count; `since`: a commit to be compared with."""
        self.until = time.monotonic() + LOOK_S
        self.workdir = workdir
        self.root: str | None = None
        self.old: dict[str, str] = {}
        """Path below the root to the committed object, of the files that differ; empty for new ones."""
        self._why: list[str] = []
        self._cut = False
        self._since = since
        self._read = 0
        self._scripts = scripts_of(words, workdir)
        self.untracked: dict[str, str] = {}
        """Path below the root to content of the source files that git does not know."""
        self.others: list[str] = []
        """Path below the root of all files that git does not know and does not ignore."""

    def record(self) -> dict[str, Any]:
        """What there is to say."""
        seen: dict[str, Any] = {"scripts": self._scripts}
        git = Git(self.workdir, self.until)
        if not os.path.isdir(self.workdir):
            self._why.append(f"there is no folder {self.workdir}")
        elif shutil.which("git") is None:
            self._why.append("git is not installed on the node")
        else:
            try:
                seen |= self._repository(git)
            except NotSafe as error:
                self._why.append(str(error))
                self.root = None
        seen["cut"] = self._cut
        seen["why"] = "; ".join(self._why)[:500] or None
        return seen

    def _repository(self, git: Git) -> dict[str, Any]:
        answer, filters = git.ask_all([("rev-parse", "--show-toplevel", "HEAD", "HEAD^{tree}"), FILTERS])
        if answer is None:
            self._why.append(_no_repository(self.workdir, git))
            return {}
        root, head, tree = os.fsdecode(answer).splitlines()[-3:]
        self.root = root
        top = Git(root, self.until, filters)
        difference, others, branch, moved = top.ask_all(
            [
                ("diff-index", "--raw", "-z", "--no-renames", "--ignore-submodules=all", "HEAD", "--"),
                ("-C", self.workdir, "ls-files", "--others", "--exclude-standard", "--full-name", "-z"),
                ("symbolic-ref", "--short", "-q", "HEAD"),
                _between(self._since, head),
            ],
        )
        seen: dict[str, Any] = {"head": head, "tree": tree}
        seen["branch"] = branch.decode("utf-8", "replace").strip()[:MAX_NAME_BYTES] or None if branch else None
        files = self._changed(top, difference)
        files |= self._submodules(top)
        untracked = self._untracked(others)
        seen["dirty"] = _digest({**files, **untracked}) if files or untracked else None
        seen["files"], seen["untracked"] = self._bounded(files), self._bounded(untracked)
        if self._since and self._since != head and moved is not None:
            between = {name: [_object(old), _object(new)] for name, _, old, new in _raw(moved)}
            if len(between) <= MAX_FILES:
                seen |= {"since": self._since, "moved": {_shown(name): pair for name, pair in between.items()}}
        return seen

    def _changed(self, git: Git, difference: bytes | None, prefix: str = "") -> dict[str, str]:
        """Path to content of what git knows and what differs from the commit."""
        if difference is None:
            self._why.append("git did not say in time what differs from the commit")
            self._cut = True
            return {}
        found: dict[str, str] = {}
        suspects: dict[str, str] = {}
        for name, mode, old, new in _raw(difference):
            if mode == _MODULE:
                continue
            content = _object(new) or self._content(os.path.join(git.place, name), len(old))
            if content == old:
                continue
            found[prefix + name] = content or DELETED
            self.old[prefix + name] = _object(old) or ""
            if content and not _object(new) and _object(old):
                suspects[name] = old
        for name in self._only_converted(git, suspects):
            found.pop(prefix + name, None)
            self.old.pop(prefix + name, None)
        return found

    def _only_converted(self, git: Git, suspects: dict[str, str]) -> list[str]:
        """Large files that git keeps elsewhere (LFS): the same content differs from its committed pointer."""
        if not suspects:
            return []
        names = list(suspects)[:MAX_FILES]
        answer = git.ask("cat-file", "--batch-check", data="".join(f"{suspects[n]}\n" for n in names).encode())
        if answer is None:
            return []
        small = [
            name
            for name, line in zip(names, answer.split(b"\n"), strict=False)
            if line.endswith(tuple(b" %d" % size for size in range(100, 200)))
        ]
        return [name for name in small if _is_pointer_to(git, suspects[name], os.path.join(git.place, name))]

    def _submodules(self, git: Git) -> dict[str, str]:
        """Path to commit of submodules that stand elsewhere than recorded, and the changed files in them."""
        if self.root is None or not os.path.exists(os.path.join(self.root, ".gitmodules")):
            return {}
        recorded = git.ask("ls-tree", "-r", "-z", "HEAD")
        if recorded is None:
            self._why.append("the submodules could not be listed in time")
            self._cut = True
            return {}
        found: dict[str, str] = {}
        modules = [line for line in recorded.split(b"\0") if line.startswith(_MODULE.encode())]
        for line in modules[:MAX_SUBMODULES]:
            facts, _, name_bytes = line.partition(b"\t")
            name, commit = os.fsdecode(name_bytes), facts.split()[2].decode("ascii")
            place = os.path.join(self.root, name)
            if not os.path.exists(os.path.join(place, ".git")):
                continue  # not checked out: nothing can run from it
            inner = Git(place, self.until, Git(place, self.until).ask(*FILTERS))
            head, difference = inner.ask_all(
                [
                    ("rev-parse", "HEAD"),
                    ("diff-index", "--raw", "-z", "--no-renames", "--ignore-submodules=all", "HEAD", "--"),
                ]
            )
            if head is not None and head.decode().strip() != commit:
                found[name] = head.decode().strip()
            found |= self._changed(inner, difference, prefix=name + "/")
        return found

    def _untracked(self, others: bytes | None) -> dict[str, str]:
        if others is None or self.root is None:
            self._why.append("git did not list in time the files that it does not know")
            return {}
        self.others = sorted(os.fsdecode(name) for name in others.split(b"\0") if name)
        for name in self.others:
            if name.endswith(CODE_SUFFIXES) and len(self.untracked) <= MAX_FILES:
                content = self._content(os.path.join(self.root, name), 40)
                if content:
                    self.untracked[name] = content
        return self.untracked

    def _content(self, path: str, digits: int) -> str | None:
        """The object id that git would give the file; None where there is none to read."""
        self._read += 1
        if self._read > MAX_LOOKED_AT or time.monotonic() > self.until:
            self._cut = True
            return "not looked at"
        return content_of(path, digits)

    def _bounded(self, files: dict[str, str]) -> dict[str, str]:
        if len(files) > MAX_FILES:
            self._cut = True
        return {_shown(name): files[name] for name in sorted(files)[:MAX_FILES]}


def code_of(workdir: str, words: "str | list[str]" = "", since: str | None = None) -> dict[str, Any]:
    """The record of one look."""
    return Look(workdir, words, since).record()


def content_of(path: str, digits: int = 40) -> str | None:
    """The object id (`digits`: 40 for SHA-1, 64 for SHA-256) of the file, large ones by size; None: no file."""
    digest = hashlib.sha256() if digits == 64 else hashlib.sha1()  # noqa: S324 - it names content, as git does
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            data = os.fsencode(os.readlink(path))
        elif not stat.S_ISREG(status.st_mode):
            return None
        elif status.st_size > MAX_FILE_BYTES:
            return f"{status.st_size} bytes"
        else:
            with open(path, "rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return None
    digest.update(b"blob %d\0" % len(data) + data)
    return digest.hexdigest()


def scripts_of(words: "str | list[str]", workdir: str) -> dict[str, str]:
    """Source files that a command names (`train.py`, `-m package.module`): path below the work folder to content."""
    parts = words if isinstance(words, list) else _words(words)
    found: dict[str, str] = {}
    before = ""
    for word in parts:
        candidates = [word] if word.endswith(CODE_SUFFIXES) else []
        if before == "-m":
            module = word.replace(".", "/")
            candidates = [f"{module}.py", f"{module}/__main__.py"]
        before = word
        for candidate in candidates:
            path = os.path.normpath(os.path.join(workdir, candidate))
            below = os.path.relpath(path, workdir)
            content = None if below.startswith("..") else content_of(path)
            if content and len(found) < MAX_FILES:
                found[_shown(below)] = content
    return found


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def _between(since: str | None, head: str) -> tuple[str, ...]:
    if not since or since == head or not all(letter in "0123456789abcdef" for letter in since):
        return ("rev-parse", "--git-dir")
    return ("diff-tree", "-r", "--raw", "-z", "--no-renames", since, head, "--")


def _raw(answer: bytes) -> list[tuple[str, str, str, str]]:
    """Path, mode, old and new object of each entry of `--raw -z`."""
    parts = answer.split(b"\0")
    found = []
    for facts, name in zip(parts[::2], parts[1::2], strict=False):
        words = facts.decode("ascii", "replace").split()
        if len(words) == 5 and words[0].startswith(":"):
            mode = words[1] if words[1] != "000000" else words[0][1:]
            found.append((os.fsdecode(name), mode, words[2], words[3]))
    return found


def _object(name: str) -> str | None:
    """The object's id; None for the zeros that stand for a file that is not there, or that git has not read."""
    return name if name.strip("0") else None


def _digest(contents: dict[str, str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(os.fsencode(name) + b"\0" + contents[name].encode() + b"\0")
    return digest.hexdigest()[:16]


def _shown(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()[:MAX_NAME_BYTES]


def _no_repository(workdir: str, git: Git) -> str:
    if time.monotonic() >= git.until:
        return "git did not answer in time"
    place = workdir
    while True:
        if os.path.lexists(os.path.join(place, ".git")):
            return f"the repository {place} has no commit yet, or git cannot read it"
        if place == os.path.dirname(place):
            return "the work folder is in no git repository"
        place = os.path.dirname(place)


def _is_pointer_to(git: Git, pointer: str, path: str) -> bool:
    text = git.ask("cat-file", "blob", pointer)
    if text is None or not text.startswith(_LFS) or len(text) > _NO_LFS_POINTER_BYTES:
        return False
    digest = hashlib.sha256()
    with contextlib.suppress(OSError), open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
            if time.monotonic() > git.until:
                return False
    return b"oid sha256:" + digest.hexdigest().encode() in text
