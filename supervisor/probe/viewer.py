"""A new view of a living attempt, for a tmux session that replaces one that was killed."""

import contextlib
import os
import select
import sys

from supervisor.probe import terminal, views


def main(attempt_folder: str) -> int:
    """Show the attempt in this terminal and pass on what is typed, until it ends; 1 where nobody serves it."""
    try:
        wrapper = views.connect(attempt_folder)
    except OSError as error:
        print(f"vigil: this attempt has no terminal any more ({error.strerror}); its log is complete")
        return 1
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
