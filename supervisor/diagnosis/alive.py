"""How an attempt stands that has not ended: one answer, the most urgent first."""

from collections.abc import Callable

from supervisor.diagnosis import memory, numerics, stall
from supervisor.diagnosis.hardware import blind_fault, xid_fault
from supervisor.diagnosis.progress import RANKS
from supervisor.diagnosis.roots import answer_of, barrier_answer
from supervisor.diagnosis.state import short
from supervisor.diagnosis.view import Answer, View, evidence_of, sensor
from supervisor.model.causes import Retry, cause
from supervisor.model.verdict import Evidence

STALE_SENSOR_S = 600.0
"""A device read that names a lost device counts when progress has stopped for so long."""
RECENT_EVENTS = 400
"""Progress events for which a caught out-of-memory is still told."""
RANKS_WAIT_LINES = 5
"""Of the warning that comes each minute."""
CPU_STEPS = 3
DOWN_WORDS = (
    "not running",
    "stopped",
    "get init pid",
    "get pid for ct",
    "does not exist",
    "no such container",
    "_down",
)
STARVED_UTIL = 15.0
STARVED_POWER = 0.35
STARVED_STEPS = 20
STARVED_CPU_PERCENT = 80.0
STARVED_READ_BPS = 50e6


def judge_life(view: View) -> list[Answer]:
    """The answers for a living attempt, the one that counts first; `healthy` or `starting` where nothing else is."""
    answers: list[Answer] = []
    for detector in DETECTORS:
        answer = detector(view)
        if answer is not None and answer.cause not in {other.cause for other in answers}:
            answers.append(answer)
    return answers or [_plain(view)]


def resume_failure(view: View) -> Answer | None:
    """The first completed step does not lie above the checkpoint that it resumed from."""
    resumed = view.context.resumed_from
    if resumed is None:
        return None
    for kind in RANKS[:4]:
        counter = view.state.counters.get(kind)
        if counter is None or counter.first is None:
            continue
        if kind == "bar" and (counter.total is None or counter.total != view.state.total_told):
            continue  # a bar may begin anew with each epoch; only one over the announced total counts the run's steps
        # Logs often count from 0, so there the checkpoint's own number may be the next step.
        fell_back = counter.first < resumed if kind == "step" else counter.first <= resumed
        if fell_back:
            why = f"the checkpoint is of step {resumed}, the first step after it was {counter.first:.0f}."
            return Answer("resume_failed", why, "proved", (sensor(why),))
        return None
    return None


def _blind_container(view: View) -> Answer | None:
    text = view.seen.blind.get("container", "")
    lowered = text.lower()
    if "locked" in lowered:
        return None if stall_of(view) is None else Answer("container_locked", evidence=(sensor(text),))
    if any(word in lowered for word in DOWN_WORDS):
        return Answer("container_down", confidence="proved", evidence=(sensor(text),))
    return None


def _blind_link(view: View) -> Answer | None:
    text = view.seen.blind.get("ssh")
    return Answer("ssh_lost", confidence="proved", evidence=(sensor(text),)) if text is not None else None


def _barrier(view: View) -> Answer | None:
    hit = view.hit("store-barrier")
    return barrier_answer(hit, view) if hit is not None and hit.count >= 2 else None


def _device_lost(view: View) -> Answer | None:
    fault = blind_fault(view.seen.blind.get("gpu"))
    if fault is None or fault.cause not in ("gpu_lost", "gpu_reset_required"):
        fault = xid_fault(view.kernel)
    if fault is None or cause(fault.cause).retry != Retry.HOST:
        return None
    since = view.state.last_progress_at or view.state.first_seen_at or view.now
    if not view.seen.log.drained or view.now - since < max(STALE_SENSOR_S, 10 * stall.usual_gap(view.state)):
        return None
    return Answer(fault.cause, confidence="proved", evidence=(sensor(fault.text),))


def _ranks_wait(view: View) -> Answer | None:
    """Horovod says itself that some ranks wait for the others, again and again."""
    hit = view.hit("ranks-wait")
    if hit is None or hit.count < RANKS_WAIT_LINES or view.sensors.working():
        return None
    return Answer("hang_collective", "some ranks wait for the others.", "likely", (evidence_of(hit),))


def _diverged(view: View) -> Answer | None:
    why = numerics.not_finite(view.state)
    return Answer("loss_nan", why, "proved", (_last(view), sensor(why))) if why else None


def _scale_floor(view: View) -> Answer | None:
    why = numerics.scale_at_floor(view.state.open, view.state.series)
    return Answer("loss_scale_floor", why, "proved", (_last(view), sensor(why))) if why else None


def _root_and_silence(view: View) -> Answer | None:
    """An uncaught root stands at the end of the log and nothing goes on: no status will ever come."""
    roots = [hit for hit in view.hits("root") if hit.role == "root"]
    if not roots:
        return None
    if not view.seen.log.drained:
        return None
    silence = stall_of(view)
    over = stall.abandoned(view.state, view.now) or (silence is not None and silence.cause.startswith("hang_"))
    if not over or view.sensors.working():
        return None
    return answer_of(roots[0], view)


