# ruff: noqa: E501 - messages stand here as they are printed
import pytest

from supervisor.diagnosis.signatures import Signature, library, read_signatures
from supervisor.diagnosis.view import explanations
from supervisor.model.causes import catalogue
from supervisor.model.errors import InvalidInput

ROW = '[[signature]]\nid = "mine"\nrole = "root"\ncause = "exception"\npattern = "boom"\nexample = "boom"\ncounter = "bang"\n'


@pytest.mark.parametrize("signature", library().signatures, ids=lambda signature: signature.id)
def test_matches_its_example_and_not_its_counter_example(signature: Signature) -> None:
    assert signature in library().match(signature.example)
    assert signature not in library().match(signature.counter)


def test_no_counter_example_is_a_root_of_the_same_cause() -> None:
    for signature in library().signatures:
        roots = {found.cause for found in library().match(signature.counter) if found.role == "root"}
        assert signature.role != "root" or signature.cause not in roots, signature.id


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ROW + ROW, "two signatures"),
        (ROW.replace("boom", "(?<=x)boom", 1), "google-re2"),
        (ROW.replace('"exception"', '"sunspots"'), "unknown cause"),
        (ROW.replace('role = "root"', 'role = "king"'), "role"),
        (ROW.replace('example = "boom"\n', ""), "lacks 'example'"),
        (ROW + 'colour = "red"\n', "unknown field"),
        ("[[signature", "TOML"),
    ],
)
def test_a_faulty_file_names_the_fault(text: str, words: str) -> None:
    from supervisor.diagnosis.signatures import Library

    with pytest.raises(InvalidInput, match=words):
        Library(read_signatures(text))


def test_near_looks_at_the_lines_above() -> None:
    from supervisor.diagnosis.signatures import Library

    own = Library(read_signatures(ROW + 'near = "fuse"\n'))
    assert own.match("boom") == []
    assert [found.id for found in own.match("boom", ["the fuse burns"])] == ["mine"]


def test_every_cause_has_a_sentence() -> None:
    assert set(explanations()) >= set(catalogue())
