"""The code of a run's attempts: what an automatic restart would run, and the text of what was not committed."""

import structlog

from supervisor.model.code import Code
from supervisor.model.errors import CallRefused, NodeUnreachable, NotFound
from supervisor.node.link import Link
from supervisor.probe.wire import MAX_SLICE_BYTES
from supervisor.store.records import RunRecord

_log = structlog.get_logger(__name__)
TEXT_FILE = "code.diff"
"""In the attempt's folder on the node, masked and cut there."""
MAX_TEXT_BYTES = 256 * 1024


async def code_now(link: Link, record: RunRecord) -> Code | None:
    """The code that an automatic restart would run; None where nothing is restarted or the spec says `live`."""
    if record.request is not None or not record.run.attempts or record.spec.code == "live":
        return None
    then = record.run.attempts[-1]
    return await link.code(record.spec.workdir, then.command, then.code.head)


def head_before(record: RunRecord, attempt_no: int) -> str | None:
    """The commit of the attempt before that one, where it is known."""
    heads = [attempt.code.head for attempt in record.run.attempts if attempt.no < attempt_no]
    return heads[-1] if heads else None


async def text_of(link: Link, attempt_folder: str) -> str | None:
    """The text of an attempt's uncommitted difference; None where there is none, or it cannot be read now."""
    data = b""
    try:
        while len(data) < MAX_TEXT_BYTES:
            piece = await link.read(f"{attempt_folder}/{TEXT_FILE}", len(data), MAX_SLICE_BYTES, base="/")
            data += piece.data
            if not piece.data or len(data) >= (piece.end or 0):
                break
    except NotFound:
        return None
    except (NodeUnreachable, CallRefused) as error:
        _log.info("code.text_not_read", folder=attempt_folder, error=str(error))
        return None
    return data[:MAX_TEXT_BYTES].decode("utf-8", "replace")
