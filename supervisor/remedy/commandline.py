"""The command of a run: flags found and replaced by their place, arguments appended."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from supervisor.model.errors import Fault, InvalidInput
from supervisor.model.spec import Scalar
from supervisor.remedy.literal import read_number, write_env
from supervisor.remedy.program import RESUME_PLACE, program
from supervisor.remedy.shellwords import Word, words

Command = str | tuple[str, ...]
_PATH_SIGNS = "./{"
"""A word that holds one of them, after a flag's value, is rather the program's script than a second value."""
_SHELL_ONLY = re.compile(r"(?:.*/)?(?:(?:ba|da|z|k|a)?sh|fish)")
_SHELL = re.compile(rf"{_SHELL_ONLY.pattern}|(?:.*/)?(?:su|runuser|script)")
_LINE_OPTION = re.compile(r"-[a-z]*c")
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of a command line and the value that it carries."""

    index: int
    """Which word it is."""
    joined: str | None
    """What stands before the value in the same word: `--flag=`, `-b`, `+a.b=`; None: the value is the next word."""
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
    if found.joined is None:
        return _replaced(command, found.index + 1, text)
    return _replaced(command, found.index, found.joined + text)


def flags(command: Command) -> list[str]:
    """The flags of the program, in order and as they are spelled: `--lr`, `-b`, and of `a.b=1` the `a.b`."""
    try:
        listed = _listed(command)
    except ValueError:
        return []
    found = [_spelled(listed[index].text) for index in _meant(listed, command) or ()]
    return [name for name in dict.fromkeys(found) if name]


def with_resume(command: Command, recipe: str, checkpoint: str | None) -> Command:
    """`command` with the arguments of `recipe` (`--resume {checkpoint}`), or without them when there is no checkpoint.

    They go where `{resume}` stands; else to the end of an argv, or of the one simple command that is meant.
    InvalidInput where that cannot be told, and where the program would not be given them.
    """
    arguments: list[str] = []
    if checkpoint is not None:
        arguments = [word.replace("{checkpoint}", checkpoint) for word in shlex.split(recipe)]
    if not isinstance(command, str):
        if RESUME_PLACE in command:
            at = command.index(RESUME_PLACE)
            return (*command[:at], *arguments, *command[at + 1 :])
        if any(RESUME_PLACE in word for word in command):
            return tuple(word.replace(RESUME_PLACE, shlex.join(arguments), 1) for word in command)
        if arguments:
            _must_be_passed_on(command)
        return (*command, *arguments)
    text = shlex.join(arguments)
    if RESUME_PLACE in command:
        _must_fit(command, arguments)
        return command.replace(RESUME_PLACE, text, 1)
    if not arguments:
        return command
    end = _program_end(command)
    return f"{command[:end]} {text}{command[end:]}"


def _only(command: Command, flag: str) -> Flag:
    try:
        listed = _listed(command)
    except ValueError as error:
        raise _fault(flag, f"the command is no whole shell line: {error}", "close it, or write a list") from error
    meant = _meant(listed, command)
    found = _found(listed, range(len(listed)) if meant is None else meant, flag)
    anywhere = _found(listed, range(len(listed)), flag)
    if len(anywhere) > 1:
        raise _fault(flag, f"stands {len(anywhere)} times on the command line", "leave one of them")
    if found and meant is None:
        why = "stands in a line of several commands, and it cannot be told which one trains"
        raise _fault(flag, why, f"write {RESUME_PLACE} after that command's own arguments")
    if found:
        return found[0]
    if anywhere:
        raise _fault(flag, "belongs to another command of the line, not to the program", "name the program's own flag")
    raise _absent(listed, flag)


def _listed(command: Command) -> list[Word]:
    return words(command) if isinstance(command, str) else [Word(0, 0, text) for text in command]


def _meant(listed: Sequence[Word], command: Command) -> Sequence[int] | None:
    return program(listed) if isinstance(command, str) else range(len(listed))


def _found(listed: Sequence[Word], indices: Sequence[int], flag: str) -> list[Flag]:
    found: list[Flag] = []
    for place, index in enumerate(indices):
        word = listed[index]
        if word.operator:
            continue
        if word.text == flag and flag.startswith("-"):
            following = [listed[each] for each in indices[place + 1 : place + 3]]
            found.append(Flag(index, None, _following(flag, following)))
        elif prefix := _prefix(word.text, flag):
            found.append(Flag(index, prefix, _literal(flag, word, word.text[len(prefix) :])))
    return found


def _prefix(text: str, flag: str) -> str | None:
    """What stands before the value where `text` holds both: `--flag=8`, `-b8`, and the overrides `a.b=8`, `+a.b=8`."""
    if not flag.startswith("-"):
        match = re.match(rf"\+{{0,2}}{re.escape(flag)}=", text)
        return match.group() if match else None
    if text.startswith(f"{flag}="):
        return f"{flag}="
    attached = len(flag) == 2 and text.startswith(flag) and not isinstance(read_number(text[2:]), str)
    return flag if attached else None


