"""How the code of two attempts differs."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.code import DELETED, UNSEEN, Code, changes, changes_over

names = st.sampled_from(["a.py", "b.py", "c/d.py"])
contents = st.sampled_from(["1", "2", DELETED])


@st.composite
def codes(draw: st.DrawFn) -> Code:
    files = draw(st.dictionaries(names, contents))
    return Code(head="h", tree="t", dirty=str(sorted(files.items())) if files else None, files=files)


def test_nothing_known_is_no_change():
    assert not changes(Code(), Code()).changed
    assert not changes(Code(head="a", dirty="1"), Code(why="git did not answer")).changed
    assert not changes(Code(), Code(head="a")).changed


def test_an_edit_names_its_file():
    then = Code(head="a", tree="t")
    now = Code(head="a", tree="t", dirty="1", files={"train.py": "2"})
    assert changes(then, now).files == ("train.py",)
    assert changes(then, now).shown == "train.py"
    assert changes(now, then).files == ("train.py",)


def test_two_heads_without_their_difference_are_a_change_without_names():
    found = changes(Code(head="a" * 40), Code(head="b" * 40))
    assert found.changed
    assert found.shown == "aaaaaaaaaa -> bbbbbbbbbb"


def test_what_lies_between_two_commits_is_named():
    then = Code(head="a", tree="t1")
    now = Code(head="b", tree="t2", since="a", moved={"train.py": ("1", "2"), "new.py": (None, "3")})
    assert changes(then, now).files == ("new.py", "train.py")
    assert changes(then, now).heads == ("a", "b")


def test_to_commit_what_had_been_tried_is_no_change():
    then = Code(head="a", tree="t1", dirty="x", files={"train.py": "2"}, untracked={"new.py": "3"})
    now = Code(head="b", tree="t2", since="a", moved={"train.py": ("1", "2"), "new.py": (None, "3")})
    assert not changes(then, now).changed


def test_another_commit_of_the_same_content_is_no_change():
    assert not changes(Code(head="a", tree="t"), Code(head="b", tree="t")).changed


def test_a_new_unknown_file_is_no_change_but_an_edited_or_removed_one_is():
    then = Code(head="a", tree="t", dirty="1", untracked={"train.py": "1"})
    more = then.model_copy(update={"untracked": {"train.py": "1", "wandb/copy.py": "9"}, "dirty": "2"})
    assert not changes(then, more).changed
    edited = then.model_copy(update={"untracked": {"train.py": "2"}, "dirty": "3"})
    assert changes(then, edited).files == ("train.py",)
    assert changes(then, Code(head="a", tree="t")).files == ("train.py",)


def test_scripts_are_compared_without_a_repository():
    assert changes(Code(scripts={"train.py": "1"}), Code(scripts={"train.py": "2"})).files == ("train.py",)
    assert not changes(Code(scripts={"train.py": "1"}), Code(scripts={})).changed


def test_lists_that_are_cut_fall_back_on_the_hash():
    then = Code(head="a", tree="t", dirty="1", files={"a.py": "1"}, cut=True)
    assert changes(then, then.model_copy(update={"dirty": "2"})).shown == "uncommitted changes"
    assert not changes(then, then).changed


def test_what_changed_over_several_attempts_is_everything_between():
    first = Code(head="a", tree="t")
    second = first.model_copy(update={"dirty": "1", "files": {"x.py": "1"}})
    third = second.model_copy(update={"dirty": "2", "files": {"x.py": "1", "y.py": "1"}})
    assert changes_over([first, second, third]).files == ("x.py", "y.py")
    assert changes_over([first, UNSEEN, second]).files == changes(first, second).files
    assert not changes_over([first, first]).changed
    assert not changes_over([first]).changed


@given(codes(), codes())
def test_a_change_is_one_in_both_directions_and_none_to_itself(one: Code, other: Code):
    assert changes(one, other).files == changes(other, one).files
    assert not changes(one, one).changed
    effective = {name: one.files.get(name, "head") for name in {*one.files, *other.files}}
    others = {name: other.files.get(name, "head") for name in {*one.files, *other.files}}
    assert changes(one, other).changed == (effective != others)
