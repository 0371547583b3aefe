from hypothesis import given
from hypothesis import strategies as st

from supervisor.remedy.keep import keys_of, solve


def test_seven_times_three_has_no_six() -> None:
    assert solve(21, wanted=6, above=0) == (3, 7)
    assert solve(21, wanted=3, above=0) == (3, 7)
    assert solve(21, wanted=2, above=0) == (1, 21)
    assert solve(21, wanted=2, above=0, lowest=2) is None
    assert solve(21, wanted=6, above=0, partner_highest=6) is None


def test_upwards_the_value_grows() -> None:
    assert solve(96, wanted=24, above=12) == (24, 4)
    assert solve(21, wanted=6, above=3) is None
    assert solve(96, wanted=20, above=12) == (16, 6)


NUMBER = st.integers(1, 400)


@given(NUMBER, NUMBER, st.integers(0, 500), st.integers(0, 50), NUMBER, NUMBER, st.none() | NUMBER)
def test_it_is_the_largest_pair_that_keeps_the_product_in_bounds(
    one: int, other: int, wanted: int, above: int, lowest: int, partner_lowest: int, partner_highest: int | None
) -> None:
    product = one * other
    fitting = [
        value
        for value in range(max(1, lowest, above + 1), wanted + 1)
        if product % value == 0
        and product // value >= partner_lowest
        and (partner_highest is None or product // value <= partner_highest)
    ]
    solved = solve(
        product,
        wanted=wanted,
        above=above,
        lowest=lowest,
        partner_lowest=partner_lowest,
        partner_highest=partner_highest,
    )
    assert solved == ((max(fitting), product // max(fitting)) if fitting else None)


def test_the_keys_of_a_product() -> None:
    assert keys_of("args.--b * config.optim.accum*env.N") == ["args.--b", "config.optim.accum", "env.N"]
