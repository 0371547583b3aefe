"""A small real program that runs out of memory at a step, unless it is told to ask for less. Standard library only."""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

HEADROOM_BYTES = 200 * 2**20
HUNGRY_AT = 6


def main() -> None:
    """Counts to `--steps` in green, saves every second step, asks for `--mib` of memory at step 6."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--delay", type=float, default=0.2)
    parser.add_argument("--resume")
    options = parser.parse_args()
    first = int(options.resume.rsplit("_", 1)[1]) if options.resume else 0
    size_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size_bytes + HEADROOM_BYTES, size_bytes + HEADROOM_BYTES))
    for step in range(first + 1, options.steps + 1):
        time.sleep(options.delay)
        taken = bytearray(options.mib * 2**20) if step == HUNGRY_AT else b""
        say(f"\x1b[32mstep\x1b[0m {step}/{options.steps} loss {10 / step:.4f}")
        del taken
        if step % 2 == 0:
            folder = Path("out") / f"step_{step}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "done.json").write_text(json.dumps({"step": step}))
    say("training finished")


def say(text: str) -> None:
    """A line that is seen at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
