"""A node, kept reachable. Nothing here ever stops a run: a lost link is blindness, no failure."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import structlog

from supervisor.model.adoption import Adoptable
from supervisor.model.begin import Lying
from supervisor.model.code import Code
from supervisor.model.errors import (
    ContainerDown,
    LoginRefused,
    NodeUnfit,
    NodeUnreachable,
    VigilError,
)
from supervisor.model.node import LinkState, NodeFacts, NodeSpec
from supervisor.model.observation import Observation, Screen, Slice
from supervisor.node import decode
from supervisor.node.channel import Channel
from supervisor.node.connection import Connections, Machine
from supervisor.node.opening import open_channel
from supervisor.node.options import LinkOptions
from supervisor.probe.wire import (
    CALL_MARGIN_S,
    AdoptableArgs,
    AdoptArgs,
    CheckpointPlan,
    Frame,
    LaunchArgs,
    LaunchReply,
    ObserveArgs,
    Op,
    StopArgs,
    StopReply,
)

__all__ = ["Link", "LinkOptions"]

_HELLO_S = 10.0
_QUICK_S = 10.0
"""Calls that touch a few files."""
_LAUNCH_S = 30.0
"""A tmux session, a git status and the fence's fsyncs, on a busy node."""
_CLEAR_S = 60.0
"""The files of many runs."""
_KILL_S = 20.0
"""What a stop takes beside the grace that it gives: TERM, KILL, the looks in between."""
_CONTAINER_RETRY_S = 15.0
"""Over a living connection another look costs little, and a container is soon back."""
_SETTLED_S = 30.0
"""A link that lived for so long begins its back-off anew."""

_log = structlog.get_logger(__name__)


