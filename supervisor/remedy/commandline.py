"""The command of a run: flags found and replaced by their place, arguments appended."""

import shlex
from dataclasses import dataclass

from supervisor.model.errors import Fault, InvalidInput
from supervisor.model.spec import Scalar
from supervisor.remedy.literal import read_number, write_env
from supervisor.remedy.shellwords import Word, words

Command = str | tuple[str, ...]
RESUME_PLACE = "{resume}"
"""A person may write it into the command to say where the resume arguments go."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of a command line and the value that it carries."""

    index: int
    """Which word it is."""
    joined: bool
    """Written as `--flag=value`."""
    value: str | None
    """None: the flag stands alone."""


def flag_value(command: Command, flag: str) -> Scalar:
    """What `flag` is given, a number where it writes one; InvalidInput unless exactly one word matches."""
    return _number_of(_only(command, flag))


def with_flag(command: Command, flag: str, value: Scalar) -> Command:
    """`command` with another value for `flag`; None takes the flag away. Every other byte stays."""
    found = _only(command, flag)
    if value is None:
        return _without(command, flag, found)
    if found.value is None:
        raise _fault(flag, "stands without a value", f"write {flag}=VALUE")
    text = write_env(value, found.value)
    index = found.index if found.joined else found.index + 1
    return _replaced(command, index, f"{flag}={text}" if found.joined else text)


def with_resume(command: Command, recipe: str, checkpoint: str | None) -> Command:
    """`command` with the arguments of `recipe` (`--resume {checkpoint}`), or without them when there is no checkpoint.

    They go where `{resume}` stands; else to the end of an argv, or of the one simple command that is meant.
    InvalidInput where that cannot be told.
    """
    arguments: list[str] = []
    if checkpoint is not None:
        arguments = [word.replace("{checkpoint}", checkpoint) for word in shlex.split(recipe)]
    if not isinstance(command, str):
        if RESUME_PLACE not in command:
            return (*command, *arguments)
        at = command.index(RESUME_PLACE)
        return (*command[:at], *arguments, *command[at + 1 :])
    text = shlex.join(arguments)
    if RESUME_PLACE in command:
        return command.replace(RESUME_PLACE, text, 1)
    if not arguments:
        return command
    end = _program_end(command)
    return f"{command[:end]} {text}{command[end:]}"


def _only(command: Command, flag: str) -> Flag:
    try:
        found = _flags(command, flag)
    except ValueError as error:
        raise _fault(flag, f"the command is no whole shell line: {error}", "close it, or write a list") from error
    if not found:
        raise _fault(flag, "is not on the command line", f"add `{flag} VALUE` to the command")
    if len(found) > 1:
        raise _fault(flag, f"stands {len(found)} times on the command line", "leave one of them")
    return found[0]


def _flags(command: Command, flag: str) -> list[Flag]:
    listed = words(command) if isinstance(command, str) else [Word(0, 0, text) for text in command]
    found: list[Flag] = []
    for index, word in enumerate(listed):
        if word.operator:
            continue
        if word.text == flag:
            following = listed[index + 1] if index + 1 < len(listed) else None
            if following is None or following.operator or _is_flag(following.text):
                found.append(Flag(index, joined=False, value=None))
            else:
                found.append(Flag(index, joined=False, value=_literal(flag, following, following.text)))
        elif word.text.startswith(f"{flag}="):
            found.append(Flag(index, joined=True, value=_literal(flag, word, word.text[len(flag) + 1 :])))
    return found


def _literal(flag: str, word: Word, text: str) -> str:
    if not word.literal:
        raise _fault(flag, f"is given {text!r}, which only the shell can expand", "write the value out")
    return text


def _is_flag(text: str) -> bool:
    return text.startswith("-") and isinstance(read_number(text), str)


def _number_of(flag: Flag) -> Scalar:
    return True if flag.value is None else read_number(flag.value)


def _replaced(command: Command, index: int, text: str) -> Command:
    if not isinstance(command, str):
        return (*command[:index], text, *command[index + 1 :])
    word = words(command)[index]
    return command[: word.begin] + shlex.quote(text) + command[word.end :]


def _without(command: Command, flag: str, found: Flag) -> Command:
    if found.value is not None and not found.joined:
        # Whether `--flag word` is one argument or two only the program knows.
        raise _fault(flag, f"may or may not own the word {found.value!r}", f"write {flag}={found.value}")
    if not isinstance(command, str):
        return (*command[: found.index], *command[found.index + 1 :])
    word = words(command)[found.index]
    return command[: word.begin].rstrip(" ") + command[word.end :] if word.begin else command[word.end :].lstrip()


def _program_end(line: str) -> int:
    """Where the arguments of the one program end that the line is about."""
    refusal = InvalidInput(
        "The command is several commands; it cannot be told which one the resume arguments are for.",
        remedy=f"Write {RESUME_PLACE} where they belong.",
        faults=[Fault(place="command", value=line[:80])],
    )
    try:
        listed = words(line)
    except ValueError as error:
        raise refusal from error
    commands: list[list[Word]] = [[]]
    joints: list[str] = []
    redirected = False
    for word in listed:
        if word.operator and not word.redirects:
            joints.append(word.text.strip())
            commands.append([])
        elif word.redirects or redirected:
            # A redirection and its target are no arguments; what is appended goes before them.
            redirected = word.redirects
        else:
            commands[-1].append(word)
    if not commands[-1]:
        commands.pop()
    if any(joint not in {"|", "&&", "|&", ""} for joint in joints) or not all(commands):
        raise refusal
    named = [each for each in commands if any("{config}" in word.text for word in each)]
    if len(named) == 1:
        return named[0][-1].end
    if len(named) > 1:
        raise refusal
    last = max((index for index, joint in enumerate(joints) if joint == "&&"), default=-1)
    return commands[last + 1][-1].end


def _fault(flag: str, detail: str, remedy: str) -> InvalidInput:
    return InvalidInput(
        f"{flag} {detail}.", remedy=remedy, faults=[Fault(place=f"args.{flag}", detail=detail, remedy=remedy)]
    )
