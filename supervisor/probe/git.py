"""Asking git about a repository that may be anybody's: nothing of the repository is ever executed, nothing written.

A repository's own configuration can name programs (hooks, fsmonitor, external diffs, text converters, filters, pagers,
ssh commands). Only plumbing that needs none of them is called, and what could still start one is switched off. Even
`diff-index` converts, by a filter, a file that was written in the same moment as the index: so filters are switched off
by name, and a repository with one that has no decent name is not read.
"""

import contextlib
import os
import selectors
import subprocess
import time

from supervisor.probe import folder

MAX_ANSWER_BYTES = 16 * 1024 * 1024
_OPTIONS = (
    "--no-pager",
    "--literal-pathspecs",
    *("-c", "safe.directory=*"),  # a repository of another user is only read
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.sshCommand=false"),
)
FILTERS = ("config", "--name-only", "-z", "--get-regexp", r"^filter\.")
"""What to ask a repository before anything that looks at working files; None where it names none."""
_SETTINGS = "[safe]\n\tdirectory = *\n"
"""The user's place: before git 2.37 the command line may not say that a repository of another user is to be read."""


class Git:
    """One folder's repository, asked until a moment; an answer that comes too late is None like one that failed."""

    def __init__(self, place: str, until: float, filters: bytes | None = None) -> None:
        """`until` is a monotonic time; `filters`: the repository's answer to `FILTERS`."""
        self.place = place
        self.until = until
        self._options = [*_OPTIONS, *_without(filters or b"")]

    def ask(self, *arguments: str, data: bytes | None = None) -> bytes | None:
        """What git answers; None where it fails, takes too long or says too much."""
        return self.ask_all([arguments], data=data)[0]

    def ask_all(self, questions: "list[tuple[str, ...]]", data: bytes | None = None) -> "list[bytes | None]":
        """Several questions at the same time; `data` goes to the first one's input."""
        started: list[subprocess.Popen[bytes] | None] = []
        for number, arguments in enumerate(questions):
            source = _input(data) if number == 0 and data is not None else subprocess.DEVNULL
            try:
                process = subprocess.Popen(
                    ["git", *self._options, "-C", self.place, *arguments],
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=_environment(),
                    cwd="/",
                    start_new_session=True,
                )
            except OSError:
                process = None
            finally:
                if source >= 0:
                    os.close(source)
            started.append(process)
        return [None if process is None else _answer(process, self.until) for process in started]


class NotSafe(Exception):  # noqa: N818 - says what it is
    """The repository names a program that cannot be switched off."""


def _without(filters: bytes) -> list[str]:
    """Options that switch these filters off."""
    names = {os.fsdecode(key)[len("filter.") :].rpartition(".")[0] for key in filters.split(b"\0") if key}
    if any("=" in name or not name.isprintable() for name in names):
        raise NotSafe("the repository's configuration names a filter that cannot be switched off")
    return [
        word
        for name in sorted(names)
        for setting in ("clean=", "smudge=", "process=", "required=false")
        for word in ("-c", f"filter.{name}.{setting}")
    ]


def _environment() -> dict[str, str]:
    """Nothing of ours: a GIT_DIR of whoever logged in would name another repository."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": folder.home(),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": _settings_file(),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _settings_file() -> str:
    path = os.path.join(folder.state_home(), "gitconfig")
    if folder.content(path, 4096) != _SETTINGS.encode():
        with contextlib.suppress(OSError):
            folder.make_private(folder.state_home())
            folder.replace_file(path, _SETTINGS.encode())
    return path


def _input(data: bytes) -> int:
    """A descriptor to read `data` from: a pipe that nobody empties would stop us."""
    descriptor = os.memfd_create("vigil-git", os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _answer(process: "subprocess.Popen[bytes]", until: float) -> bytes | None:
    assert process.stdout is not None
    parts: list[bytes] = []
    size = 0
    whole = False
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while size <= MAX_ANSWER_BYTES and selector.select(max(0.0, until - time.monotonic())):
            part = os.read(process.stdout.fileno(), 1 << 20)
            if not part:
                whole = True
                break
            parts.append(part)
            size += len(part)
    if not whole:
        process.kill()
    process.stdout.close()
    try:
        status = process.wait(1.0)
    except subprocess.TimeoutExpired:
        return None  # in D state on a dead file system: left alone
    return b"".join(parts) if whole and status == 0 else None
