"""Copies of a case that mean the same and look otherwise: what other machines, launchers and terminals would show."""

import json
import random
import re
import unicodedata
from collections.abc import Callable
from typing import Any

Case = dict[str, Any]
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_CURSOR = re.compile(r"\x1b\[[0-9;]*[ABEFHdJK]")
_PROGRESS = re.compile(r"%\||\b(?:step|iter\w*|epoch|ep|batch|loss)\b", re.IGNORECASE)
_HEAD_LINES = 30
"""Of a traceback or a message that may stand above the line that tells."""


def perturbed(case: Case, kind: str, evidence_line: int | None, variant: int = 0) -> Case | None:
    """The copy of that kind and variant, the same each time; None where it would mean something else.
    `evidence_line`: the first line of the log that the answer to the original names."""
    copy: Case = json.loads(json.dumps(case))
    chance = random.Random(f"{case['id']} {kind} {variant}")
    if (
        kind in ("head cut", "tail cut")
        and copy["seen"].get("exit") is None
        and "healthy" not in case["right"]["causes"]
    ):
        return None
    return copy if KINDS[kind](copy["seen"], chance, evidence_line) else None


def _other_width(seen: Case, chance: random.Random, _: int | None) -> bool:
    """Rows of a screen of another width; a pipe's lines as a screen would show them."""
    log = seen["log"]
    if _CURSOR.search(log):
        return False
    if seen.get("origin") == "screen" and seen.get("columns"):
        lines = _unwrapped(log, int(seen["columns"]))
    else:
        lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in log.split("\n")]
    width = chance.choice([72, 80, 100, 132, 173, 200, 237])
    seen["log"] = "\n".join(row for line in lines for row in _wrapped(_ESCAPE.sub("", line), width))
    seen["origin"], seen["columns"] = "screen", width
    return True


def _rank_prefix(seen: Case, chance: random.Random, _: int | None) -> bool:
    prefix = chance.choice(WRITERS)
    return _prefix(seen, lambda: prefix)


