"""The clean base of an attempt's environment: what a fresh login of the user gives, and nothing of whoever launches.

`lxc-attach` and the tmux server pass a caller's variables on, secrets among them; so none is taken over.
"""

import ctypes
import ctypes.util
import functools
import os
import pwd

from supervisor.probe import folder

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEM_FILE = "/etc/environment"
LOCALE_FILES = ("/etc/default/locale", "/etc/locale.conf")
_PLAIN = ("C.UTF-8", "en_US.UTF-8")
_LC_ALL_MASK = 0x1FBF
_OWN = frozenset({"HOME", "USER", "LOGNAME", "SHELL", "TERM", "LC_ALL", "LC_MESSAGES", "LC_NUMERIC", "LANGUAGE"})
"""What the node's settings do not decide."""


def base() -> dict[str, str]:
    """HOME, USER, LOGNAME, SHELL, PATH, LANG, TERM of the user and the node's own /etc/environment.

    LANG is the node's where that is UTF-8 and installed there, so that no program stumbles over a letter. What programs
    say and how they write numbers stays that of C: diagnosis reads it. XDG_RUNTIME_DIR is left out: the folder goes
    away with the user's last login, and a run stays.
    """
    try:
        entry = pwd.getpwuid(os.getuid())
        user, shell = entry.pw_name, entry.pw_shell
    except KeyError:
        user, shell = str(os.getuid()), "/bin/sh"
    home = folder.home()
    system = {name: value for name, value in assignments(SYSTEM_FILE).items() if name not in _OWN}
    language = _language(system.pop("LANG", None))
    own_path = [part for part in system.pop("PATH", "").split(":") if part.startswith("/")]
    path = [*own_path, *(part for part in STANDARD_PATH.split(":") if part not in own_path)]
    return {
        **system,
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": shell or "/bin/sh",
        "PATH": ":".join([f"{home}/.local/bin", *path]),
        "LANG": language,
        "LC_MESSAGES": "C.UTF-8",
        "LC_NUMERIC": "C.UTF-8",
        "TERM": "screen-256color",
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def assignments(path: str) -> dict[str, str]:
    """`NAME=value` lines as a login reads them: comments and `export` allowed, one pair of quotes taken off, nothing
    expanded; empty where the file cannot be read."""
    found = {}
    for line in folder.content(path, 65536).decode("utf-8", "replace").splitlines():
        name, mark, value = line.strip().removeprefix("export ").partition("=")
        name = name.strip()
        if not mark or name.startswith("#") or not name.isidentifier() or not name.isascii() or "\0" in value:
            continue
        value = value.strip()
        if value[:1] in ("'", '"'):
            value = value[1:].partition(value[0])[0]
        found[name] = value
    return found


def _language(wanted: str | None) -> str:
    candidates = [wanted, *(assignments(path).get("LANG") for path in LOCALE_FILES), *_PLAIN]
    usable = (one for one in candidates if one and _is_utf8(one) and _is_installed(one))
    return next(usable, _PLAIN[0])


def _is_utf8(language: str) -> bool:
    return language.partition("@")[0].lower().replace("-", "").endswith(".utf8")


@functools.cache
def _is_installed(language: str) -> bool:
    """Whether the C library has it: Python and bash complain about, and fall back from, one that is not."""
    try:
        library = ctypes.CDLL(None)
        library.newlocale.restype = ctypes.c_void_p
        made = library.newlocale(_LC_ALL_MASK, language.encode(), None)
        if made:
            library.freelocale.argtypes = [ctypes.c_void_p]
            library.freelocale(made)
    except (OSError, AttributeError):
        return language in _PLAIN
    return bool(made)
