"""What looks like a secret is masked, in texts that Vigil shows but did not write: command lines, environments of
processes that it did not start, differences of code. Pure, and of the standard library, so that the node masks before
anything leaves it; every room above may import it.

It knows shapes, not values: what Vigil itself was given is masked by its value (`masking`). A name that says "secret"
hides its value whatever it is; better a harmless value hidden than one told.
"""

import re
from collections.abc import Mapping, Sequence

MASK = "***"

_TOKENS = re.compile(
    r"""(?<![A-Za-z0-9])(?:
      hf_[A-Za-z0-9]{16,} | api_org_[A-Za-z0-9]{16,}
    | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_[A-Za-z0-9_]{16,} | gl(?:pat|dt|rt|cbt|ptt)-[A-Za-z0-9_-]{16,}
    | sk-[A-Za-z0-9_-]{16,} | [sr]k_(?:live|test)_[A-Za-z0-9]{16,} | r8_[A-Za-z0-9]{16,} | gsk_[A-Za-z0-9]{16,}
    | xox[abeprs]-[A-Za-z0-9-]{10,} | xapp-[A-Za-z0-9-]{10,}
    | (?:AKIA|ASIA)[A-Z0-9]{16} | AIza[A-Za-z0-9_-]{30,} | ya29\.[A-Za-z0-9_-]{16,}
    | npm_[A-Za-z0-9]{16,} | pypi-[A-Za-z0-9_-]{16,} | dop_v1_[a-f0-9]{16,}
    | wandb_v1_[A-Za-z0-9_]{16,} | whsec_[A-Za-z0-9+/=]{16,} | vigil_[A-Za-z0-9_-]{16,}
    | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?
    )""",
    re.VERBOSE,
)
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY-----).*?(-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_WORDS = r"secret|secrets|password|passwd|passphrase|pwd|credential|credentials|authorization|cookie|dsn|pat"
_KEYS = r"(?:api|access|private|secret|auth|signing|encryption|account|service|deploy|license|shared|master)[_.-]?key"
_SPECIAL = r"pad|eos|bos|unk|sep|cls|mask|special|image|video|audio|extra|next|first|last|per|num|stop|start|end|prompt"
_NAME = re.compile(rf"(?:^|[_.-])(?:{_WORDS}|{_KEYS}|token|(?:api|access)[_.-]?tokens?)(?:$|[_.-])", re.IGNORECASE)
_TOKENIZING = re.compile(
    rf"(?:^|[_.-])(?:{_SPECIAL})[_.-]token|(?:^|[_.-])token[_.-](?:id|ids|type|count|budget|len)", re.IGNORECASE
)
_ENV_KEY = re.compile(r"^[A-Z0-9_]*_(?:KEY|PASS|AUTH)$")
_PLACES = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"})

_ASSIGNED = re.compile(
    r"""(?<![A-Za-z0-9_.-])(?P<name>-{0,2}[A-Za-z_][A-Za-z0-9_.-]{0,100})(?P<close>\\?["']?)
        (?P<mark>[ \t]{0,8}[=:](?![=/])[ \t]{0,8})
        (?P<value>"(?:[^"\\\n]|\\.){0,4096}"?|'(?:[^'\\\n]|\\.){0,4096}'?|[^\s"'&;,)}\]]{1,4096})""",
    re.VERBOSE,
)
_OPTION = re.compile(
    r"""(?P<name>(?<!\S)--?[A-Za-z][A-Za-z0-9_.-]{0,100})(?P<mark>[ \t]{1,8})(?P<value>[^\s-]\S{0,4096})"""
)
_SCHEME = re.compile(r"(?i)\b(?P<scheme>bearer|basic|digest|negotiate)[ \t]{1,8}(?P<value>[A-Za-z0-9._~+/=-]{8,})")
_HEADER = re.compile(
    r"(?i)(?P<name>\b(?:proxy-)?authorization|\bx-(?:api-key|auth-token)|\bset-cookie|\bcookie)"
    r"(?P<mark>[ \t]{0,8}[:=][ \t]{0,8})(?P<value>[^\r\n\"']{1,4096})"
)
_URL = re.compile(
    r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)(?P<user>[^\s/@:?#\"']{0,256})(?P<password>:[^\s/@?#\"']{0,512})?@"
)
_LONG_USER = 16
"""A user name before an `@` this long is a token in its place."""


def redacted(text: str) -> str:
    """`text` with `***` where a secret seems to stand: known shapes of tokens, private keys, `Authorization`, the
    user and password of a URL, and the value of `NAME=…`, `"name": …` and `--name …` whose name says what it holds.
    Linear in the text; masking twice changes nothing more."""
    text = _PRIVATE_KEY.sub(rf"\1{MASK}\2", text)
    text = _URL.sub(_without_password, text)
    text = _HEADER.sub(rf"\g<name>\g<mark>{MASK}", text)
    text = _SCHEME.sub(rf"\g<scheme> {MASK}", text)
    text = _ASSIGNED.sub(_without_value, text)
    text = _OPTION.sub(_without_value, text)
    return _TOKENS.sub(MASK, text)


def redacted_env(env: Mapping[str, str]) -> dict[str, str]:
    """An environment for showing: values of telling names hidden, all others through `redacted`."""
    return {name: MASK if value and is_secret_name(name) else redacted(value) for name, value in env.items()}


def redacted_argv(argv: Sequence[str]) -> list[str]:
    """A command line for showing: `--api-key X` and `--api-key=X` hide X, and each word goes through `redacted`."""
    shown: list[str] = []
    hide = False
    for word in argv:
        shown.append(MASK if hide and not word.startswith("-") else redacted(word))
        hide = word.startswith("-") and "=" not in word and is_secret_name(word)
    return shown


def is_secret_name(name: str) -> bool:
    """Whether a variable, key or option of this name holds a secret, as far as names tell."""
    if name in _PLACES:
        return False
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-"))
    if _TOKENIZING.search(plain):
        return False
    return bool(_NAME.search(plain) or _ENV_KEY.match(name))


def _without_value(found: re.Match[str]) -> str:
    if not is_secret_name(found["name"]):
        return found[0]
    value = found["value"]
    quote = value[0] if value[0] in "\"'" else ""
    end = quote if quote and len(value) > 1 and value.endswith(quote) else ""
    whole = found[0]
    return whole[: len(whole) - len(value)] + quote + MASK + end


def _without_password(found: re.Match[str]) -> str:
    user, password = found["user"], found["password"]
    if password is None:
        return f"{found['scheme']}{MASK}@" if len(user) >= _LONG_USER else found[0]
    return f"{found['scheme']}{user}:{MASK}@"
