"""A small real program that trains nothing: steps, checkpoints, resumes, and says what it does. Standard library only.

Beside its terminal it writes every byte to `log.copy.<launch>` in its folder, and one line per launch to `launches`:
so a test can count launches and compare logs with what the program itself knows.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    """Counts to `--steps`; the exit code is 0 only when it got there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--delay", type=float, default=0.1)
    parser.add_argument("--burst-bytes", type=int, default=0)
    parser.add_argument("--resume")
    options = parser.parse_args()
    folder = Path.cwd()
    with (folder / "launches").open("a") as file:
        file.write(f"{os.getpid()}\n")
    number = len((folder / "launches").read_text().splitlines())
    copy = (folder / f"log.copy.{number}").open("wb", buffering=0)

    def say(text: str) -> None:
        data = (text + "\n").encode()
        copy.write(data)
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    asked: list[int] = []
    for number_ in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number_, lambda received, _frame: asked.append(received))
    first = int(options.resume.rsplit("_", 1)[1]) if options.resume else 0
    say(f"counting from {first} to {options.steps}")
    for step in range(first + 1, options.steps + 1):
        time.sleep(options.delay)
        say(f"step {step}/{options.steps} loss {10 / step:.4f}")
        if asked or step % options.every == 0:
            save(folder / "out" / f"step_{step}", step)
            say(f"saved step {step}")
        if asked:
            say(f"interrupted at step {step}")
            return 128 + asked[0]
    if options.burst_bytes:
        line = "x" * 199
        for _ in range(options.burst_bytes // 200):
            say(line)
    say("training finished: the last line")
    return 0


def save(folder: Path, step: int) -> None:
    """A checkpoint whose last file is `done.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights").write_text(str(step))
    (folder / "done.json").write_text(json.dumps({"step": step}))


if __name__ == "__main__":
    sys.exit(main())
