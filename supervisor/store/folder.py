"""The data folder: one daemon at a time, nobody else reads it."""

import fcntl
import os
from pathlib import Path

from supervisor.model.errors import Conflict, InvalidInput

DATABASE = "vigil.db"
LOCK = "vigil.lock"


class Folder:
    """A data folder that this process holds."""

    def __init__(self, path: Path, lock: int) -> None:
        """Use `Folder.take`."""
        self.path = path
        self._lock: int | None = lock

    @classmethod
    def take(cls, path: Path) -> "Folder":
        """Creates `path` where it is missing (mode 0700) and locks it.

        Conflict names the process that holds it; InvalidInput where it cannot be a data folder.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = path.stat().st_mode & 0o7777
        except OSError as error:
            raise InvalidInput(f"The data folder {path} cannot be used: {error.strerror}.") from error
        if mode & 0o002:
            raise InvalidInput(
                f"The data folder {path} may be written by everybody.",
                remedy=f"Choose a folder inside it: {path}/vigil.",
            )
        try:
            if mode & 0o077:
                path.chmod(mode & 0o700)
            lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InvalidInput(f"The data folder {path} cannot be used: {error.strerror}.") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise Conflict(
                f"The data folder {path} is in use by another daemon, process {holder}.",
                remedy="Stop that one, or choose another folder with --data.",
            ) from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        # Created here so that SQLite's files inherit the mode: the write-ahead log takes the database's own.
        os.close(os.open(path / DATABASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return cls(path, lock)

    @property
    def database(self) -> Path:
        """The database's file."""
        return self.path / DATABASE

    def release(self) -> None:
        """Lets another daemon have it. May be called twice."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