def _time_prefix(seen: Case, chance: random.Random, _: int | None) -> bool:
    shape = chance.choice(CLOCKS)
    second = [0]

    def made() -> str:
        second[0] += 1
        told = (second[0] // 60 % 60, second[0] % 60, second[0] * 37 % 1000)
        return shape % told[: shape.count("%")]

    return _prefix(seen, made)


def _colours(seen: Case, chance: random.Random, _: int | None) -> bool:
    if seen.get("origin") == "screen":
        return False
    style = chance.choice(["line", "words", "numbers", "truecolour"])

    def painted(line: str) -> str:
        body = line.rstrip("\r\n")
        end = line[len(body) :]
        if not body or "\x1b" in body:
            return line
        if style == "line":
            return f"\x1b[1;31m{body}\x1b[0m{end}"
        if style == "truecolour":
            return f"\x1b[38;2;255;85;85m\x1b[1m{body}\x1b[0m\x1b[K{end}"
        pattern = r"[A-Z]\w*(?:Error|Exception)|error|rank\d" if style == "words" else r"\d+(?:\.\d+)?"
        return re.sub(pattern, lambda found: f"\x1b[35m{found[0]}\x1b[39m", body) + end

    seen["log"] = "".join(painted(line) for line in seen["log"].splitlines(keepends=True))
    return True


def _head_cut(seen: Case, chance: random.Random, evidence: int | None) -> bool:
    """The history's beginning is gone; some of the progress before the end is kept."""
    lines = seen["log"].split("\n")
    if evidence is not None:
        keep_from = max(0, evidence - 1 - _HEAD_LINES)
    elif seen.get("exit") is None:
        keep_from = len(lines) // 3
    else:
        return False
    if keep_from < 2:
        return False
    cut = chance.randrange(1, keep_from + 1)
    head = lines[cut][chance.randrange(1, 20) :] if seen.get("origin") != "screen" else lines[cut]
    seen["log"] = "\n".join([head, *lines[cut + 1 :]])
    return True


def _tail_cut(seen: Case, chance: random.Random, _: int | None) -> bool:
    """A run that goes on is looked at some lines earlier, perhaps in the middle of one."""
    lines = seen["log"].rstrip("\r\n").split("\n")
    if seen.get("exit") is not None or len(lines) < 24 or (seen.get("silent_s") or 0) > 60:
        return False
    if not _PROGRESS.search(lines[-1]) or not _PROGRESS.search(lines[-2]):
        return False
    lines = lines[: -chance.randrange(1, 3)]
    if seen.get("origin") != "screen":
        lines[-1] = lines[-1].rstrip("\r")[: -chance.randrange(1, 6)]
    seen["log"] = "\n".join(lines)
    return True


def _numbers(seen: Case, chance: random.Random, _: int | None) -> bool:
    """Process ids, lines of source, addresses, ports and clocks are others."""
    by = chance.randrange(3, 900)
    log = seen["log"]
    if seen.get("origin") == "screen":
        return False
    log = re.sub(r"(\bline )(\d+)", lambda m: f"{m[1]}{int(m[2]) + by}", log)
    log = re.sub(r"(\.(?:py|cpp|cc|cu|h|hpp):)(\d+)", lambda m: f"{m[1]}{int(m[2]) + by}", log)
    log = re.sub(r"\b([0-2]\d):([0-5]\d):([0-5]\d)\b", lambda m: f"{(int(m[1]) + by) % 24:02}:{m[2]}:{m[3]}", log)
    log = re.sub(r"\b0x[0-9a-f]{6,16}\b", lambda m: f"0x{int(m[0], 16) ^ by:x}", log)
    log = re.sub(r"\b(2950\d|2940\d)\b", lambda m: str(int(m[0]) + by), log)
    seen["log"] = log
    return True


def _newlines(seen: Case, chance: random.Random, _: int | None) -> bool:
    log = seen["log"].replace("\r\n", "\n")
    seen["log"] = log if "\r\n" in seen["log"] else log.replace("\n", "\r\n")
    return True


def _paths(seen: Case, chance: random.Random, _: int | None) -> bool:
    if seen.get("origin") == "screen":
        return False
    user = chance.choice(["anna", "jkoch", "ubuntu", "s4711"])
    log = before = seen["log"]
    for old, new in (
        ("/opt/venv/lib/python3", f"/home/{user}/miniconda3/envs/nan-fix/lib/python3"),
        ("/opt/", f"/home/{user}/src/oom-test/"),
        ("/root/", f"/home/{user}/"),
        ("/workspace/", f"/mnt/nfs/{user}/killed-experiments/"),
        ("python3.11", "python3.12"),
        ("python3.10", "python3.12"),
    ):
        log = log.replace(old, new)
    seen["log"] = log
    return log != before


def _bar_between(seen: Case, chance: random.Random, evidence: int | None) -> bool:
    """A bar that stands still is redrawn in front of what is printed, and what is printed is glued to it."""
    status = seen.get("exit")
    if seen.get("origin") == "screen" or status is None or evidence is None or "%|" in seen["log"]:
        return False
    if status.get("code") == 0 or not _PROGRESS.search(seen["log"]):
        return False
    bar = "\r 31%|███       | 331/1063 [08:11<18:07,  1.49s/it]"
    lines = seen["log"].split("\n")
    first = max(0, evidence - 1 - chance.randrange(0, 3))
    lines[0] = f"{bar}\r\n{lines[0]}"
    for index in range(max(first, 1), min(first + 4, len(lines))):
        if lines[index].strip() and lines[index][0] not in " \t-":
            lines[index] = bar + lines[index]
    seen["log"] = "\n".join(lines)
    return True


def _chatter(seen: Case, chance: random.Random, _: int | None) -> bool:
    """Harmless lines full of telling words stand before everything."""
    if seen.get("origin") == "screen":
        return False
    seen["log"] = CHATTER.replace("\n", "\r\n") + seen["log"]
    return True


def _two_at_once(seen: Case, chance: random.Random, evidence: int | None) -> bool:
    names = [name for name in KINDS if name not in ("two at once", "other width", "head cut", "tail cut")]
    first, second = chance.sample(names, 2)
    return KINDS[first](seen, chance, evidence) and KINDS[second](seen, chance, evidence)


KINDS: dict[str, Callable[[Case, random.Random, int | None], bool]] = {
    "other width": _other_width,
    "rank prefix": _rank_prefix,
    "time prefix": _time_prefix,
    "colours": _colours,
    "head cut": _head_cut,
    "tail cut": _tail_cut,
    "numbers": _numbers,
    "newlines": _newlines,
    "paths": _paths,
    "bar between": _bar_between,
    "chatter": _chatter,
    "two at once": _two_at_once,
}
WRITERS = (
    "[rank3]: ",
    "[default0]:",
    "[trainer0]: ",
    "[1,3]<stdout>:",
    "(TrainWorker pid=3412, ip=10.1.3.7) ",
    "\x1b[36m(RayTrainWorker pid=991)\x1b[0m ",
    "(pid=4410) ",
    "192.168.1.51: ",
    "node-12: ",
    "worker-1: ",
    "gpu07: ",
    "trainer-0  | ",
    "0: ",
    "13: ",
)
"""What launchers put before each line."""
CLOCKS = (
    "2026-11-30 01:%02d:%02d,%03d - INFO - __main__ - ",
    "[2026-11-30 01:%02d:%02d.%03d] ",
    "11/30 01:%02d:%02d ",
    "2026-11-30T01:%02d:%02d.%03d123Z ",
    "2026-11-30T01:%02d:%02d.%03d123Z stdout F ",
    "Nov 30 01:%02d:%02d gpubox python[4411]: ",
    "01:%02d:%02d ",
    "[INFO|trainer.py:2128] 2026-11-30 01:%02d:%02d,%03d >> ",
    "2026-11-30 01:%02d:%02d INFO     ",
    "I1130 01:%02d:%02d.%03d000 4411 train.py:88] ",
)
"""What loggers, containers and journals put before each line."""
CHATTER = """\
Namespace(on_nan='stop', oom_retries=3, note='fix CUDA out of memory', resume_on_oom=True, timeout=1800)
*****************************************
Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded
*****************************************
UserWarning: This DataLoader will create 16 worker processes in total. Our suggested max number of worker in current \
system is 8, which might get DataLoader running slow or even freeze.
huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling \
parallelism to avoid deadlocks...
git_commit: 1f3a9c0 (branch fix-segfault-in-killed-worker)
[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29400 (errno: 98 - Address already in use).
node-1:4100:4201 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.
"""


def _prefix(seen: Case, made: Callable[[], str]) -> bool:
    if seen.get("origin") == "screen" or _CURSOR.search(seen["log"]):
        return False
    whole = re.split(r"(?<=\n)", seen["log"])
    seen["log"] = "".join(made() + line if line.strip() else line for line in whole)
    return True


def _unwrapped(log: str, columns: int) -> list[str]:
    lines: list[str] = []
    row_before_full = False
    for row in log.replace("\r", "").split("\n"):
        if row_before_full:
            lines[-1] += row
        else:
            lines.append(row)
        row_before_full = _cells(row) >= columns
    return lines


def _wrapped(line: str, width: int) -> list[str]:
    rows, row, cells = [], "", 0
    for char in line.expandtabs():
        wide = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if cells + wide > width:
            rows.append(row + " " * (width - cells))
            row, cells = "", 0
        row, cells = row + char, cells + wide
    return [*rows, row]


def _cells(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else not unicodedata.combining(char) for char in text)
