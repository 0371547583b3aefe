"""Specs, runs and verdicts for the tests of remedy, with only what a test says differently."""

from datetime import UTC, datetime, timedelta
from typing import Any

from supervisor.model.causes import catalogue
from supervisor.model.observation import Checkpoint
from supervisor.model.reading import parse_spec
from supervisor.model.run import Attempt, Correction, LinkView, Outcome, Run, RunState, Turn
from supervisor.model.spec import Spec
from supervisor.model.verdict import Verdict
from supervisor.remedy.configuration import resolve
from supervisor.remedy.context import RemedyContext

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHUNK = {"key": "config.attention.sdpa_chunk", "step": "halve", "min": 16, "relieves": ["gpu_oom", "host_alloc_failed"]}
BATCH = {
    "key": "args.--batch",
    "step": "halve",
    "min": 1,
    "with": "args.--accum",
    "keep": "args.--batch * args.--accum",
    "relieves": ["gpu_memory"],
}


def spec(**changes: Any) -> Spec:
    """A run with a rendered configuration, two knobs, checkpoints and a way to resume."""
    return parse_spec(
        {
            "name": "vit",
            "node": "local",
            "command": "python train.py --config {config} --batch 7 --accum 3",
            "config": {"format": "toml", "values": {"attention": {"sdpa_chunk": 128}, "lr": 1e-4}},
            "checkpoint": {"path": "out"},
            "resume": "--resume {checkpoint}",
            "knobs": [CHUNK, BATCH],
            **changes,
        }
    )


def attempt(of: Spec, no: int = 1, *, cause: str | None = None, **changes: Any) -> Attempt:
    """An attempt as control writes it down after a launch, ended where a cause is given."""
    overrides = changes.pop("overrides", {})
    resolved = resolve(of, overrides, file_text=changes.pop("file_text", None), attempt_no=no)
    ended = NOW - timedelta(hours=1) if cause else None
    return Attempt(
        **{
            "no": no,
            "state": "ended" if cause else "running",
            "by": "anna" if no == 1 else "vigil",
            "started_at": NOW - timedelta(hours=2),
            "ended_at": ended,
            "config": resolved.values,
            "env": resolved.env,
            "command": resolved.command,
            "overrides": overrides,
            "outcome": Outcome(cause=cause, retry=catalogue()[cause].retry) if cause else None,
            "last_step": 9,
            **changes,
        }
    )


def corrected(key: str, before: Any, after: Any) -> Correction:
    """A correction of one turn."""
    return Correction(turns=(Turn(key=key, from_=before, to=after),), reason="test")


def run(*attempts: Attempt, **changes: Any) -> Run:
    """A run that is wanted and whose node is seen."""
    return Run(
        **{
            "id": "0",
            "name": "vit",
            "node": "local",
            "desired": "running",
            "state": RunState.RUNNING,
            "link": LinkView(ok=True),
            "attempts": attempts,
            "created_at": NOW - timedelta(days=1),
            "updated_at": NOW,
            **changes,
        }
    )


def verdict(cause: str, **changes: Any) -> Verdict:
    """A final, proved verdict."""
    return Verdict(
        **{
            "cause": cause,
            "retry": catalogue()[cause].retry,
            "since": NOW - timedelta(hours=1),
            "sentence": f"It ended with {cause}.",
            "confidence": "proved",
            "final": True,
            **changes,
        }
    )


def context(*steps: int, **changes: Any) -> RemedyContext:
    """Complete checkpoints at these steps, progress made."""
    checkpoints = tuple(Checkpoint(step=step, path=f"/out/step_{step}", complete=True) for step in steps)
    return RemedyContext(**{"checkpoints": checkpoints, "progress_made": True, **changes})
