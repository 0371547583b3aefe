from tests.unit.diagnosis.docs_page import PAGE, causes_part, page_with


def test_the_page_of_causes_is_fresh() -> None:
    text = PAGE.read_text("utf-8")
    assert text == page_with(text, causes_part()), "run: python -m tests.unit.diagnosis.docs_page"
