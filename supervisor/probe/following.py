"""A file that somebody else writes, followed by offset: what is new in it, and gaps where it was cut or replaced."""

import os

READ_BYTES = 256 * 1024
FIRST_BYTES = 16 * 1024 * 1024
"""How much of what lies there already is read."""


class Following:
    """One path. The descriptor stays with the file until the path names another."""

    def __init__(self, path: str, begin: tuple[int, int] | None = None) -> None:
        """`begin`: inode and offset where an earlier reader stopped; None: from the file's beginning."""
        self.path = path
        self.inode = 0
        self.offset = 0
        self._descriptor: int | None = None
        self._begin = begin
        self._first = True

    def read(self) -> tuple[tuple[int, str] | None, bytes]:
        """A gap (bytes, why) where one comes first, then what is new; both empty where nothing is."""
        if self._descriptor is None:
            gap = self._open()
            if gap is not None or self._descriptor is None:
                return gap, b""
        size = os.fstat(self._descriptor).st_size
        if size < self.offset:
            lost, self.offset = 1, 0
            return (lost, f"{self.path} was cut; what was written before that and not read yet is not known"), b""
        data = os.pread(self._descriptor, READ_BYTES, self.offset)
        self.offset += len(data)
        if not data and self._is_replaced():
            self.close()
            return (1, f"{self.path} was replaced; whether another file was there meanwhile is not known"), b""
        return None, data

    def close(self) -> None:
        """Lets go of the file; the next read opens what the path then names."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> tuple[int, str] | None:
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        stat = os.fstat(self._descriptor)
        first, self._first = self._first, False
        self.inode, self.offset = stat.st_ino, 0
        if first and self._begin is not None:
            if self._begin[0] == stat.st_ino and self._begin[1] <= stat.st_size:
                self.offset = self._begin[1]
                return None
            return 1, f"{self.path} was replaced or cut while nobody read it"
        if first and stat.st_size > FIRST_BYTES:
            self.offset = stat.st_size - FIRST_BYTES
            return self.offset, f"{self.path} was longer than {FIRST_BYTES >> 20} MiB when it was adopted"
        return None

    def _is_replaced(self) -> bool:
        try:
            return os.stat(self.path).st_ino != self.inode
        except OSError:
            return False