def _following(flag: str, following: Sequence[Word]) -> str | None:
    """The value in the word after the flag; None where that is no value."""
    if not following or following[0].operator or _is_flag(following[0].text):
        return None
    value = _literal(flag, following[0], following[0].text)
    second = following[1].text if len(following) > 1 and not following[1].operator else "-"
    if _may_be_one_more(value, second):
        raise _fault(flag, f"may be given several values ({value} {second} …)", f"write {flag}={value}")
    return value


def _may_be_one_more(value: str, second: str) -> bool:
    """The word after the value may belong to the flag, too; only the program knows."""
    if not isinstance(read_number(second), str):
        return not isinstance(read_number(value), str)
    is_word = isinstance(read_number(value), str)
    return is_word and not second.startswith("-") and not any(sign in second for sign in _PATH_SIGNS)


def _absent(listed: Sequence[Word], flag: str) -> InvalidInput:
    """Why the flag is not found, as far as the line tells."""
    texts = [word.text for word in listed if not word.operator]
    if any(flag in text.split() or f"{flag}=" in text for text in texts if " " in text):
        return _fault(flag, "stands inside a quoted line", "write that line itself as the command")
    known = [name for name in map(_spelled, texts) if name]
    alike = next((name for name in known if _folded(name) == _folded(flag)), None)
    if alike is not None:
        return _fault(flag, f"is spelled {alike} on the command line", f"name it args.{alike}")
    close = get_close_matches(flag, known, n=1, cutoff=0.7)
    remedy = f"did you mean {close[0]}? Else add" if close else "add"
    add = f"{flag} VALUE" if flag.startswith("-") else f"{flag}=VALUE"
    return _fault(flag, "is not on the command line", f"{remedy} `{add}` to the command")


def _spelled(text: str) -> str | None:
    """The flag that a word is, or holds; None where it is none."""
    match = re.match(r"(--?[A-Za-z][^=\s]*)|\+{0,2}([A-Za-z_][\w./@-]*)(?==)", text)
    return (match[1] or match[2]) if match else None


def _folded(flag: str) -> str:
    return flag.lstrip("-+").replace("-", "_").lower()


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
    if found.value is not None and found.joined is None:
        # Whether `--flag word` is one argument or two only the program knows.
        raise _fault(flag, f"may or may not own the word {found.value!r}", f"write {flag}={found.value}")
    if not isinstance(command, str):
        return (*command[: found.index], *command[found.index + 1 :])
    word = words(command)[found.index]
    return command[: word.begin].rstrip(" ") + command[word.end :] if word.begin else command[word.end :].lstrip()


def _program_end(line: str) -> int:
    """Where the arguments of the one program end that the line is about."""
    several = "is several commands; it cannot be told which one the resume arguments are for"
    try:
        listed = words(line)
    except ValueError as error:
        raise _no_place(line, several) from error
    meant = program(listed, surely=True)
    if not meant:
        raise _no_place(line, several)
    _must_be_passed_on([listed[index].text for index in meant])
    return listed[meant[-1]].end


def _must_be_passed_on(argv: Sequence[str]) -> None:
    """Behind `bash -c LINE` arguments are the shell's own: the program would begin anew, and nobody would say so."""
    for place, shell in enumerate(argv):
        option = _line_option(argv, place) if _SHELL.fullmatch(shell) else None
        if option is None or re.search(r"\$[@*{1-9]", argv[option + 1]):
            continue
        why = f"is a line of {shell} {argv[option]}, whose program is not given what follows the line"
        raise _no_place(argv[option + 1], why)


def _line_option(argv: Sequence[str], shell: int) -> int | None:
    """Where the option `-c` of that shell stands, with a line behind it; its script ends its options."""
    is_su = not _SHELL_ONLY.fullmatch(argv[shell])
    for place in range(shell + 1, len(argv) - 1):
        if _LINE_OPTION.fullmatch(argv[place]):
            return place
        is_value = argv[place - 1] in {"-o", "-O", "+o", "+O"}
        if not is_su and not is_value and not argv[place].startswith(("-", "+")):
            return None
    return None


def _must_fit(line: str, arguments: Sequence[str]) -> None:
    """Within quotes only words that need none can be written, and no two words of their own."""
    try:
        holding = [word for word in words(line) if RESUME_PLACE in word.text]
    except ValueError:
        return
    quoted = [word for word in holding if line[word.begin : word.end] != word.text]
    text = shlex.join(arguments)
    alone = any(word.text == RESUME_PLACE for word in quoted)
    if alone or (quoted and text != " ".join(arguments)):
        why = f"holds {RESUME_PLACE} in quotes, where {text or 'no word'} cannot be written"
        remedy = "Leave the quotes away." if alone else "Use folders without spaces and quotes in their names."
        raise _no_place(line, why, remedy)


def _no_place(line: str, why: str, remedy: str = f"Write {RESUME_PLACE} where they belong.") -> InvalidInput:
    shown = line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
    faults = [Fault(place="command", value=shown, detail=why, remedy=remedy)]
    return InvalidInput(f"The command {why}.", remedy=remedy, faults=faults)


def _fault(flag: str, detail: str, remedy: str) -> InvalidInput:
    return InvalidInput(
        f"{flag} {detail}.", remedy=remedy, faults=[Fault(place=f"args.{flag}", detail=detail, remedy=remedy)]
    )
