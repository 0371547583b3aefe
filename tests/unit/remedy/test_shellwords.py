import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.remedy.shellwords import words

PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1, max_size=12)


@given(st.lists(PLAIN, min_size=1, max_size=6))
def test_quoted_words_come_back_with_their_places(texts: list[str]) -> None:
    line = shlex.join(texts)
    found = words(line)
    assert [word.text for word in found] == texts
    assert all(word.literal for word in found)
    assert [shlex.split(line[word.begin : word.end])[0] for word in found] == texts


@given(st.text(st.sampled_from("ab '\"\\$`(){}|&;<>#\n=-"), max_size=30))
def test_any_line_is_cut_or_refused_and_places_are_in_order(line: str) -> None:
    try:
        found = words(line)
    except ValueError:
        return
    places = [place for word in found for place in (word.begin, word.end)]
    assert places == sorted(places)
    assert all(0 <= place <= len(line) for place in places)
    assert all(word.begin < word.end for word in found)


@pytest.mark.parametrize(
    "text", ["$B", "${B:-8}", "$(nproc)", "`nproc`", '"$B"', '"$(echo ")")"', "*.py", "{1,2}", "{1..3}", "~/x"]
)
def test_what_the_shell_expands_is_not_literal(text: str) -> None:
    found = words(f"a {text} b")
    assert len(found) == 3
    assert [word.literal for word in found] == [True, False, True]


def test_operators_comments_and_placeholders() -> None:
    found = words("cd x && run --c {config} 2>&1 | tee log # --b 8\nnext")
    assert [word.text for word in found if word.operator] == ["&&", "2>&", "|", "\n"]
    assert [word.text for word in found if word.redirects] == ["2>&"]
    assert "{config}" in [word.text for word in found if word.literal]
    assert "8" not in [word.text for word in found]
