"""The code of a run's attempts: what an automatic restart would run, and the text of what was not committed."""

import asyncio
from datetime import datetime

import structlog

from supervisor.control.written import facts_of
from supervisor.model.code import UNSEEN, Code
from supervisor.model.errors import CallRefused, Conflict, NodeUnreachable, NotFound, StoreBusy
from supervisor.node.link import Link
from supervisor.probe.wire import MAX_SLICE_BYTES
from supervisor.store.records import AttemptRecord, RunRecord
from supervisor.store.store import Store

_log = structlog.get_logger(__name__)
TEXT_FILE = "code.diff"
"""In the attempt's folder on the node, masked and cut there."""
MAX_TEXT_BYTES = 256 * 1024
WRITTEN_WITHIN_S = 60.0
"""After an attempt's start its text is there within seconds; what is not there by then (all of it was binary, or a
person started the attempt) is asked for no more."""


async def code_now(link: Link, record: RunRecord) -> Code | None:
    """The code that an automatic restart would run; None where nothing is restarted or the spec says `live`."""
    if record.request is not None or not record.run.attempts or record.spec.code == "live":
        return None
    then = record.run.attempts[-1]
    return await link.code(record.spec.workdir, then.command, then.code.head)


class Texts:
    """Fetches the text of each attempt's difference once it lies on the node, beside the watch."""

    def __init__(self, store: Store, link: Link) -> None:
        """For the watch of one run."""
        self._store = store
        self._link = link
        self._done: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    def look(self, run_id: str, last: AttemptRecord, now: datetime) -> None:
        """To be called at every check: begins to fetch what is not there yet; never waits."""
        attempt, place = last.attempt, facts_of(last).folder
        if attempt.code == UNSEEN or attempt.no in self._done or (self._task and not self._task.done()):
            return
        if attempt.code.dirty is None or not place:
            self._done.add(attempt.no)
            return
        late = attempt.started_at is not None and (now - attempt.started_at).total_seconds() > WRITTEN_WITHIN_S
        self._task = asyncio.create_task(self._fetch(run_id, attempt.no, place, late=late), name=f"code of {run_id}")

    def close(self) -> None:
        """Lets go of what is being fetched: the next watch begins anew."""
        if self._task:
            self._task.cancel()

    async def _fetch(self, run_id: str, attempt_no: int, place: str, *, late: bool) -> None:
        try:
            if await self._store.code_text(run_id, attempt_no) is None:
                text = await text_of(self._link, place)
                if text is None or not (text or late):
                    return  # out of sight, or being written: the next check asks again
                if text:
                    await self._store.keep_code_text(run_id, attempt_no, text)
        except (StoreBusy, Conflict) as error:
            _log.info("code.text_not_kept", run=run_id, attempt=attempt_no, error=str(error))
            return
        self._done.add(attempt_no)


async def text_of(link: Link, attempt_folder: str) -> str | None:
    """The text of an attempt's uncommitted difference; empty where there is none, None where it cannot be read now."""
    data = b""
    try:
        while len(data) < MAX_TEXT_BYTES:
            piece = await link.read(f"{attempt_folder}/{TEXT_FILE}", len(data), MAX_SLICE_BYTES, base="/")
            data += piece.data
            if not piece.data or len(data) >= (piece.end or 0):
                break
    except NotFound:
        return ""
    except (NodeUnreachable, CallRefused) as error:
        _log.info("code.text_not_read", folder=attempt_folder, error=str(error))
        return None
    return data[:MAX_TEXT_BYTES].decode("utf-8", "replace")
