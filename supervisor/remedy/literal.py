"""Numbers as people write them: what a text means, and how its successor is written in the same manner."""

import math
import re
from decimal import Decimal

from supervisor.model.spec import Scalar

_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)")
MAX_DIGITS = 300
"""A longer whole number is no setting: no float could hold it."""
_BROKEN = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?")


def read_number(text: str) -> int | float | str:
    """The number that `text` writes; else `text` itself. Infinities and NaN stay text: nothing can be turned there."""
    if _WHOLE.fullmatch(text):
        return int(text) if len(text) <= MAX_DIGITS else text
    if _BROKEN.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


def write_float(value: float, like: str) -> str:
    """`value` in the manner of `like`: `1e-4` is followed by `5e-5`, `0.0001` by `0.00005`.

    Not a matter of taste: a YAML 1.1 reader takes `5e-05` for a text and `0.00005` for a number.
    """
    if "e" not in like.lower():
        text = _decimal(value)
        return text if "." in text else f"{text}.0"
    like_mantissa, like_exponent = like.lower().split("e")
    mantissa, exponent = _scientific(value)
    if "." in like_mantissa and "." not in mantissa:
        mantissa += ".0"
    sign = "-" if exponent < 0 else "+" if like_exponent.startswith("+") else ""
    width = len(like_exponent.lstrip("+-"))
    return f"{mantissa}e{sign}{abs(exponent):0{width}d}"


def write_env(value: Scalar, like: str = "") -> str:
    """`value` as the environment and command lines carry it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return write_float(value, like) if isinstance(read_number(like), float) else repr(value)
    return "" if value is None else str(value)


def _scientific(value: float) -> tuple[str, int]:
    """Mantissa and exponent with as few digits as read back to the same number."""
    texts = (f"{value:.{places}e}" for places in range(17))
    mantissa, exponent = next(text for text in texts if float(text) == value).split("e")
    return mantissa, int(exponent)


def _decimal(value: float) -> str:
    return format(Decimal(repr(value)), "f")