class Link:
    """One node: one SSH connection per machine, one long-lived probe.

    Every call raises NodeUnreachable (or a subclass) when the node cannot be asked within the deadline, CallRefused or
    StaleToken when the probe says no, NodeUnfit when something is missing on the node. While the link is being made,
    a call waits for the outcome; while it backs off, a call fails at once with the reason.
    """

    def __init__(
        self,
        spec: NodeSpec,
        *,
        options: LinkOptions,
        on_change: Callable[[LinkState], None] | None = None,
    ) -> None:
        """Does nothing until `begin`. `on_change` is called, on the event loop, when the link comes, goes, or fails
        for another reason than before."""
        self.spec = spec
        self._options = options
        self._on_change = on_change
        self._channel: Channel | None = None
        self._facts: NodeFacts | None = None
        self._error: VigilError = NodeUnreachable(f"The link to {spec.shown} was not started.")
        self._told: tuple[bool, str | None] | None = None
        self._seen_at: datetime | None = None
        self._heard_at: float | None = None
        self._outcome = asyncio.Event()
        self._wake = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def state(self) -> LinkState:
        """Whether the node is seen now, and when it last was."""
        if self._channel is not None and not self._channel.lost.done():
            return LinkState(ok=True, last_seen=self._last_seen())
        error = self._why_not()
        return LinkState(ok=False, last_seen=self._last_seen(), error=str(error), code=error.code)

    @property
    def facts(self) -> NodeFacts | None:
        """What the last `hello` said; None before the first."""
        return self._facts

    def begin(self) -> None:
        """Starts to connect, and to connect again whenever the link is lost; needs a running event loop."""
        if self._keeper is not None:
            return
        self._error = NodeUnreachable(f"{self.spec.shown}: not connected yet.")
        if self.spec.ssh is not None:
            Connections.of(self._options).join(Machine.of(self.spec))
        self._keeper = asyncio.create_task(self._keep(), name=f"link {self.spec.name}")

    async def close(self) -> None:
        """Ends the probe politely; touches no run."""
        if self._keeper is None:
            return
        keeper, self._keeper = self._keeper, None
        keeper.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeper
        self._error = NodeUnreachable(f"The link to {self.spec.shown} is closed.")
        self._outcome.set()
        if self._channel is not None:
            self._seen_at = self._last_seen()
            channel, self._channel = self._channel, None
            await channel.close()
        if self.spec.ssh is not None:
            await Connections.of(self._options).leave(Machine.of(self.spec))

    def retry(self) -> None:
        """Ends a back-off now: a person says that the cause is mended. Calls wait for the new outcome."""
        if self._keeper is not None and self._channel is None:
            self._outcome.clear()
        self._wake.set()

    async def hello(self) -> NodeFacts:
        """What the node is, asked now."""
        return await self._greet(await self._connected(3 * self._options.connect_s))

    async def claim(self, run: str, token: int) -> int:
        """The token in force. StaleToken when a higher one is known."""
        frame = await self._call("claim", {"run": run, "token": token}, deadline_s=_QUICK_S)
        return int(frame.header["result"]["token"])

    async def launch(self, args: LaunchArgs, rendered: bytes) -> LaunchReply:
        """Starts the attempt, or says that it was started already. NodeUnfit where tmux is missing.

        After NodeUnreachable nobody knows whether it started: ask again, the call is idempotent.
        """
        await self._connected(_LAUNCH_S)
        if self._facts is not None and self._facts.versions.get("tmux", "") is None:
            _require_tmux(self.spec, await self.hello())  # it may have been installed since
        frame = await self._call("launch", dict(args), rendered, deadline_s=_LAUNCH_S)
        return cast("LaunchReply", frame.header["result"])

    async def adoptable(self, args: AdoptableArgs) -> Adoptable:
        """Who would be adopted, with a draft of a spec. NotFound, CallRefused or InvalidInput where nobody can be."""
        return decode.noun(
            Adoptable, (await self._call("adoptable", dict(args), deadline_s=_LAUNCH_S)).header["result"]
        )

    async def adopt(self, args: AdoptArgs) -> LaunchReply:
        """Watches it as that attempt; asked again, it changes what is looked for (checkpoints, metrics) only."""
        frame = await self._call("adopt", dict(args), deadline_s=_LAUNCH_S)
        return cast("LaunchReply", frame.header["result"])

    async def observe(self, args: ObserveArgs) -> Observation:
        """What one check sees; takes up to `wait_s`."""
        frame = await self._call("observe", dict(args), deadline_s=args["wait_s"] + CALL_MARGIN_S)
        return decode.observation(frame)

    async def stop(self, args: StopArgs) -> StopReply:
        """Ends the attempt; takes up to the grace that it gives."""
        grace_s = max(args["grace_s"], args["save_grace_s"]) + args["grace_s"] / 2
        frame = await self._call("stop", dict(args), deadline_s=grace_s + _KILL_S)
        return cast("StopReply", frame.header["result"])

    async def screen(self, run: str, attempt: int) -> Screen:
        """What the attempt's terminal shows."""
        frame = await self._call("screen", {"run": run, "attempt": attempt}, deadline_s=_QUICK_S)
        return decode.noun(Screen, frame.header["result"])

    async def read(self, path: str, offset: int, size: int, *, base: str | None = None) -> Slice:
        """A piece of a file. `base` is the folder that a relative path is relative to; `~` is the node's."""
        args = {"path": path, "offset": offset, "size": size, "base": base}
        return decode.piece(await self._call("read", args, deadline_s=_QUICK_S))

    async def code(self, workdir: str, command: str | Sequence[str] = "", since: str | None = None) -> Code:
        """The code that lies in the work folder at present, the scripts that `command` names with it; where `since`, an
        earlier commit, is given, what lies between as well."""
        words = command if isinstance(command, str) else list(command)
        args = {"workdir": workdir, "command": words, "since": since}
        frame = await self._call("code", args, deadline_s=_QUICK_S)
        return decode.noun(Code, frame.header["result"])

    async def lying(self, workdir: str, plan: CheckpointPlan | None, asked: str | None) -> Lying:
        """The whole checkpoints in the plan's folder, and the one that is asked for, without any attempt."""
        args = {"workdir": workdir, "checkpoint": plan, "asked": asked}
        return decode.noun(Lying, (await self._call("lying", args, deadline_s=_QUICK_S)).header["result"])

    async def memory(self) -> list[dict[str, Any]]:
        """Used, free and total bytes per device, and who holds it."""
        result = (await self._call("memory", {}, deadline_s=_QUICK_S)).header["result"]
        devices = result["devices"] if isinstance(result, dict) else result
        return [dict(device) for device in devices]

    async def session(self, run: str, attempt: int, *, label: str | None = None) -> list[str]:
        """Makes sure that a tmux session shows the attempt; the argv that attaches to it, on the node.

        `label` is shown below its screen. NotFound where it has ended and its session is gone.
        """
        frame = await self._call("session", {"run": run, "attempt": attempt, "label": label}, deadline_s=_QUICK_S)
        return [str(word) for word in frame.header["result"]["argv"]]

    async def servers(self) -> list[dict[str, Any]]:
        """The tmux servers of runs: `run`, and `sessions` with `attempt`, `dead` and `attached`."""
        frame = await self._call("servers", {}, deadline_s=_LAUNCH_S)
        return [dict(row) for row in frame.header["result"]["servers"]]

    async def reap(self, run: str, attempts: list[int]) -> dict[str, Any]:
        """Ends the dead sessions of these attempts; `reaped`, and `kept` with why. One that lives is never touched."""
        frame = await self._call("reap", {"run": run, "attempts": attempts}, deadline_s=_LAUNCH_S)
        return dict(frame.header["result"])

    async def forget(self, run: str) -> None:
        """Removes what Vigil keeps of the run on the node; CallRefused while anything of it lives."""
        await self._call("forget", {"run": run}, deadline_s=_LAUNCH_S)

    async def clear(self, runs: list[str]) -> tuple[list[str], list[str]]:
        """Removes all that Vigil keeps of these runs, and of itself where nothing else is left: the paths that are
        gone, and those that stay. CallRefused while anything of them lives."""
        result = (await self._call("clear", {"runs": runs}, deadline_s=_CLEAR_S)).header["result"]
        return list(map(str, result["removed"])), list(map(str, result["kept"]))

    async def _call(self, op: Op, args: dict[str, Any], raw: bytes = b"", *, deadline_s: float) -> Frame:
        channel = await self._connected(deadline_s)
        return await channel.call(op, args, raw, deadline_s=deadline_s)

    async def _connected(self, deadline_s: float) -> Channel:
        """The living channel; waits so long while one is being opened."""
        if self._channel is None or self._channel.lost.done():
            if self._keeper is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(deadline_s):
                        await self._outcome.wait()
            if self._channel is None or self._channel.lost.done():
                error = self._why_not()
                raise type(error)(error.detail, remedy=error.remedy)
        return self._channel

    def _why_not(self) -> VigilError:
        """A channel that was just lost knows better than the keeper, who has not had his turn yet."""
        return self._channel.lost.result() if self._channel is not None else self._error

    async def _keep(self) -> None:
        failures = 0
        while True:
            began_at = time.monotonic()
            try:
                error = await self._live()
            except VigilError as refused:
                error = refused
            except Exception as crash:  # the keeper must outlive whatever a library throws
                _log.exception("link_crashed", node=self.spec.name)
                error = NodeUnreachable(f"{self.spec.shown}: {type(crash).__name__}: {crash}")
            failures = 1 if time.monotonic() - began_at > _SETTLED_S else failures + 1
            self._lose(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s(error, failures)):
                    await self._wake.wait()
            self._wake.clear()

    async def _live(self) -> VigilError:
        """One life of the link, from the connect to its loss; why it was lost."""
        self._outcome.clear()
        channel = await open_channel(self.spec, self._options)
        try:
            await self._greet(channel)
            self._channel = channel
            self._outcome.set()
            self._tell()
            while not channel.lost.done():
                quiet_s = time.monotonic() - channel.heard_at
                if quiet_s >= self._options.ping_s:
                    with contextlib.suppress(NodeUnreachable):
                        await self._greet(channel)
                    continue
                await asyncio.wait([channel.lost], timeout=self._options.ping_s - quiet_s)
            error = channel.lost.result()
            self._lose(error)
            await channel.close()
            return error
        except BaseException:
            if self._channel is not channel:
                await channel.close()
            raise

    async def _greet(self, channel: Channel) -> NodeFacts:
        frame = await channel.call("hello", {}, deadline_s=_HELLO_S)
        self._facts = decode.noun(NodeFacts, frame.header["result"])
        return self._facts

    def _lose(self, error: VigilError) -> None:
        self._last_seen()
        self._channel = None
        self._error = error
        self._outcome.set()
        self._tell()

    def _tell(self) -> None:
        state = self.state
        if (state.ok, state.code) == self._told:
            return
        self._told = (state.ok, state.code)
        _log.info("link_changed", node=self.spec.name, ok=state.ok, code=state.code, error=state.error)
        if self._on_change is not None:
            self._on_change(state)

    def _last_seen(self) -> datetime | None:
        if self._channel is not None and self._channel.heard_at != self._heard_at:
            # Once for each time it was heard: the two clocks, read again, would give another answer.
            self._heard_at = self._channel.heard_at
            self._seen_at = self._options.clock() - timedelta(seconds=time.monotonic() - self._heard_at)
        return self._seen_at

    def _pause_s(self, error: VigilError, failures: int) -> float:
        options = self._options
        if isinstance(error, LoginRefused):
            return options.refused_retry_s
        longest_s = options.longest_retry_s
        if isinstance(error, ContainerDown):
            longest_s = min(longest_s, _CONTAINER_RETRY_S)
        pause_s = min(longest_s, options.shortest_retry_s * 2.0 ** min(failures - 1, 16))
        return pause_s * random.uniform(0.5, 1.0)


def _require_tmux(spec: NodeSpec, facts: NodeFacts) -> None:
    if facts.versions.get("tmux", "") is not None:
        return
    mend = next((row.mend for row in facts.missing if row.what == "tmux"), "apt-get install tmux")
    raise NodeUnfit(
        f"{spec.shown}: tmux is missing.", remedy=f"Runs live in tmux sessions. Install it there: `{mend}`."
    )
