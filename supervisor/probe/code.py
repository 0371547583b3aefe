"""Which code an attempt runs: the git commit of its work folder and a hash of what is not committed."""

import hashlib
import os
import subprocess

GIT_S = 5.0
MAX_DIFF_BYTES = 64 * 1024 * 1024


def code_of(workdir: str) -> dict[str, str | None]:
    """`head` and `dirty` (None: clean); both None where the folder is in no repository or git does not answer."""
    head = _git(workdir, "rev-parse", "HEAD")
    if not head:
        return {"head": None, "dirty": None}
    changed = _git(workdir, "status", "--porcelain", "--untracked-files=normal")
    if changed is None:
        return {"head": head.decode().strip(), "dirty": None}
    if not changed:
        return {"head": head.decode().strip(), "dirty": None}
    difference = _git(workdir, "diff", "HEAD", "--no-ext-diff", "--no-textconv") or b""
    digest = hashlib.sha256(changed + b"\0" + difference[:MAX_DIFF_BYTES]).hexdigest()[:16]
    return {"head": head.decode().strip(), "dirty": digest}


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
