"""Silence: is it work, is it a hang, or do we only not see? Three witnesses, and the patience of the phase."""

from dataclasses import dataclass

from supervisor.diagnosis.memory import steps_made
from supervisor.diagnosis.sensors import Sensors
from supervisor.diagnosis.state import State
from supervisor.model.spec import Watch

LEAVING_S = 60.0
"""A process that said it is complete may take so long to leave."""
LIVELY_S = 120.0
"""Progress within this time needs no explanation."""
FLOOR_S = 1800.0
"""No silence is a hang before this: NCCL's own 600 s and the usual DDP time-out lie below it."""
STUCK_S = 900.0
"""In uninterruptible sleep, with nothing moving."""
SPIN_S = 1200.0
"""Every device spinning at small power: twice NCCL's own 600 s."""
GAPS = 10.0
"""Times the longest usual gap between two reports of progress."""
BUFFERED_S = 600.0
"""Devices at work for so long before any line of progress: it works and does not flush."""
SAVING_S = 3600.0
EVALUATING_S = 3600.0
ABANDONED_S = 300.0
"""An uncaught exception with no progress for so long after it ended the work, although something lives on."""
WORKERS = 8


@dataclass(frozen=True, slots=True)
class Silence:
    """What a lack of progress means."""

    cause: str
    why: str


def silence(state: State, sensors: Sensors, watch: Watch, now: float) -> Silence | None:
    """What the present lack of progress means; None where progress is as it should be."""
    if _is_done(state) and now - (state.last_output_at or now) > LEAVING_S:
        return Silence("done_not_exited", "it said that its work is complete, and has not left.")
    started = state.last_progress_at is not None
    since = state.last_progress_at or state.first_seen_at or now
    moved = max(since, state.last_moved_at or since)
    quiet, still = now - since, now - moved
    usual = usual_gap(state)
    if started and still <= max(LIVELY_S, 4 * usual):
        return None
    patience = deadline_s(state, watch)
    spinning = sensors.spinning()
    if spinning and all(spinning) and started and state.phase == "training":
        patience = min(patience, max(SPIN_S, GAPS * usual))
    overdue = still > patience
    if sensors.stuck() and still > min(patience, STUCK_S):
        return Silence("hang_io", f"processes are in uninterruptible sleep, no progress for {_span(quiet)}.")
    if sensors.working():
        if not started and quiet < BUFFERED_S:
            return None
        return Silence("output_buffered", f"no line of progress for {_span(quiet)}, the devices work near their power.")
    if not overdue:
        if started and still > max(LIVELY_S, 6 * usual):
            return Silence("slow_phase", f"no progress for {_span(quiet)}; patience ends after {_span(patience)}.")
        if not started and state.phase != "loading":
            return Silence("slow_phase", f"no step yet after {_span(quiet)}, phase {state.phase.replace('_', ' ')}.")
        return None
    if sensors.host_busy():
        return Silence("slow_phase", f"no progress for {_span(quiet)}, but processor or disk work.")
    if spinning and all(spinning):
        return Silence(
            "hang_collective", f"no progress for {_span(quiet)}; every device spins at a small part of its power."
        )
    if not sensors.devices_idle() and sensors.devices:
        return Silence("hang_unknown", f"no progress for {_span(quiet)}, the witnesses do not agree on the place.")
    if sensors.host_busy() is None and not sensors.devices:
        return Silence("slow_phase", f"no progress for {_span(quiet)}; neither host nor devices can be read.")
    return _idle(state, sensors, quiet)


def deadline_s(state: State, watch: Watch) -> float:
    """How long no counter may move before it counts as a hang, in this phase of this attempt."""
    if watch.stall != "auto":
        return watch.stall
    if state.last_progress_at is None:
        # The first step may follow compilation and loading, but nothing at all moves for this long in neither.
        halfway = any(":" in kind and counter.value < (counter.total or 0) for kind, counter in state.counters.items())
        # A bar of loading that stands still halfway is more telling than no bar at all.
        return min(watch.first_progress_s, FLOOR_S if halfway else max(FLOOR_S, 0.75 * watch.first_progress_s))
    patience = max(FLOOR_S, GAPS * usual_gap(state))
    if state.phase == "saving":
        return max(patience, SAVING_S)
    if state.phase == "evaluating":
        return max(patience, EVALUATING_S)
    return patience


def usual_gap(state: State) -> float:
    """The longest usual time between two reports of progress, in seconds."""
    seen = sorted(state.gaps_s)[-max(1, len(state.gaps_s) // 10) :] if state.gaps_s else []
    stride = max((counter.stride for kind, counter in state.counters.items() if ":" not in kind), default=0.0)
    told = max(state.series.seconds) * max(1.0, stride) if state.series.seconds else 0.0
    return max(seen[0] if seen else 0.0, told)


def abandoned(state: State, now: float) -> bool:
    """An uncaught root stands at the end of the log, and no progress has come since for long."""
    since = state.last_progress_at or state.first_seen_at
    roots = [hit for hit in state.open if hit.role == "root" and hit.traceback]
    if not roots or since is None:
        return False
    return now - since > max(ABANDONED_S, 20 * usual_gap(state))


def _idle(state: State, sensors: Sensors, quiet: float) -> Silence:
    if state.last_line is not None and _waits_for_lock(state):
        return Silence("hang_lock", f"idle for {_span(quiet)} at a lock whose owner does nothing.")
    if "thread-died" in {hit.id for hit in state.open}:
        return Silence("hang_worker_lost", f"idle for {_span(quiet)} since a thread or worker died.")
    processes = sensors.seen.processes
    sleeping = processes.states.get("S", 0) if processes else 0
    if steps_made(state) > 0 and sleeping >= WORKERS and sensors.devices_idle():
        return Silence("hang_dataloader", f"idle for {_span(quiet)}, {sleeping} processes asleep, devices idle.")
    return Silence("hang_unknown", f"idle for {_span(quiet)}: no processor, device or disk work.")


def _waits_for_lock(state: State) -> bool:
    locks = [hit for hit in state.open if hit.id == "lock-wait"]
    loaded = [hit for hit in state.open if hit.id == "extension-loaded"]
    if not locks:
        return False
    return not loaded or loaded[-1].last_order < locks[-1].last_order


def _is_done(state: State) -> bool:
    return state.done_metrics or any(hit.role == "done" for hit in state.open)


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
