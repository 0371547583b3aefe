"""What programs print when something went wrong, from `signatures.toml` beside this file, in one pass."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

import re2

from supervisor.diagnosis.progress import skip_pattern
from supervisor.diagnosis.text import touched
from supervisor.model.causes import catalogue
from supervisor.model.errors import InvalidInput
from supervisor.model.signature import OwnSignature

Role = Literal["root", "hint", "fallout", "handled", "explains", "done", "early", "phase", "note"]
ROLES: frozenset[str] = frozenset({"root", "hint", "fallout", "handled", "explains", "done", "early", "phase", "note"})
SET_MEMORY_BYTES = 64 << 20
"""Room for the automaton of all patterns together; re2's default of 8 MiB makes it start over again and again."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One row of the file: its fields are explained at the head of `signatures.toml`."""

    id: str
    role: Role
    pattern: str
    cause: str | None = None
    unless: str | None = None
    near: str | None = None
    not_after: str | None = None
    dismisses: tuple[str, ...] = ()
    clears: str | None = None
    phase: str | None = None
    figures: str | None = None
    note: str = ""
    example: str = ""
    counter: str = ""


class Library:
    """Signatures, compiled into one set."""

    def __init__(self, signatures: Sequence[Signature], attention: Sequence[str] = ()) -> None:
        """InvalidInput names the signature whose pattern does not compile. `attention`: patterns that `speaking` finds
        beside those of the signatures."""
        options = re2.Options()
        options.max_mem = SET_MEMORY_BYTES
        options.log_errors = False
        self.signatures = tuple(signatures)
        self.by_id = {signature.id: signature for signature in self.signatures}
        self._set = re2.Set.SearchSet(options)
        self._unless: list[Any] = []
        self._near: list[Any] = []
        for signature in self.signatures:
            for expression in (signature.pattern, signature.unless, signature.near):
                _compiled(expression, signature.id)
            self._set.Add(signature.pattern)
            self._unless.append(_compiled(signature.unless, signature.id))
            self._near.append(_compiled(signature.near, signature.id))
        self._set.Compile()
        options.never_capture = True
        self._any = re2.compile(
            b"(?m)"
            + "|".join(f"(?:{one})" for one in (*attention, *(row.pattern for row in self.signatures))).encode(),
            options,
        )

    def speaking(self, lines: bytes) -> set[int]:
        """Which lines of a text any signature may match, or ask for attention: a fast look at all at once, never too
        few."""
        return touched(self._any, lines)

    def match(self, line: str, before: Sequence[str] = ()) -> list[Signature]:
        """The signatures that the line speaks for, in the file's order; `before`: the lines above it."""
        found: list[int] = self._set.Match(line)
        if not found:
            return []
        return [
            self.signatures[index]
            for index in sorted(found)
            if not (self._unless[index] and self._unless[index].search(line))
            and (self._near[index] is None or any(self._near[index].search(text) for text in (line, *before)))
        ]


def library() -> Library:
    """The signatures that ship with the product."""
    return library_with(())


@lru_cache(maxsize=16)
def library_with(own: tuple[OwnSignature, ...]) -> Library:
    """The same with a person's own before them: in one line they are asked first."""
    text = files("supervisor.diagnosis").joinpath("signatures.toml").read_text("utf-8")
    first = tuple(_of_own(number, one) for number, one in enumerate(own, start=1))
    return Library(
        (*first, *read_signatures(text)), attention=(skip_pattern(), r"^\S+\.py:\d+ in \S", r"^[\w.]+Exception: ")
    )


def read_signatures(text: str, *, source: str = "signatures.toml") -> tuple[Signature, ...]:
    """The signatures in a TOML text; InvalidInput names the faulty one and the field."""
    try:
        rows = tomllib.loads(text).get("signature", [])
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{source} is not valid TOML: {error}") from error
    signatures = tuple(_signature(row, source) for row in rows)
    ids = [signature.id for signature in signatures]
    doubled = sorted({name for name in ids if ids.count(name) > 1})
    if doubled:
        raise InvalidInput(f"{source} has two signatures called {doubled[0]!r}.", remedy="Give each its own id.")
    return signatures


def _of_own(number: int, own: OwnSignature) -> Signature:
    return Signature(
        id=f"own-{number}",
        role=own.role,
        pattern=own.pattern,
        cause=own.cause,
        unless=own.unless,
        near=own.near,
        not_after=own.not_after,
        example=own.example,
        counter=own.counter_example,
    )


def _signature(row: dict[str, Any], source: str) -> Signature:
    name = str(row.get("id", "?"))
    unknown = sorted(set(row) - set(Signature.__dataclass_fields__))
    if unknown:
        raise InvalidInput(f"{source}: signature {name!r} has the unknown field {unknown[0]!r}.")
    for field in ("id", "role", "pattern", "example", "counter"):
        if not row.get(field):
            raise InvalidInput(f"{source}: signature {name!r} lacks {field!r}.")
    if row["role"] not in ROLES:
        raise InvalidInput(
            f"{source}: signature {name!r} has the role {row['role']!r}.", remedy=f"Roles: {sorted(ROLES)}."
        )
    cause = row.get("cause")
    if cause is not None and cause not in catalogue():
        raise InvalidInput(f"{source}: signature {name!r} names the unknown cause {cause!r}.")
    if cause is None and row["role"] in ("root", "hint", "fallout", "handled"):
        raise InvalidInput(f"{source}: signature {name!r} has the role {row['role']!r} and needs a cause.")
    return Signature(**(row | {"dismisses": tuple(row.get("dismisses", ()))}))


def _compiled(expression: str | None, name: str) -> Any:
    if expression is None:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        raise InvalidInput(
            f"Signature {name!r}: {expression!r} is no google-re2 pattern: {error}",
            remedy="It knows no look-around and no back-references; use `unless`, `near` or `not_after`.",
        ) from error
