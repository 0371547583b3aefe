"""The text of what an attempt's code differed by from its commit; the attempt's row holds the rest."""

from collections.abc import Callable
from typing import Any, TypeVar

import zstandard
from sqlalchemy import Connection, insert, select

from supervisor.store.tables import attempt as attempts
from supervisor.store.tables import attempt_code

MAX_TEXT_BYTES = 1024 * 1024
_T = TypeVar("_T")


class CodeTexts:
    """The part of the store that keeps the code of attempts as text."""

    async def keep_code_text(self, run_id: str, attempt_no: int, text: str) -> None:
        """Keeps the text of what the attempt's code differed by from its commit."""
        await self._write(lambda one: put(one, run_id, attempt_no, text), urgent=False, durable=False)

    async def code_text(self, run_id: str, attempt_no: int) -> str | None:
        """That text; None where none was kept."""
        return await self._read(lambda one: read(one, run_id, attempt_no))

    async def _read(self, query: Callable[[Connection], _T]) -> _T:
        raise NotImplementedError

    async def _write(self, work: Callable[[Connection], _T], **how: Any) -> _T:
        raise NotImplementedError


def put(connection: Connection, run_id: str, attempt_no: int, text: str) -> None:
    """Keeps it, once; nothing where the attempt is gone meanwhile."""
    this = (attempts.c.run == run_id, attempts.c.no == attempt_no)
    if connection.execute(select(attempts.c.no).where(*this)).one_or_none() is None or read(
        connection, run_id, attempt_no
    ):
        return
    packed = zstandard.ZstdCompressor().compress(text.encode("utf-8", "replace"))
    connection.execute(insert(attempt_code), {"run": run_id, "attempt": attempt_no, "text": packed})


def read(connection: Connection, run_id: str, attempt_no: int) -> str | None:
    """The text; None where none was kept."""
    found = connection.execute(
        select(attempt_code.c.text).where(attempt_code.c.run == run_id, attempt_code.c.attempt == attempt_no)
    ).scalar_one_or_none()
    if found is None:
        return None
    return zstandard.ZstdDecompressor().decompress(found, max_output_size=MAX_TEXT_BYTES).decode("utf-8", "replace")
