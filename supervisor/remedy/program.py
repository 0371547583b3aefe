"""Which of a shell line's commands is the program that the line is about."""

import re
from collections.abc import Sequence

from supervisor.remedy.shellwords import Word

RESUME_PLACE = "{resume}"
"""A person may write it into the command to say where the resume arguments go, and so which program is meant."""
CONFIG_PLACE = "{config}"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "{", "}", "!"}
    | {"function", "select", "[[", "coproc"}
)
"""Behind these it depends on more than the line what runs, and how often."""
_PREAMBLE = frozenset(
    {"cd", "source", ".", "export", "set", "unset", "ulimit", "umask", "module", "ml", "eval", "echo", "printf"}
    | {"mkdir", "sleep", "true", ":", "test", "[", "shopt", "trap", "alias", "pwd", "date", "hostname", "ls", "cat"}
    | {"rm", "cp", "mv", "ln", "touch", "git", "pip", "df", "free", "which", "nvidia-smi", "nproc", "pushd", "popd"}
)
"""What people write before the program: it is never the one that is meant."""
_CONDA = frozenset({"conda", "mamba", "micromamba"})
_PIPES = frozenset({"|", "|&"})
_SEQUENCE = frozenset({"", ";", "&&", *_PIPES})


def program(listed: Sequence[Word], *, surely: bool = False) -> list[int] | None:
    """The indices of the program's words, redirections left out; None where it cannot be told which one is meant.

    It is the command in which `{resume}` stands, or the only one with `{config}`; else the only one that is no
    preamble (`cd x`, `source env.sh`, `export A=1`), or the last of those that are joined by `&&` alone, unless it must
    be known `surely`: of `train && evaluate` it is the wrong one. A pipe's first command stands for the pipe.
    """
    commands, joints = _commands(listed)
    marked = [each for each in commands if any(RESUME_PLACE in listed[index].text for index in each)]
    if marked:
        return marked[0] if len(marked) == 1 else None
    if not all(joint in _SEQUENCE for joint in joints) or not all(commands):
        return None
    if any(listed[each[0]].text in _KEYWORDS for each in commands):
        return None
    named = [each for each in commands if any(CONFIG_PLACE in listed[index].text for index in each)]
    if named:
        return named[0] if len(named) == 1 else None
    heads = [each for number, each in enumerate(commands) if number == 0 or joints[number - 1] not in _PIPES]
    meant = [each for each in heads if not _is_preamble([listed[index].text for index in each])]
    if len(meant) == 1:
        return meant[0]
    if len(heads) == 1:
        return heads[0]
    if surely:
        return None
    return meant[-1] if meant and all(joint in {"&&", *_PIPES} for joint in joints) else None


def _commands(listed: Sequence[Word]) -> tuple[list[list[int]], list[str]]:
    """Every simple command as the indices of its words, and what stands between each and the next."""
    commands: list[list[int]] = [[]]
    joints: list[str] = []
    redirected = False
    for index, word in enumerate(listed):
        if word.operator and not word.redirects:
            joint = word.text.strip()
            if joint in {"", ";"} and not commands[-1]:
                continue  # an empty line
            joints.append(joint)
            commands.append([])
        elif word.redirects or redirected:
            # A redirection and its target are no arguments.
            redirected = word.redirects
        else:
            commands[-1].append(index)
    if not commands[-1] and joints and joints[-1] in {"", ";"}:
        commands.pop()
        joints.pop()
    return commands, joints


def _is_preamble(texts: list[str]) -> bool:
    rest = [text for place, text in enumerate(texts) if not all(map(_ASSIGNMENT.match, texts[: place + 1]))]
    if not rest:
        return True
    return rest[0] in _PREAMBLE or (rest[0] in _CONDA and rest[1:2] in (["activate"], ["deactivate"]))
