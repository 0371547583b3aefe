"""A file of environment variables on the node: `NAME=VALUE` lines as people write them. Read, never run."""

import os
import re
import stat

MAX_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


class EnvFileError(Exception):
    """The file cannot be used; the text names the file and, where there is one, the line, and never a value."""


def read(path: str) -> dict[str, str]:
    """The variables of the file at `path`. EnvFileError where it cannot be read or a line is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise EnvFileError(f"env_file {path}: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise EnvFileError(f"env_file {path} is no regular file")
        if found.st_size > MAX_BYTES:
            raise EnvFileError(f"env_file {path} has {found.st_size} bytes; at most {MAX_BYTES} are read")
        data = file.read(MAX_BYTES)
    try:
        return parse(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise EnvFileError(f"env_file {path}: byte {error.start} is not UTF-8") from None
    except EnvFileError as error:
        raise EnvFileError(f"env_file {path}, {error}") from None


def parse(text: str) -> dict[str, str]:
    """`NAME=VALUE` a line. `export ` before it, blank lines and lines that begin with `#` are passed over; a value may
    stand in single quotes (as it is) or double ones (`\\n`, `\\"`, `\\\\`, `\\$`); ` #` after an unquoted one begins a
    comment. Nothing is expanded. EnvFileError names the line."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = re.sub(r"^export[ \t]+", "", stripped).partition("=")
        if not equals or not _NAME.fullmatch(name.rstrip()):
            raise EnvFileError(f"line {number}: is not NAME=VALUE")
        if "\0" in value:
            raise EnvFileError(f"line {number}: holds a NUL byte")
        found[name.rstrip()] = _value(value.lstrip(), number)
    return found


def _value(text: str, number: int) -> str:
    quote = text[:1]
    if quote not in ("'", '"') or not quote:
        return re.sub(r"(?:^|[ \t]+)#.*$", "", text).rstrip()
    value: list[str] = []
    characters = iter(enumerate(text[1:], 2))
    for position, character in characters:
        if character == quote:
            rest = text[position:].strip()
            if rest and not rest.startswith("#"):
                raise EnvFileError(f"line {number}: something follows the closing quote")
            return "".join(value)
        if character == "\\" and quote == '"':
            _, escaped = next(characters, (0, ""))
            value.append(_ESCAPED.get(escaped) or (escaped if escaped in ('"', "\\", "$", "`") else "\\" + escaped))
        else:
            value.append(character)
    raise EnvFileError(f"line {number}: its quote is never closed")
