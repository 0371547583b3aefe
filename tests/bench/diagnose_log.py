"""How long `vigil diagnose` takes over a large log: `python -m tests.bench.diagnose_log [MEGABYTES]`.

The log is made of what trainers print, in equal parts of bytes: plain step lines, a redrawn bar, Megatron's long lines,
loader chatter, and an out-of-memory at the end. Prints seconds per 100 MB and the memory that the process took.
"""

import json
import resource
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from supervisor.diagnosis.offline import diagnose_log

MEGABYTE = 1_000_000
TARGET_S = 10.0
PEAK_MB = 150.0
PART_BYTES = 64 * 1024
END = (
    b"Traceback (most recent call last):\r\n"
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 139.80 "
    b"GiB of which 3.29 GiB is free. Including non-PyTorch memory, this process has 136.51 GiB memory in use. Of the "
    b"allocated memory 136.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\r\n"
)


def log(megabytes: int) -> Iterator[bytes]:
    """The log in pieces."""
    step = 0
    made = 0
    while made < megabytes * MEGABYTE:
        for part in (_steps, _bar, _megatron, _chatter):
            piece, step = part(step)
            made += len(piece)
            yield piece
    yield END


def _steps(step: int) -> tuple[bytes, int]:
    rows = [
        f"step {step + row:8d}/9000000 | loss {4 - row * 1e-4:.4f} | gnorm 0.43 | 1.0 s/step | 130 tok/s\r\n"
        for row in range(PART_BYTES // 90)
    ]
    return "".join(rows).encode(), step + len(rows)


def _bar(step: int) -> tuple[bytes, int]:
    rows = [
        f"\rtrain:  31%|{'█' * 20}{' ' * 20}| {step + row}/9000000 [6:35:51<14:29:03,  9.10s/it, loss=2.31]"
        for row in range(PART_BYTES // 150)
    ]
    return "".join([*rows, "\r\n"]).encode(), step + len(rows)


def _megatron(step: int) -> tuple[bytes, int]:
    rows = [
        f" [2026-01-20 05:00:04] iteration {step + row:8d}/ 9000000 | consumed samples: 4198 | elapsed time per "
        "iteration (ms): 5123.0 | learning rate: 1.5E-04 | global batch size:  1024 | lm loss: 2.611617E+00 | "
        "loss scale: 1.0 | grad norm: 0.310 | number of skipped iterations:   0 | number of nan iterations:   0 |\r\n"
        for row in range(PART_BYTES // 300)
    ]
    return "".join(rows).encode(), step + len(rows)


def _chatter(step: int) -> tuple[bytes, int]:
    rows = [
        f"[rank{row % 8}]: INFO 02-11 08:13 [loggers.py:111] Engine 000: Avg prompt throughput: 412{row % 10}.0, "
        "Running: 96 reqs, Waiting: 211 reqs, cache usage: 99.0%, prefix cache hit rate: 31.0%\r\n"
        for row in range(PART_BYTES // 200)
    ]
    return "".join(rows).encode(), step


class Stopwatch:
    """The time that making the log takes, which is not the diagnosis's."""

    seconds = 0.0

    def over(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The pieces, their making timed."""
        while True:
            started = time.process_time()
            piece = next(pieces, None)
            self.seconds += time.process_time() - started
            if piece is None:
                return
            yield piece


def measure(megabytes: int = 100) -> list[dict[str, object]]:
    """The rows of `bench.json`."""
    making = Stopwatch()
    started = time.process_time()
    verdict = diagnose_log(making.over(log(megabytes))).verdict
    seconds = (time.process_time() - started - making.seconds) * 100 / megabytes
    if verdict.cause != "gpu_oom":
        raise RuntimeError(f"answered {verdict.cause}")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    rows = (("100 MB of log diagnosed", seconds, "s", TARGET_S), ("peak memory meanwhile", peak_mb, "MB", PEAK_MB))
    return [
        {"name": name, "value": round(value, 2), "unit": unit, "target": target, "better": "lower", "at": at}
        for name, value, unit, target in rows
    ]


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 100), indent=1))  # noqa: T201
