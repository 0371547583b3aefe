# ruff: noqa: UP032, PTH103, PTH104, PTH108, PTH112, PTH117, PTH118, PTH123, PTH207
# It must compile on every Python 3, to say which one is needed: no f-string, no `X | Y` outside of quotes.
"""What `python3 -c` runs on the node before the probe is there; sent as text (Vigil imports its list of places only).

Arguments: nonce, the bundle's SHA-256, its size in bytes. It takes the bundle from the node's cache when the content
has that hash, else asks for it with `VIGILBOOT <nonce> send` and reads exactly that many bytes from stdin. It keeps
what it got in `$XDG_CACHE_HOME/vigil` (0700), else in memory-backed `/dev/shm`, else in memory alone. Where the node is
unfit it says `VIGILBOOT <nonce> unfit <JSON>`. Then it calls `supervisor.probe.serve.main(nonce, bundle_path)`, with an
empty path where nothing could be kept.
"""

import json
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

OLDEST = (3, 10)
NAMES = ["python3"] + ["python3.{}".format(minor) for minor in range(19, OLDEST[1] - 1, -1)]
PLACES = (
    ["~/.venv/bin", "~/venv/bin", "~/*/.venv/bin", "~/*/venv/bin"]
    + [
        "{}{}".format(base, part)
        for name in ("conda", "miniconda3", "miniforge3", "mambaforge", "anaconda3")
        for base in ("~/" + name, "/opt/" + name)
        for part in ("/bin", "/envs/*/bin")
    ]
    + ["~/.local/bin", "~/.local/share/uv/python/*/bin", "~/.pyenv/versions/*/bin"]
)
"""Where people keep a Python beside PATH: environments, conda, uv, pyenv."""


def main(nonce: str, digest: str, size: int) -> None:
    """Never returns where the node is unfit."""
    os.chdir("/")
    if sys.version_info < OLDEST:
        run_with_newer_python(nonce)
    path = cached(digest)
    if path is None:
        say(nonce, "send")
        content = received(size)
        if digest_of(content) != digest:
            unfit(nonce, "bundle", "the probe did not arrive whole: its hash is wrong")
        path = kept(content, digest)
    bundle_path = path or ""
    sys.path.insert(0, path or in_memory(content))
    sys.argv = ["vigil-probe"]
    from supervisor.probe import serve

    sys.exit(serve.main(nonce, bundle_path))


def say(nonce: str, words: str) -> None:
    """One line that the other side finds whatever the login printed before."""
    os.write(1, "\nVIGILBOOT {} {}\n".format(nonce, words).encode("ascii"))


def unfit(nonce: str, what: str, detail: str) -> "NoReturn":
    """Names what is missing, and ends."""
    say(nonce, "unfit " + json.dumps({"what": what, "detail": detail}))
    sys.exit(69)


def run_with_newer_python(nonce: str) -> "NoReturn":
    """Replaces this process by the first Python that is new enough, in PATH or in one of PLACES."""
    import glob

    with open("/proc/self/cmdline", "rb") as file:
        arguments = file.read().split(b"\0")[1:-1]
    found = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for place in PLACES:
        found += sorted(glob.glob(place.replace("~", glob.escape(home()), 1)))
    for folder in found:
        for name in NAMES:
            candidate = os.path.join(folder, name)
            if os.access(candidate, os.X_OK) and is_new_enough(candidate):
                os.execv(candidate, [candidate.encode()] + arguments)  # noqa: RUF005, S606
    unfit(
        nonce,
        "python",
        "{} is Python {}.{}.{}".format(sys.executable or "python3", *sys.version_info[:3]),
    )


def is_new_enough(candidate: str) -> bool:
    """Whether that interpreter says so itself."""
    import subprocess

    question = "import sys; sys.exit(0 if sys.version_info >= {} else 1)".format(OLDEST)
    try:
        return subprocess.call([candidate, "-I", "-c", question], stdin=subprocess.DEVNULL) == 0
    except OSError:
        return False


def cached(digest: str) -> "str | None":
    """The kept bundle's path when its content has that hash."""
    for folder in folders():
        path = bundle_path_in(folder, digest)
        try:
            if not is_ours_alone(folder):
                continue
            with open(path, "rb") as file:
                if digest_of(file.read()) == digest:
                    return path
        except OSError:
            continue
    return None


def kept(content: bytes, digest: str) -> "str | None":
    """Writes the bundle where later probes and wrappers find it; None where no folder takes it."""
    for folder in folders():
        path = bundle_path_in(folder, digest)
        draft = "{}.{}".format(path, os.getpid())
        try:
            if not os.path.isdir(folder):
                os.makedirs(folder, 0o700)
            if not is_ours_alone(folder):
                continue
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(draft, path)
            except OSError:
                os.unlink(draft)
                raise
        except OSError:
            continue
        return path
    return None


def in_memory(content: bytes) -> str:
    """A path that lives as long as this process, for a node on which nothing can be written."""
    descriptor = os.memfd_create("vigil-probe")
    written = 0
    while written < len(content):
        written += os.write(descriptor, content[written:])
    return "/proc/{}/fd/{}".format(os.getpid(), descriptor)


def folders() -> "list[str]":
    """Where the bundle may be kept, the best first; a person who mounted a home without room still gets a probe."""
    cache = os.environ.get("XDG_CACHE_HOME")
    if not cache or not os.path.isabs(cache):
        cache = os.path.join(home(), ".cache")
    return [os.path.join(cache, "vigil"), "/dev/shm/vigil-{}".format(os.getuid())]  # noqa: S108


def home() -> str:
    """HOME, else what the password database says."""
    import pwd

    named = os.environ.get("HOME")
    if named and os.path.isabs(named):
        return named
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def bundle_path_in(folder: str, digest: str) -> str:
    """Named by content: another version never overwrites it."""
    return os.path.join(folder, "probe-{}.pyz".format(digest))


def is_ours_alone(folder: str) -> bool:
    """Whether nobody else can change what lies there: its content is about to be run."""
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def received(size: int) -> bytes:
    """Exactly so many bytes, straight from the descriptor: a buffered reader would swallow the frames behind them."""
    parts = []
    left = size
    while left:
        part = os.read(0, min(left, 65536))
        if not part:
            sys.exit(74)
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def digest_of(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    import hashlib

    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
