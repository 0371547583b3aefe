"""Which code an attempt runs: the git commit of its work folder and a hash of what is not committed."""

import hashlib
import os
import subprocess

GIT_S = 5.0
MAX_DIFF_BYTES = 64 * 1024 * 1024
MAX_NEW_FILES = 500
MAX_NEW_FILE_BYTES = 1024 * 1024
"""Files that git does not know count by content up to this size, larger ones by their size: they are data."""
CODE_SUFFIXES = (b".py", b".pyi", b".pyx", b".sh", b".c", b".cc", b".cpp", b".h", b".hpp", b".cu", b".cuh", b".rs")
"""Of the files that git does not know only these count: a run's own checkpoints and logs are no change of its code."""


def code_of(workdir: str) -> dict[str, str | None]:
    """`head` and `dirty` (None: clean); both None where the folder is in no repository or git does not answer."""
    head = _git(workdir, "rev-parse", "HEAD")
    if not head:
        return {"head": None, "dirty": None}
    difference = _git(workdir, "diff", "HEAD", "--no-ext-diff", "--no-textconv") or b""
    new = (_git(workdir, "ls-files", "--others", "--exclude-standard", "-z") or b"").split(b"\0")
    names = sorted(name for name in new if name.endswith(CODE_SUFFIXES))
    if not difference and not names:
        return {"head": head.decode().strip(), "dirty": None}
    digest = hashlib.sha256(difference[:MAX_DIFF_BYTES])
    for name in names[:MAX_NEW_FILES]:
        digest.update(b"\0" + name + b"\0" + _content(os.path.join(os.fsencode(workdir), name)))
    return {"head": head.decode().strip(), "dirty": digest.hexdigest()[:16]}


def _content(path: bytes) -> bytes:
    try:
        size = os.lstat(path).st_size
        if size > MAX_NEW_FILE_BYTES or not os.path.isfile(path):
            return b"%d" % size
        with open(path, "rb") as file:
            return file.read(MAX_NEW_FILE_BYTES)
    except OSError:
        return b""


def _git(workdir: str, *arguments: str) -> bytes | None:
    # Reading must change nothing (no index refresh), and a repository of another user is only read.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", workdir, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