def _silence(view: View) -> Answer | None:
    found = stall_of(view)
    if found is None:
        return None
    return Answer(found.cause, found.why, "likely", (_last(view), sensor(found.why)))


def _cpu_only(view: View) -> Answer | None:
    devices = view.sensors.devices
    if "cpu-fallback" not in view.state.counts or not devices or view.state.progress_events < CPU_STEPS:
        return None
    untouched = all(
        (device.used_bytes.max or 0) < 0.02 * (device.total_bytes or 1) or (device.util_percent.last or 0) == 0
        for device in devices
    )
    idle = all((device.util_percent.last or 0) < 1 for device in devices)
    if not (untouched and idle):
        return None
    why = "a warning at the start, steps since, and the devices untouched."
    return Answer("no_gpu_used", why, "likely", (sensor(why),))


def _handled(view: View) -> Answer | None:
    state = view.state
    for hit in reversed([*state.past, *state.open]):
        recent = state.progress_events - hit.steps <= RECENT_EVENTS
        caught = hit.role == "handled" or (
            hit in state.past
            and not hit.traceback
            and hit.cause is not None
            and cause(hit.cause).family == "gpu_memory"
        )
        if caught and recent and (state.progress_events or hit.role == "handled"):
            return Answer("oom_handled", "", "likely", (evidence_of(hit),))
    return None


def _leak(view: View) -> Answer | None:
    return _state("memory_leak", memory.leak(view.state))


def _churn(view: View) -> Answer | None:
    return _state("memory_churn", memory.churn(view.state, view.sensors))


def _pressure(view: View) -> Answer | None:
    return _state("memory_pressure", memory.pressure(view.state, view.sensors))


def _starved(view: View) -> Answer | None:
    return _state("data_starved", numerics.starved(view.state.series))


def _fed_slowly(view: View) -> Answer | None:
    """Steps come, the devices nap, and processors or disks run flat out."""
    host, devices = view.seen.host, view.sensors.own_devices
    known = [device for device in devices if device.util_percent.last is not None and device.power_w.last is not None]
    if host is None or not known or memory.steps_made(view.state) < STARVED_STEPS:
        return None
    napping = all(
        (device.util_percent.last or 0) < STARVED_UTIL
        and (device.power_w.last or 0) < STARVED_POWER * (device.power_limit_w or 1e9)
        for device in known
    )
    feeding = (host.cpu_percent or 0) >= STARVED_CPU_PERCENT or (host.disk_read_bps or 0) >= STARVED_READ_BPS
    return (
        _state("data_starved", "the devices nap while processors or disks run flat out.")
        if napping and feeding
        else None
    )


def _throttled(view: View) -> Answer | None:
    return _state("gpu_throttled", "the log says so.") if view.hit("throttled") is not None else None


def _slower(view: View) -> Answer | None:
    return _state("throughput_drop", numerics.slower(view.state.series))


def _recompiles(view: View) -> Answer | None:
    count = view.state.counts.get("recompile", 0)
    if count < numerics.RECOMPILE_HITS:
        return None
    return _state("recompile_storm", f"the limit of recompilations was hit {count} times.")


def _spike(view: View) -> Answer | None:
    return _state("loss_spike", numerics.spike(view.state))


def _overflow(view: View) -> Answer | None:
    hit = view.hit("scale-reduced")
    return Answer("overflow_benign", evidence=(evidence_of(hit),)) if hit is not None else None


DETECTORS: tuple[Callable[[View], Answer | None], ...] = (
    _blind_container,
    _blind_link,
    resume_failure,
    _barrier,
    _device_lost,
    _ranks_wait,
    _diverged,
    _scale_floor,
    _root_and_silence,
    _silence,
    _cpu_only,
    _handled,
    _leak,
    _churn,
    _pressure,
    _starved,
    _slower,
    _recompiles,
    _spike,
    _overflow,
    _fed_slowly,
    _throttled,
)
"""In this order the first answer counts; the others stand beside it."""


def stall_of(view: View) -> stall.Silence | None:
    """What the present silence means; while older bytes are still to be fetched there is none."""
    if not view.seen.log.drained:
        return None
    return stall.silence(view.state, view.sensors, view.spec.watch, view.now)


def _state(name: str, why: str | None) -> Answer | None:
    return Answer(name, why, "likely", (sensor(why),)) if why else None


def _plain(view: View) -> Answer:
    if view.state.last_progress_at is None:
        return Answer("starting", evidence=(_last(view),) if view.state.last_line else ())
    return Answer("healthy")


def _last(view: View) -> Evidence:
    line = view.state.last_line
    return Evidence(line=line[0], text=short(line[1])) if line is not None else sensor("no line yet")
