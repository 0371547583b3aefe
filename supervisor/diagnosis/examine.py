"""The fold: what one observation adds to what is known of an attempt, and the verdict that follows.

`examine(spec, state, observation, now, context=…)` is pure: the same values give the same answer. The state belongs to
one attempt; any cutting of the same log gives the same state. A newcomer reads this file, then `ended.py` (why did it
end) and `alive.py` (how does it stand).
"""

from dataclasses import dataclass
from datetime import datetime

import re2

from supervisor.diagnosis.alive import judge_life, resume_failure
from supervisor.diagnosis.ended import judge_end, judge_failure, judge_silent_end
from supervisor.diagnosis.ending import Ending
from supervisor.diagnosis.fold import fold_log, fold_metrics, read_passed
from supervisor.diagnosis.hardware import fold_kernel
from supervisor.diagnosis.progress import RANKS, leading, summary
from supervisor.diagnosis.sensors import SETTLED_S, Sensors, fold_devices
from supervisor.diagnosis.signatures import Library, library_with
from supervisor.diagnosis.state import Last, State, UnknownVersion, freeze, load, seal
from supervisor.diagnosis.text import Cursor, lines, lost, unfinished
from supervisor.diagnosis.view import Answer, AttemptContext, View, evidence_of
from supervisor.model.noun import from_unix
from supervisor.model.observation import Checkpoint, Observation, Slice
from supervisor.model.spec import Spec
from supervisor.model.verdict import Finding, Progress, Verdict

__all__ = ["AttemptContext", "Examination", "UnknownVersion", "examine"]
ALSO_LIMIT = 4
COMMAND_NOT_FOUND_CODE = 127


@dataclass(frozen=True, slots=True)
class Examination:
    """What is known of the attempt after the observation."""

    state: bytes
    """To be stored with the cursor, in one transaction."""
    findings: tuple[Finding, ...]
    verdict: Verdict
    progress: Progress
    first_step: int | None
    """The first completed step of this attempt."""
    last_step: int | None
    last_progress_at: datetime | None
    checkpoint: Checkpoint | None
    """The newest complete one that this observation shows."""
    phase: str
    told: dict[str, float]
    """Settings that the program told, by name."""


def examine(
    spec: Spec, state: bytes | None, observation: Observation, now: datetime, *, context: AttemptContext
) -> Examination:
    """Fold `observation` into `state` (None: the attempt's first); UnknownVersion asks to fold the stored log anew."""
    known, last = load(state)
    at = _run_time(known, observation)
    if known.launched_at is None:
        known.launched_at = observation.at_unix_s - (now - context.launched_at).total_seconds()
    _fold(known, spec, observation, context, at)
    frozen = freeze(known)
    view = _view(known, spec, observation, context, at)
    answers, final = _judge(view)
    verdict, findings = _verdict(answers, view, last, final=final)
    if not (observation.blind and verdict.model_dump_json() == last.verdict):
        last = Last(verdict.cause, verdict.since.timestamp(), verdict.model_dump_json(exclude={"also"}))
    first_step, last_step = _steps(view.state)
    return Examination(
        state=seal(frozen, last),
        findings=findings,
        verdict=verdict,
        progress=summary(view.state),
        first_step=first_step,
        last_step=last_step,
        last_progress_at=from_unix(view.state.last_progress_at) if view.state.last_progress_at is not None else None,
        checkpoint=_newest(observation),
        phase=view.state.phase,
        told=dict(view.state.told),
    )


def _run_time(state: State, seen: Observation) -> float:
    """The time of the observation; a jump of the node's wall clock is no time that passed."""
    at = seen.at_unix_s
    if seen.monotonic_s is None:
        return at
    if state.clock is not None and state.clock[2] == seen.boot_id and seen.monotonic_s >= state.clock[1]:
        at = state.clock[0] + seen.monotonic_s - state.clock[1]
    state.clock = (at, seen.monotonic_s, seen.boot_id)
    return at


def _fold(state: State, spec: Spec, seen: Observation, context: AttemptContext, at: float) -> None:
    """Take the observation into the state."""
    if state.first_seen_at is None:
        state.first_seen_at = min(at, context.launched_at.timestamp())
    known = library_with((*spec.signatures, *context.signatures))
    _fold_slice(state, spec, seen.log, context.columns, known, at)
    if seen.metrics is not None:
        _fold_metrics_slice(state, seen.metrics, at)
    fold_devices(state, seen)
    fold_kernel(state, seen.kernel, at)


def _fold_slice(state: State, spec: Spec, piece: Slice, columns: int | None, known: Library, at: float) -> None:
    data = _unseen(state.log, piece)
    if data:
        state.last_output_at = at
    if piece.offset > state.log.offset and data:
        fold_log(state, list(lost(state.log, piece.offset)), known, spec.progress, at)
    if data:
        marker = spec.completion.marker
        if marker != "auto":
            _look_for(state, marker, data)
        fold_log(state, lines(state.log, data, columns), known, spec.progress, at)
    if piece.next_offset > state.log.offset:
        fold_log(state, list(lost(state.log, piece.next_offset)), known, spec.progress, at)


