"""The generated part of docs/diagnosis.md: `python -m tests.unit.diagnosis.docs_page` writes it anew."""

from pathlib import Path

from supervisor.diagnosis.signatures import library
from supervisor.diagnosis.view import changes
from supervisor.model.causes import catalogue

PAGE = Path(__file__).parents[3] / "docs" / "diagnosis.md"
BEGIN, END = "<!-- causes: generated, do not edit -->", "<!-- end of causes -->"


def causes_part() -> str:
    """Every cause with what it means, what proves it and what helps."""
    lines: list[str] = []
    family = None
    for cause in catalogue().values():
        if cause.family != family:
            family = cause.family
            lines += ["", f"### {family.replace('_', ' ').capitalize()}", ""]
            lines += ["| cause | retry | means | seen by | helps |", "|---|---|---|---|---|"]
        examples = [
            row.example for row in library().signatures if row.cause == cause.id and row.role in ("root", "hint")
        ]
        seen_by = f"`{_cell(examples[0], 110)}`" if examples else "sensors, status or figures"
        helps = "; ".join(changes(cause.id)) or "–"
        lines.append(f"| `{cause.id}` | {cause.retry} | {_cell(cause.means)} | {seen_by} | {_cell(helps)} |")
    return "\n".join(lines).strip()


def page_with(text: str, part: str) -> str:
    """The page's text with the generated part replaced."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{part}\n\n{END}{tail}"


def _cell(text: str, limit: int = 400) -> str:
    plain = " ".join(text.replace("|", "/").replace("`", "'").split())
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text("utf-8"), causes_part()), "utf-8")
