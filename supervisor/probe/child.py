"""The attempt's own process: how the wrapper forks it into its terminal, and what came of the exec."""

import contextlib
import fcntl
import json
import os
import signal
import sys
import termios
from typing import Any

OOM_SCORE_RAISE = 300
"""Under memory pressure the kernel should take the trainer before the wrapper that records its end."""
FAILED_BEFORE = 124
FAILED_WORKDIR = 125
FAILED_EXEC = 126
NOT_FOUND = 127
"""Codes of a child that could not begin, as shells use them."""


def start(
    argv: list[str],
    environment: dict[str, str],
    workdir: str,
    terminal: tuple[int, int],
    cgroup: str | None,
    lacking: tuple[str, str] | None = None,
) -> tuple[int, int]:
    """Fork the child into `terminal` (master, slave). Answers its pid and a pipe that ends when the exec worked and
    otherwise holds why it did not (`failure`). With `lacking`, a record's `failure` (`secret`, `setup`) and its detail,
    it only says so and ends."""
    _, slave = terminal
    report, reported = os.pipe()
    pid = os.fork()
    if pid:
        os.close(reported)
        return pid, report
    try:
        os.close(report)
        _become(argv, environment, workdir, slave, cgroup, reported, lacking)
    except BaseException as error:
        _tell(reported, "command_not_found", f"{error}")
    finally:
        os._exit(FAILED_EXEC)


def failure(report: int) -> tuple[str, str] | None:
    """Why the child could not begin: the record's `failure` and its detail; None where the exec worked."""
    text = b""
    with contextlib.suppress(OSError):
        while part := os.read(report, 4096):
            text += part
    if not text:
        return None
    record: dict[str, Any] = json.loads(text)
    return record["failure"], record["detail"]


def _become(
    argv: list[str],
    environment: dict[str, str],
    workdir: str,
    slave: int,
    cgroup: str | None,
    reported: int,
    lacking: tuple[str, str] | None,
) -> None:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for descriptor in (0, 1, 2):
        os.dup2(slave, descriptor)
    _join(cgroup)
    _raise_oom_score()
    os.umask(0o022)
    try:
        os.chdir(workdir)
    except OSError as error:
        _tell(reported, "workdir", f"{workdir}: {error.strerror}")
        os._exit(FAILED_WORKDIR)
    if lacking is not None:
        _tell(reported, *lacking)
        os._exit(FAILED_BEFORE)
    _default_signals()
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606
    except FileNotFoundError:
        _tell(reported, "command_not_found", f"{argv[0]}: not found in PATH={environment.get('PATH', '')}")
        os._exit(NOT_FOUND)
    except OSError as error:
        _tell(reported, "command_not_found", f"{argv[0]}: {error.strerror}")
        os._exit(FAILED_EXEC)


def _join(cgroup: str | None) -> None:
    if cgroup:
        with contextlib.suppress(OSError), open(os.path.join(cgroup, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write("0")


def _raise_oom_score() -> None:
    with contextlib.suppress(OSError, ValueError), open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
        score = min(1000, int(file.read()) + OOM_SCORE_RAISE)
        file.seek(0)
        file.write(str(score))


def _default_signals() -> None:
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _tell(reported: int, kind: str, detail: str) -> None:
    with contextlib.suppress(OSError):
        os.write(reported, json.dumps({"failure": kind, "detail": detail[:1000]}).encode())
    with contextlib.suppress(OSError):
        print(f"vigil: {detail}", end="\r\n", file=sys.stderr, flush=True)