def _fold_metrics_slice(state: State, piece: Slice, at: float) -> None:
    data = _unseen(state.metrics, piece)
    if piece.offset > state.metrics.offset and data:
        fold_metrics(state, list(lost(state.metrics, piece.offset)), at)
    if data:
        fold_metrics(state, lines(state.metrics, data), at)
    if piece.next_offset > state.metrics.offset:
        fold_metrics(state, list(lost(state.metrics, piece.next_offset)), at)


def _unseen(cursor: Cursor, piece: Slice) -> bytes:
    """The bytes of the piece that were not folded before; delivering a piece twice changes nothing."""
    return piece.data[max(0, cursor.offset - piece.offset) :]


def _view(state: State, spec: Spec, seen: Observation, context: AttemptContext, at: float) -> View:
    """What the judges see: the state as if the unfinished last line ended here. `state` is theirs from now on."""
    # An unfinished line that was there before is no new sign of life.
    printed_at = state.last_output_at if state.last_output_at is not None else at
    known = library_with((*spec.signatures, *context.signatures))
    fold_log(state, list(unfinished(state.log, context.columns)), known, spec.progress, printed_at)
    read_passed(state)
    fold_metrics(state, list(unfinished(state.metrics)), printed_at)
    ended_at = seen.exit.at_unix_s if seen.exit is not None else None
    settled = context.single_look or (ended_at is not None and seen.at_unix_s - ended_at >= SETTLED_S)
    sensors = Sensors(seen, settled=settled and seen.exit is not None, windows=1 if context.single_look else 99)
    return View(state, seen, sensors, context, spec, at)


def _judge(view: View) -> tuple[list[Answer], bool]:
    """The answers, the one that counts first, and whether they are final."""
    seen = view.seen
    read_to_end = seen.log.drained and (seen.metrics is None or seen.metrics.drained)
    gone = seen.processes is not None and seen.processes.alive == 0 and not seen.processes.wrapper_alive
    if seen.exit is not None:
        resumed = resume_failure(view)
        answers = judge_end(view, seen.exit)
        if resumed is not None and answers[0].cause not in ("stopped_by_person", "terminated"):
            answers = [resumed, *answers]
        return answers, read_to_end and (seen.log.closed or gone)
    if gone and (seen.started is True or not seen.attempt_known or seen.session in ("lost", "dead")):
        return judge_silent_end(view), read_to_end
    if view.context.only_text:
        return _judge_text(view), True
    return judge_life(view), False


def _judge_text(view: View) -> list[Answer]:
    """Nothing but a log: an uncaught root or exception at its end says that it ended."""
    roots, done = view.hits("root", "explains"), view.hits("done")
    if done and not any(hit.order > done[0].order for hit in roots):
        return [Answer("finished", evidence=(evidence_of(done[0]),))]
    if view.hit("sigkill") or view.hit("killed-word"):
        return judge_failure(view, None, Ending(None, "SIGKILL"))
    if view.hit("no-command") and not view.state.progress_events:
        return judge_failure(view, None, Ending(COMMAND_NOT_FOUND_CODE, None))
    told = view.hit("got-signal") or view.hit("native-crash") or view.state.trace.first
    return judge_failure(view, None, Ending(None, None)) if roots or told else judge_life(view)


def _verdict(answers: list[Answer], view: View, last: Last, *, final: bool) -> tuple[Verdict, tuple[Finding, ...]]:
    """The first answer as the verdict, every answer as a finding."""
    at, answer = view.now, answers[0]
    since = last.since if last.cause == answer.cause and last.since is not None else at
    findings = tuple(one.finding(since if one is answer else at) for one in answers)
    seen = view.seen
    nothing_seen = seen.exit is None and seen.processes is None and not seen.log.data
    if seen.blind and nothing_seen and last.verdict is not None and answer.cause != "container_down":
        # Blindness is no verdict of failure: what was known before stays until something is seen again.
        return Verdict.model_validate_json(last.verdict), findings
    return answer.verdict(since, findings[1 : 1 + ALSO_LIMIT], final=final), findings


def _steps(state: State) -> tuple[int | None, int | None]:
    for kind in RANKS:
        counter = state.counters.get(kind)
        if counter is not None and counter.first is not None:
            return int(counter.first), int(counter.value)
    found = leading(state)
    return (None, None) if found is None or found[1].first is None else (int(found[1].first), int(found[1].value))


def _newest(seen: Observation) -> Checkpoint | None:
    complete = [checkpoint for checkpoint in seen.checkpoints or () if checkpoint.complete]
    return max(complete, key=lambda checkpoint: (checkpoint.step, checkpoint.modified_unix_s or 0.0), default=None)


def _look_for(state: State, marker: str, data: bytes) -> None:
    """Look for the spec's own completion marker, also where it was cut."""
    text = (state.log.pending + data).decode("utf-8", "replace")
    if re2.search(re2.escape(marker), text):
        state.counts["marker"] = 1
