"""Pairs of whole numbers whose product stays equal, as `keep` asks for."""

from collections.abc import Iterable
from math import isqrt

MAX_PRODUCT = 10**12
"""Above it the search would take longer than a decision may (a square root of steps)."""


def keys_of(keep: str) -> list[str]:
    """The knob keys of the product `keep`."""
    return [key.strip() for key in keep.split("*")]


def solve(
    product: int,
    *,
    wanted: int,
    above: int,
    lowest: int = 1,
    partner_lowest: int = 1,
    partner_highest: int | None = None,
) -> tuple[int, int] | None:
    """The largest value not above `wanted`, with its partner, so that both multiply to `product`.

    The value lies above `above` (exclusive) and is at least `lowest`; the partner lies within its bounds. Of 7 x 3
    there are 3 x 7 and 1 x 21, never 3 x 6. None where there is no such pair.
    """
    floor = max(above + 1, lowest, 1)
    if product < 1 or product > MAX_PRODUCT or wanted < floor:
        return None
    fitting = (
        value
        for value in _divisors(product)
        if floor <= value <= wanted
        and product // value >= partner_lowest
        and (partner_highest is None or product // value <= partner_highest)
    )
    value = max(fitting, default=None)
    return None if value is None else (value, product // value)


def _divisors(product: int) -> Iterable[int]:
    for value in range(1, isqrt(product) + 1):
        if product % value == 0:
            yield value
            yield product // value
