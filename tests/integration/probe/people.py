"""A person's own tmux, with a configuration of their own, and the programs that they run in it."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ODD = """
set -g base-index 1
set -g pane-base-index 1
set -g mouse on
set -g status off
set -g history-limit 60
set -g default-terminal tmux-256color
set -g renumber-windows on
"""
TRAINER = """
import os, sys, time
first, last, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
end = sys.argv[4] if len(sys.argv) > 4 else ""
for step in range(first, last):
    print(f"step {step}/{last} loss {3 - step / last:.4f}", flush=True)
    if pause:
        time.sleep(pause)
    while os.path.exists("wait") and step == last - 1:
        time.sleep(0.02)
if end == "oom":
    raise MemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
if end:
    sys.exit(int(end))
"""


class Person:
    """One tmux server on a socket of its own."""

    def __init__(self, folder: Path, *, configuration: str = "", rows: int = 20, columns: int = 100) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = folder / "t"
        self.script = folder / "train.py"
        self.script.write_text(TRAINER, "utf-8")
        (folder / "tmux.conf").write_text(configuration, "utf-8")
        shell = "bash --norc --noprofile"
        environment = {**os.environ, "PS1": "$ ", "HF_HOME": "/data/hf", "WANDB_API_KEY": "abcdef0123456789abcdef"}
        subprocess.run(
            [
                *("tmux", "-S", str(self.socket), "-f", str(folder / "tmux.conf"), "new-session", "-d"),
                *("-s", "mine", "-x", str(columns), "-y", str(rows), "-c", str(folder), shell),
            ],
            check=True,
            env=environment,
        )

    def tmux(self, *arguments: str) -> str:
        """What the person's own tmux says."""
        argv = ["tmux", "-S", str(self.socket), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    def types(self, line: str) -> None:
        """A line, with Enter."""
        self.tmux("send-keys", "-t", "mine", "-l", line)
        self.tmux("send-keys", "-t", "mine", "Enter")

    def trains(self, *arguments: Any) -> None:
        """Starts the program and waits until it prints."""
        words = " ".join(str(word) for word in arguments)
        self.types(f"{sys.executable} train.py {words}")
        self.until(lambda: "step" in self.shown().replace("train.py", ""), "it prints")

    def shown(self) -> str:
        """The scrollback with the screen."""
        return self.tmux("capture-pane", "-p", "-J", "-S", "-", "-t", "mine")

    def until(self, condition: Any, what: str) -> None:
        """Polls."""
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end, f"never: {what}\n{self.shown()}"
            time.sleep(0.02)

    def close(self) -> None:
        """Ends the server."""
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], capture_output=True, check=False)
