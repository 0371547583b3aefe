"""A new view of a living attempt, for a tmux session that replaces one that was killed."""

import contextlib
import os
import select
import sys

from supervisor.probe import segments, terminal, views


def main(attempt_folder: str) -> int:
    """Show the attempt in this terminal and pass on what is typed, until it ends; the log's tail where it has ended."""
    try:
        wrapper = views.connect(attempt_folder)
    except OSError:
        terminal.make_raw(0)
        end = segments.end_of(attempt_folder)
        _write(segments.read(attempt_folder, end - views.REPLAY_BYTES, views.REPLAY_BYTES).data)
        _write(b"\r\n[vigil: this attempt has no terminal any more; this was its log's tail]\r\n")
        return 0
    terminal.make_raw(0)
    sources = [wrapper.fileno(), 0]
    while True:
        readable, _, _ = select.select(sources, [], [])
        if wrapper.fileno() in readable:
            data = wrapper.recv(65536)
            if not data:
                break
            _write(data)
        if 0 in readable:
            data = os.read(0, 4096)
            if not data:
                return 0
            wrapper.sendall(data)
    _write(b"\r\n[vigil: the attempt has ended]\r\n")
    return 0


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        with contextlib.suppress(InterruptedError):
            view = view[os.write(1, view) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
