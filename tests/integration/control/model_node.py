"""A model of a node: what the real probe promises, in memory, with a daemon that may be killed between any two calls.

It counts launches and living attempts, so that a test can say what must never be.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from supervisor.model.begin import AskedCheckpoint, Lying
from supervisor.model.code import Code
from supervisor.model.errors import StaleToken
from supervisor.model.node import Gpu, LinkState, NodeFacts
from supervisor.model.observation import Checkpoint, ExitRecord, Observation, Processes, Slice
from supervisor.probe.wire import CheckpointPlan, LaunchArgs, LaunchReply, ObserveArgs, StopArgs, StopReply

BEGIN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
STEPS_A_CHECK = 2
CHECKPOINT_EVERY = 4
OOM = b"RuntimeError: [enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried"
OOM_TAIL = b" to allocate 805306368 bytes. Error code 12 (Cannot allocate memory)\r\n"


class Killed(BaseException):
    """kill -9 of the daemon: no `except Exception` may survive it."""


@dataclass
class Clock:
    """Time that passes only when somebody looks at it."""

    now: datetime = BEGIN

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=20)
        return self.now


@dataclass
class Process:
    """One attempt on the node."""

    size: int
    total: int
    step: int = 0
    log: bytes = b""
    alive: bool = True
    announced: bool = False
    exit: ExitRecord | None = None
    end_unix_s: float | None = None


@dataclass
class ModelNode:
    """The node behind the link. `fits` is the largest `env.SIZE` that does not run out of memory at step 6."""

    clock: Clock
    fits: int = 100
    total: int = 12
    tokens: dict[str, int] = field(default_factory=dict)
    processes: dict[int, Process] = field(default_factory=dict)
    tombstones: set[int] = field(default_factory=set)
    launches: list[int] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    calls_left: int | None = None
    """The daemon dies at the call after so many; None: never."""
    dies_after_effect: bool = False
    gpus: tuple[Gpu, ...] = ()

    # --- what Link offers ---

    @property
    def facts(self) -> NodeFacts:
        return NodeFacts(gpus=self.gpus)

    async def hello(self) -> NodeFacts:
        with self._call():
            return self.facts

    @property
    def state(self) -> LinkState:
        return LinkState(ok=True, last_seen=self.clock.now)

    async def claim(self, run: str, token: int) -> int:
        with self._call():
            self._claim(run, token)
        return token

    async def launch(self, args: LaunchArgs, rendered: bytes) -> LaunchReply:
        with self._call():
            self._claim(args["run"], args["token"])
            number = args["attempt"]
            state = "already"
            if args.get("give_up") and number not in self.processes:
                self.tombstones.add(number)
            if number in self.tombstones or any(one.alive for no, one in self.processes.items() if no != number):
                state = "refused"
            elif number not in self.processes:
                state = "started"
                self._start(number, args)
        return LaunchReply(
            state=state,  # type: ignore[typeddict-item]
            why=args.get("give_up") or ("an earlier attempt lives" if state == "refused" else None),
            given_up=number in self.tombstones,
            folder=f"/state/{number}",
            started_unix_s=self.clock.now.timestamp(),
            boot_id="boot",
            code={"head": None, "dirty": None},
            config_path=None,
            socket="/s",
            session="attempt",
        )

    async def code(self, workdir: str, command: object = "", since: str | None = None) -> Code:
        with self._call():
            return Code()

    async def lying(self, workdir: str, plan: CheckpointPlan | None, asked: str | None) -> Lying:
        with self._call():
            if asked is None:
                return Lying(found=tuple(self.checkpoints))
            there = next((one for one in self.checkpoints if one.path == asked), None)
            found = AskedCheckpoint(
                path=asked, exists=there is not None, whole=there is not None, step=there.step if there else None
            )
            return Lying(found=tuple(self.checkpoints), asked=found)

    async def observe(self, args: ObserveArgs) -> Observation:
        with self._call():
            number = args["attempt"]
            process = self.processes.get(number)
            if process is None:
                return Observation(
                    at_unix_s=self.clock().timestamp(),
                    attempt_known=number in self.tombstones,
                    started=False,
                    session="lost",
                )
            self._goes_on(process)
            cursor = args["log_cursor"]
            if cursor > len(process.log):
                self.violations.append(f"cursor {cursor} is beyond the log's end {len(process.log)}")
            return Observation(
                at_unix_s=self.clock().timestamp(),
                boot_id="boot",
                started=True,
                session="alive" if process.alive else "dead",
                log=Slice(offset=cursor, data=process.log[cursor:], end=len(process.log), closed=not process.alive),
                exit=process.exit,
                processes=Processes(alive=int(process.alive), wrapper_alive=process.alive),
                checkpoints=tuple(self.checkpoints),
            )

    async def stop(self, args: StopArgs) -> StopReply:
        with self._call():
            self._claim(args["run"], args["token"])
            process = self.processes.get(args["attempt"])
            if process is None:
                self.tombstones.add(args["attempt"])
            elif process.alive:
                process.announced = True
                self._end(process, 130, b"interrupted\r\n")
        return StopReply(gone=True, survivors=[], steps=["SIGINT"])

    # --- what happens there ---

    def ctrl_c(self) -> None:
        """A person in the terminal of whatever lives."""
        for process in self.processes.values():
            if process.alive:
                self._end(process, 130, b"^C\r\ninterrupted\r\n", key=True)

    def alive(self) -> list[int]:
        """Attempts that live."""
        return [number for number, process in self.processes.items() if process.alive]

    def _claim(self, run: str, token: int) -> None:
        known = self.tokens.get(run, 0)
        if token < known:
            raise StaleToken(f"token {token} is older than {known}")
        self.tokens[run] = token

    def _start(self, number: int, args: LaunchArgs) -> None:
        if self.alive():
            self.violations.append(f"attempt {number} started while {self.alive()} live")
        if number in self.launches:
            self.violations.append(f"attempt {number} started twice")
        self.launches.append(number)
        words = args["command"]
        first = 0
        if isinstance(words, list) and "--resume" in words:
            first = int(words[words.index("--resume") + 1].rsplit("_", 1)[1])
        process = Process(size=int(args["env"].get("SIZE", "1")), total=self.total, step=first)
        process.log = b"starting\r\n"
        self.processes[number] = process

    def _goes_on(self, process: Process) -> None:
        for _ in range(STEPS_A_CHECK):
            if not process.alive:
                return
            if process.step >= process.total:
                self._end(process, 0, b"training finished\r\n")
                return
            if process.step + 1 == 6 and process.size > self.fits:
                self._end(process, 1, OOM + OOM_TAIL)
                return
            process.step += 1
            process.log += b"step %d/%d loss %.3f\r\n" % (process.step, process.total, 10 / process.step)
            if process.step % CHECKPOINT_EVERY == 0:
                found = Checkpoint(step=process.step, path=f"out/step_{process.step}", complete=True)
                self.checkpoints = [one for one in self.checkpoints if one.step != found.step] + [found]

    def _end(self, process: Process, code: int, words: bytes, *, key: bool = False) -> None:
        process.log += words
        process.alive = False
        at = self.clock().timestamp()
        keys = [{"byte": 3, "at_unix_s": at - 0.01, "offset": len(process.log) - 1, "as_signal": True}] if key else []
        process.exit = ExitRecord.model_validate(
            {
                "code": code,
                "signal": None,
                "at_unix_s": at,
                "keys": keys,
                "announced": ["stop", "SIGINT"] if process.announced else [],
                "oom_kills_before": 0,
                "oom_kills_after": 0,
                "boot_id": "boot",
            }
        )

    def _call(self) -> "_Call":
        return _Call(self)


@dataclass
class _Call:
    """One call over the link; the daemon may die before it reached the node, or before its answer came back."""

    node: ModelNode

    def __enter__(self) -> None:
        if self.node.calls_left is None:
            return
        self.node.calls_left -= 1
        if self.node.calls_left < 0 and not self.node.dies_after_effect:
            self.node.calls_left = None
            raise Killed

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None and self.node.calls_left is not None and self.node.calls_left < 0:
            self.node.calls_left = None
            raise Killed
