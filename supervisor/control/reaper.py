"""The end of dead sessions. An ended attempt's session keeps its last screen; the newest are kept, older ones ended.

Which may go is decided here, from the store; that nothing of them lives and nobody looks is proved on the node.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import structlog

from supervisor.control.nodes import Place
from supervisor.model.errors import CallRefused, NodeUnreachable, NotFound, VigilError
from supervisor.model.run import ENDED, Run
from supervisor.store.records import RunRecord

_log = structlog.get_logger(__name__)
KEEP_ATTEMPTS = 2
"""So many ended attempts of a run stay attachable, the newest."""
KEEP_RUNS = 2
"""Of so many ended runs on a node, the newest; of older ones no session is kept."""
AGAIN_S = 60.0
"""A session that somebody looks at is asked for again so soon."""


class ReapingLink(Protocol):
    """What the reaper asks of a node."""

    async def servers(self) -> list[dict[str, Any]]:
        """The tmux servers of runs."""

    async def reap(self, run: str, attempts: list[int]) -> dict[str, Any]:
        """Ends dead sessions."""


class Links(Protocol):
    """The nodes that the daemon knows."""

    def link(self, name: str, user: str | None = None) -> ReapingLink:
        """As that user, or the node's own; NotFound where there is no such node."""


class Records(Protocol):
    """The store, as far as the reaper reads it."""

    async def load_run(self, key: str) -> RunRecord:
        """By id; NotFound."""


class Due(NamedTuple):
    """Sessions of one run that are needed no more."""

    run: str
    attempts: list[int]


class Reaper:
    """Looks at a node's dead sessions whenever an attempt there has ended, one node after the other."""

    def __init__(self, store: Records, nodes: Links) -> None:
        """Does nothing until `run`."""
        self._store = store
        self._nodes = nodes
        self._wished: set[Place] = set()
        self._woken = asyncio.Event()

    def wish(self, node: str, user: str | None = None) -> None:
        """An attempt there has ended, or the node is seen again: look soon. Each user of a node has own sessions."""
        self._wished.add((node, user))
        self._woken.set()

    async def run(self) -> None:
        """Until it is cancelled. What goes wrong is said, and tried again at the next wish."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            wished, self._wished = self._wished, set()
            for node, user in sorted(wished, key=str):
                try:
                    settled = await self.reap(node, user)
                except (NodeUnreachable, CallRefused, NotFound) as error:
                    # The node is blind or gone: it is wished for again when it comes back.
                    _log.debug("reaper.put_off", node=node, error=str(error))
                except VigilError as error:
                    _log.warning("reaper.failed", node=node, error=str(error))
                except Exception:
                    _log.exception("reaper.broken", node=node)
                else:
                    if not settled:
                        asyncio.get_running_loop().call_later(AGAIN_S, self.wish, node, user)

    async def reap(self, node: str, user: str | None = None) -> bool:
        """Ends what is due there; False where something due had to stay, because somebody looks at it."""
        link = self._nodes.link(node, user)
        servers = await link.servers()
        runs: dict[str, Run] = {}
        for server in servers:
            try:
                record = await self._store.load_run(str(server["run"]))
            except NotFound:
                continue  # another daemon's, or nobody's any more: not ours to end
            if record.run.id == server["run"]:
                runs[record.run.id] = record.run
        settled = True
        for run, attempts in due(servers, runs):
            answer = await link.reap(run, attempts)
            settled = settled and not answer["kept"]
            if answer["reaped"]:
                _log.info("session.reaped", run=runs[run].name, node=node, attempts=answer["reaped"])
        return settled


def due(servers: Iterable[Mapping[str, Any]], runs: Mapping[str, Run]) -> list[Due]:
    """The dead sessions that are needed no more. Pure. A run that is not in `runs` is not ours."""
    found = {str(server["run"]): server["sessions"] for server in servers if server["run"] in runs}
    ended = sorted((run for run in found if runs[run].state in ENDED), key=lambda run: _ended_at(runs[run]))
    dropped = set(ended[:-KEEP_RUNS])
    result: list[Due] = []
    for run in sorted(found):
        over = sorted(attempt.no for attempt in runs[run].attempts if attempt.state == "ended")
        needless = set(over if run in dropped else over[:-KEEP_ATTEMPTS])
        dead = {int(row["attempt"]) for row in found[run] if row["dead"]}
        if attempts := sorted(needless & dead):
            result.append(Due(run, attempts))
    return result


def _ended_at(run: Run) -> datetime:
    return max((attempt.ended_at for attempt in run.attempts if attempt.ended_at), default=run.updated_at)
