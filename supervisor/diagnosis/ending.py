"""How the attempt ended: the status, a person's hand, and what proves that the kernel killed it for memory."""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.diagnosis.state import State
from supervisor.model.observation import ExitRecord, KeySeen

PERSON_SIGNALS = frozenset({"SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"})
KEY_WINDOW_S = 600.0
"""A key counts for the end when it was pressed at most so long before: a trainer may save first."""
KEY_WINDOW_BYTES = 256 * 1024
_INTERRUPT, _QUIT = 3, 28
_SHELL = {128 + number: name for number, name in ((s.value, s.name) for s in signal.Signals) if number in range(1, 32)}
_NEGATIVE = {256 - number: name for number, name in ((9, "SIGKILL"), (7, "SIGBUS"), (6, "SIGABRT"), (11, "SIGSEGV"))}
_CHILD_SIGNAL = re.compile(r"got signal: (?P<number>\d+)")
_KILLED_PROCESS = re.compile(
    r"[Kk]illed process (?P<pid>\d+) \((?P<name>[^)]*)\)|oom-kill:constraint=.*task=(?P<task>[^,]+)"
)
_OOMD = re.compile(r"systemd-oomd.*[Kk]illed|Killed .* due to memory (?:pressure|used)")


@dataclass(frozen=True, slots=True)
class Ending:
    """The status of an end, with what a shell or a launcher made of a signal undone."""

    code: int | None
    signal: str | None
    by_shell: bool = False
    """The signal is read from a code such as 128+n."""

    @property
    def words(self) -> str:
        """The status for people."""
        if self.signal and self.code is not None:
            return f"exit {self.code} ({self.signal})"
        return self.signal or (f"exit {self.code}" if self.code is not None else "no status")


def ending_of(record: ExitRecord) -> Ending:
    """The status of an exit record."""
    if record.signal:
        return Ending(None, record.signal)
    if record.code is None:
        return Ending(None, None)
    name = _SHELL.get(record.code) or _NEGATIVE.get(record.code)
    return Ending(record.code, name, by_shell=name is not None)


def announced(record: ExitRecord, stop_announced: bool) -> bool:
    """Vigil had said before the end that it would stop the attempt."""
    return stop_announced or bool(record.announced)


def person_key(record: ExitRecord, log_end: int) -> KeySeen | None:
    """The last Ctrl-C or Ctrl-backslash that its terminal turned into a signal shortly before the end."""
    for key in reversed(record.keys):
        if not key.as_signal or key.byte not in (_INTERRUPT, _QUIT):
            continue
        if record.at_unix_s is not None and record.at_unix_s - key.at_unix_s > KEY_WINDOW_S:
            return None
        if record.at_unix_s is None and log_end - key.offset > KEY_WINDOW_BYTES:
            return None
        return key
    return None


def launcher_signal(texts: Sequence[str]) -> str | None:
    """The signal that the launcher says it got (torchrun: `got signal: 2`), as a name."""
    for text in texts:
        match = _CHILD_SIGNAL.search(text)
        if match is not None:
            try:
                return signal.Signals(int(match["number"])).name
            except ValueError:
                return None
    return None


def killed_by_memory(
    record: ExitRecord | None, ending: Ending | None, state: State, kernel: Sequence[str], words: Sequence[str]
) -> str | None:
    """What proves a kill for memory, as a sentence; None where nothing does."""
    for line in kernel:
        match = _KILLED_PROCESS.search(line)
        if match is not None and _is_ours(match["name"] or match["task"] or "", words, state, match["pid"]):
            return line
        if _OOMD.search(line):
            return line
    if record is None or ending is None or not record.oom_kills:
        return None
    own = (record.oom_counter or "own").rpartition(" ")[2].strip("() ") != "shared"
    killed = ending.signal == "SIGKILL" or "sigkill" in state.counts or "killed-word" in state.counts
    if own or killed:
        counter = f" ({record.oom_counter})" if record.oom_counter else ""
        return f"the cgroup's oom_kill counter rose by {record.oom_kills}{counter}"
    return None


def _is_ours(name: str, words: Sequence[str], state: State, pid: str | None) -> bool:
    if pid and int(pid) in state.pids:
        return True
    base = name.rsplit("/", 1)[-1]
    if base.startswith(("python", "pt_main", "torchrun", "ray::", "pt_data", "dflash")):
        return True
    return any(base and base[:15] == word.rsplit("/", 1)[-1][:15] for word in words)
