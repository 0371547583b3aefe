"""Long healthy runs and injected faults, simulated: does the diagnosis keep quiet, and how soon does it speak?

`python -m tests.bench.false_alarms [RUN-HOURS]` (default 200; 10000 for the whole measurement). A healthy run is made
of what real ones show: compilation and autotuning of many minutes, step times that follow the sequence length,
evaluation, checkpoints of up to 49 minutes, ramps, buffered output, clock jumps, lost links. Counts every verdict on a
healthy run that would restart or accuse it.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from supervisor.diagnosis.examine import AttemptContext, examine
from supervisor.model.noun import from_unix
from supervisor.model.observation import Device, Host, Observation, Processes, Slice, Window
from supervisor.model.spec import Spec

START_S = 1_750_000_000.0
LOOK_S = 30.0
SPEC = Spec(name="sim", node="local", command="python train.py")
TOTAL_BYTES = 80 << 30
RUN_HOURS = 10.0
FAULT_AFTER_S = 5400.0
FAULTS = (
    "hang_collective",
    "hang_dataloader",
    "hang_io",
    "gpu_lost",
    "loss_nan",
    "throughput_drop",
    "memory_leak",
    "memory_churn",
)
STOPS = {"hang_collective": "spin", "hang_dataloader": "idle", "hang_io": "stuck", "gpu_lost": "idle"}
"""Faults that end all progress, and what the sensors show then."""
XID_79 = "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@dataclass
class Run:
    """A simulated run: what it would show at any time."""

    chance: random.Random
    fault: str | None = None
    step: int = 0
    at: float = 0.0
    """Seconds since the start."""
    text: list[str] = field(default_factory=list)
    busy: str = "work"
    """What the sensors show: work, idle, processor, disk, spin, stuck."""

    def story(self) -> Iterator[float]:
        """Yields after each stretch of time; `text` and `busy` tell what it shows."""
        chance = self.chance
        self.text.append("loading model weights\r\n")
        yield from self._wait(chance.uniform(20, 900), "disk")
        for _ in range(chance.randrange(3)):
            self.text.append("AUTOTUNE mm(816x2048, 2048x16384)\r\n")
            yield from self._wait(chance.uniform(5, 600), "idle")
        self.text.append("compiling model\r\n")
        yield from self._wait(chance.uniform(10, 1500), "processor")
        base = chance.choice([0.2, 1.0, 4.0, 60.0, 900.0])
        every = max(1, round(chance.choice([5, 20, 60]) / base))
        save_every, eval_every = chance.randrange(200, 900), chance.randrange(300, 2000)
        buffered: list[str] = []
        flush_s = chance.choice([0.0, 0.0, 0.0, 400.0])
        flushed = self.at
        while True:
            self.step += 1
            failing = self.fault if self.at > FAULT_AFTER_S else None
            ramp = 3.0 if self.step < 50 else 1.0
            seconds = base * ramp * chance.lognormvariate(0, 0.4) * (8.0 if failing == "throughput_drop" else 1.0)
            yield from self._wait(seconds, "work")
            if failing in STOPS:
                yield from self._wait(1e9, STOPS[failing])
            if self.step % every == 0:
                loss = "nan" if failing == "loss_nan" else f"{9 / (1 + self.step**0.3) * chance.uniform(0.9, 1.1):.4f}"
                memory = f" mem {40 + self.at / 3600 * 2:.2f} GiB" if failing == "memory_leak" else ""
                buffered.append(f"step {self.step} | loss {loss} | {seconds:.3f} s/step{memory}\r\n")
            if self.at - flushed >= flush_s:
                self.text += buffered
                buffered, flushed = [], self.at
            if self.step % save_every == 0:
                self.text.append(f"saving checkpoint at step {self.step}\r\n")
                yield from self._wait(min(2940, chance.lognormvariate(4, 1.5)), "disk")
            if self.step % eval_every == 0:
                self.text.append("***** Running Evaluation *****\r\n")
                yield from self._wait(min(2400, chance.lognormvariate(5, 1.2)), "work")

    def _wait(self, seconds: float, busy: str) -> Iterator[float]:
        self.busy = busy
        end = self.at + seconds
        while self.at < end:
            self.at = min(end, self.at + LOOK_S)
            yield self.at


def observations(run: Run, hours: float) -> Iterator[Observation]:
    """What Vigil sees of the run, with holes in the link and jumps of the clock."""
    offset, looked, jump, away_until = 0, -LOOK_S, 0.0, 0.0
    waiting = b""
    for at in run.story():
        if at > hours * 3600:
            return
        waiting += "".join(run.text).encode()
        run.text.clear()
        if at - looked < LOOK_S:
            continue
        if at > away_until and run.chance.random() < 0.0005:
            away_until = at + run.chance.uniform(60, 7200)
        if run.chance.random() < 0.0002:
            jump += run.chance.uniform(-7200, 7200)
        if at < away_until:
            continue
        looked = at
        yield _seen(run, at, jump, offset, waiting)
        offset += len(waiting)
        waiting = b""


def _seen(run: Run, at: float, jump: float, offset: int, data: bytes) -> Observation:
    util, power, running, cpu, disk = {
        "work": (97.0, 600.0, 4, 12.0, 0.0),
        "idle": (0.0, 90.0, 0, 0.4, 0.0),
        "processor": (0.0, 90.0, 12, 60.0, 0.0),
        "disk": (0.0, 90.0, 1, 5.0, 4e8),
        "spin": (100.0, 130.0, 1, 6.0, 0.0),
        "stuck": (0.0, 90.0, 0, 0.3, 0.0),
    }[run.busy]
    used = 60 << 30
    failing = run.fault if at > FAULT_AFTER_S else None
    low = used * (0.2 if failing == "memory_churn" else 0.97)
    stuck = 6 if run.busy == "stuck" else 0
    device = Device(
        uuid="GPU-1",
        index=0,
        total_bytes=TOTAL_BYTES,
        used_bytes=Window(last=used, min=low, max=used),
        own_bytes=used,
        util_percent=Window(last=util),
        power_w=Window(last=power),
        power_limit_w=700.0,
    )
    return Observation(
        at_unix_s=START_S + at + jump,
        monotonic_s=at,
        boot_id="boot",
        started=True,
        log=Slice(offset=offset, data=data, end=offset + len(data)),
        session="alive",
        processes=Processes(alive=20, wrapper_alive=True, states={"R": running, "S": 20, "D": stuck}),
        devices=(device,),
        host=Host(cpu_percent=cpu, disk_read_bps=disk, disk_write_bps=0.0),
        kernel=(XID_79,) if failing == "gpu_lost" else (),
    )


def watch(run: Run, hours: float, told: Callable[[float, str, str], bool]) -> None:
    """Fold the run; `told(at, cause, retry)` says whether to stop."""
    state: bytes | None = None
    context = AttemptContext(launched_at=from_unix(START_S), command="python train.py", boot_id="boot")
    for seen in observations(run, hours):
        examination = examine(SPEC, state, seen, from_unix(seen.at_unix_s), context=context)
        state = examination.state
        if told(seen.monotonic_s or 0.0, examination.verdict.cause, str(examination.verdict.retry)):
            return


def healthy(hours: float, seed: int = 1) -> dict[str, int]:
    """Verdicts on healthy runs that would restart or accuse them, by cause."""
    alarms: dict[str, int] = {}
    for number in range(max(1, round(hours / RUN_HOURS))):

        def told(at: float, cause: str, retry: str) -> bool:
            if retry != "none":
                alarms[cause] = alarms.get(cause, 0) + 1
            return retry != "none"

        watch(Run(random.Random(f"{seed}-{number}")), RUN_HOURS, told)
    return alarms


def delays(fault: str, runs: int, seed: int = 2) -> list[float]:
    """Seconds from the fault to its verdict; a run in which it is not found within its ten hours is left out."""
    found: list[float] = []
    for number in range(runs):

        def told(at: float, cause: str, retry: str) -> bool:
            if cause == fault and at > FAULT_AFTER_S:
                found.append(at - FAULT_AFTER_S)
                return True
            return False

        watch(Run(random.Random(f"{seed}-{number}"), fault), RUN_HOURS, told)
    return found


def measure(hours: float = 200.0) -> list[dict[str, object]]:
    """The rows of `bench.json`."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    alarms = healthy(hours)
    rows: list[dict[str, object]] = [
        {
            "name": f"false alarms in {hours:.0f} healthy run-hours",
            "value": sum(alarms.values()),
            "unit": "runs",
            "target": 0,
            "better": "lower",
            "at": at,
            "causes": alarms,
        }
    ]
    runs = 10
    for fault in FAULTS:
        found = sorted(delays(fault, runs))
        rows.append(
            {
                "name": f"{fault} found, median delay",
                "value": round(median(found)) if found else None,
                "unit": "s",
                "target": None,
                "better": "lower",
                "at": at,
                "found": f"{len(found)} of {runs}",
                "delays_s": [round(one) for one in found],
            }
        )
    return rows


if __name__ == "__main__":
    print(json.dumps(measure(float(sys.argv[1]) if len(sys.argv) > 1 else 200.0), indent=1))  # noqa: T201
