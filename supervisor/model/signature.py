"""A person's own signature: what a program of theirs prints when something went wrong."""

from typing import Annotated, Any, Literal, Self

import re2
from pydantic import Field, model_validator

from supervisor.model.causes import catalogue
from supervisor.model.noun import Noun

OwnRole = Literal["root", "hint", "fallout", "handled"]
MAX_PATTERN_CHARS = 2000


class OwnSignature(Noun):
    """One signature in the spec or in a file, in the form of the built-in ones."""

    cause: str
    """An id of the catalogue."""
    pattern: Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARS)]
    """google-re2, searched in one line of the log."""
    unless: Annotated[str, Field(max_length=MAX_PATTERN_CHARS)] | None = None
    """Where it matches the same line, the line says something else."""
    not_after: OwnRole | None = None
    """Counts only while no hit of that role stands since the last progress."""
    near: Annotated[str, Field(max_length=MAX_PATTERN_CHARS)] | None = None
    """Must match in the line or one of the six above it."""
    role: OwnRole = "root"
    """`root` can be why a run ended, `hint` only where no root speaks, `fallout` never, `handled`: it went on."""
    example: Annotated[str, Field(min_length=1)]
    """A line that must match."""
    counter_example: Annotated[str, Field(min_length=1)]
    """A line that must not."""

    @model_validator(mode="after")
    def _holds(self) -> Self:
        if self.cause not in catalogue():
            raise ValueError(f"names the unknown cause {self.cause!r}; docs/diagnosis.md lists them")
        pattern = _compiled("pattern", self.pattern)
        unless = _compiled("unless", self.unless) if self.unless else None
        _ = _compiled("near", self.near) if self.near else None
        if not pattern.search(self.example) or (unless and unless.search(self.example)):
            raise ValueError(f"its own example does not match: {self.example[:80]!r}")
        if pattern.search(self.counter_example) and not (unless and unless.search(self.counter_example)):
            raise ValueError(f"its own counter_example matches: {self.counter_example[:80]!r}")
        return self


class OwnSignatures(Noun):
    """A file of them."""

    signatures: Annotated[tuple[OwnSignature, ...], Field(max_length=256)]


def _compiled(field: str, expression: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        why = error.args[0]
        text = why.decode() if isinstance(why, bytes) else why
        raise ValueError(f"`{field}` is no regular expression of google-re2: {text}") from error
