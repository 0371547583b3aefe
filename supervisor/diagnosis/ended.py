"""Why an attempt ended: one answer, and the other roots that stood beside it."""

from dataclasses import replace

from supervisor.diagnosis.ending import (
    PERSON_SIGNALS,
    Ending,
    announced,
    ending_of,
    killed_by_memory,
    launcher_signal,
    person_key,
)
from supervisor.diagnosis.hardware import blind_fault, xid_fault
from supervisor.diagnosis.progress import reached_total
from supervisor.diagnosis.roots import answer_of
from supervisor.diagnosis.state import Hit, short
from supervisor.diagnosis.view import Answer, View, evidence_of, sensor
from supervisor.model.causes import Retry, cause
from supervisor.model.noun import from_unix
from supervisor.model.observation import ExitRecord
from supervisor.model.verdict import Evidence, RuledOut

LOOK_BACK_STEPS = 50
"""A sibling may print steps while another rank's exception already stands in the log."""
SSH_CODE = 255
"""ssh's own status: it says nothing about what ran behind it."""
CRASHES = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"})
_NOT_STARTED = {
    "command_not_found": "command_not_found",
    "workdir": "setup_failed",
    "setup": "setup_failed",
    "secret": "setup_failed",
    "refused": "unknown",
}


def judge_end(view: View, record: ExitRecord) -> list[Answer]:
    """The answers for a recorded end, the one that counts first."""
    if record.failure is not None:
        detail = record.failure_detail or record.failure
        return [Answer(_NOT_STARTED[record.failure], detail, "proved", (sensor(detail),))]
    ending = ending_of(record)
    if ending.code is None and ending.signal is None:
        return judge_unknown_end(view, record) if record.unknown_why else judge_silent_end(view)
    if ending.code == SSH_CODE and "ssh" in view.seen.blind:
        return [Answer("ssh_lost", evidence=(sensor(view.seen.blind["ssh"]),))]
    by_hand = _by_hand(view, record, ending)
    if ending.code == view.spec.completion.exit_code and ending.signal is None:
        return _judge_success(view, record, ending, by_hand)
    if _completed_before_noise(view):
        return [_finished(view, f"{ending.words} came after its work was complete")]
    if by_hand is not None:
        return [by_hand, *_roots(view)]
    return judge_failure(view, record, ending)


def judge_silent_end(view: View) -> list[Answer]:
    """No status was recorded: what the text proves, else that nobody knows."""
    if view.hits("done") or view.state.done_metrics:
        return [_finished(view, "no status was recorded")]
    roots = _roots(view) if any(hit.traceback for hit in view.hits("root")) else []
    return [*roots, judge_loss(view)] if not started_anew(view) else [judge_loss(view), *roots]


def judge_unknown_end(view: View, record: ExitRecord) -> list[Answer]:
    """Its end was seen and its status is nobody's to know (an adopted session): the text decides, if anything does."""
    if _completed_before_noise(view):
        return [_finished(view, record.unknown_why or "")]
    if view.hit("sigkill") or view.hit("killed-word"):
        return judge_failure(view, record, Ending(None, "SIGKILL"))
    answers = judge_failure(view, record, Ending(None, None))
    if answers[0].cause == "unknown":
        return [replace(answers[0], why=f"{record.unknown_why}.")]
    return answers


def judge_loss(view: View) -> Answer:
    """Nothing of the attempt lives and there is no status."""
    proof = killed_by_memory(None, None, view.state, view.kernel, view.context.words)
    evidence = (sensor(proof),) if proof else ()
    if started_anew(view):
        return Answer(
            "host_rebooted", confidence="proved", evidence=(sensor("another boot, or another first process"),)
        )
    if view.hit("tmux-gone") is not None:
        evidence = (evidence_of(view.hit("tmux-gone") or view.state.open[0]), *evidence)
    return Answer("session_lost", confidence="proved", evidence=evidence)


def started_anew(view: View) -> bool:
    """The node, or its container, is not the one of the launch any more."""
    context, seen = view.context, view.seen
    other_boot = context.boot_id is not None and seen.boot_id is not None and context.boot_id != seen.boot_id
    other_first = (
        context.pid1_start_ticks is not None
        and seen.pid1_start_ticks is not None
        and context.pid1_start_ticks != seen.pid1_start_ticks
    )
    return other_boot or other_first


def judge_failure(view: View, record: ExitRecord | None, ending: Ending) -> list[Answer]:
    """The answers for an end that is no success, the one that counts first."""
    roots = _roots(view)
    proof = killed_by_memory(record, ending, view.state, view.kernel, view.context.words)
    if proof is not None and not _is_earlier(roots, view):
        return [Answer("host_oom", proof, "proved", _evidence_of_kill(view, proof)), *roots]
    hardware = _hardware(view, roots)
    if hardware is not None:
        return [hardware, *(root for root in roots if root.cause != hardware.cause)]
    if roots:
        return roots
    by_signal = _by_signal(view, record, ending)
    if by_signal is not None:
        return [by_signal]
    return [_without_root(view, record, ending)]


def _by_hand(view: View, record: ExitRecord, ending: Ending) -> Answer | None:
    """A stop that Vigil announced, or a person's key."""
    key = person_key(record, view.state.log.offset)
    if announced(record, view.context.stop_announced):
        return Answer(
            "terminated", "Vigil stopped it, as announced.", "proved", (sensor(ending.words),), retry=Retry.NONE
        )
    if key is not None:
        name = "Ctrl-C" if key.byte == 3 else "Ctrl-\\"
        return Answer(
            "stopped_by_person",
            f"{name} was typed in its terminal{f' ({key.tty})' if key.tty else ''}, {_clock(key.at_unix_s)}"
            f"; then {ending.words}.",
            "proved",
            (sensor(f"{name} at offset {key.offset}, then {ending.words}"),),
        )
    return None


def _judge_success(view: View, record: ExitRecord, ending: Ending, by_hand: Answer | None) -> list[Answer]:
    complete = _is_complete(view)
    if complete is True:
        return [_finished(view, ending.words)]
    if by_hand is not None:
        return [by_hand]
    proof = killed_by_memory(record, ending, view.state, view.kernel, view.context.words)
    if proof is not None:
        return [Answer("host_oom", proof, "proved", _evidence_of_kill(view, proof))]
    uncaught = [hit for hit in view.hits("root") if hit.traceback]
    if uncaught:
        # A pipe or a wrapper hid the status: the text decides.
        return _roots(view)
    if complete is None:
        return [_finished(view, ending.words)]
    progress = _progress_words(view)
    return [Answer("exit_without_completion", progress, "likely", (sensor(f"{ending.words}, {progress}"),))]


def _is_complete(view: View) -> bool | None:
    """Whether the work is complete; None where nothing tells and the status is to be believed."""
    state, marker = view.state, view.spec.completion.marker
    if marker != "auto":
        return "marker" in state.counts
    told = state.done_metrics or bool(view.hits("done"))
    before = any(name in state.counts for name in ("complete", "final-artefact")) and "batch-finder" not in state.counts
    if told or before or "stopped-early" in state.counts:
        return True
    reached = reached_total(state)
    if reached is False:
        return False
    return True if reached else None


def _completed_before_noise(view: View) -> bool:
    done = view.hits("done")
    if not done and not view.state.done_metrics:
        return False
    first = done[0].order if done else 0
    return not any(hit.role == "root" for hit in view.state.open if hit.order != first)


def _finished(view: View, status: str) -> Answer:
    done = view.hits("done")
    evidence = (evidence_of(done[0]),) if done else (sensor(status),)
    return Answer("finished", confidence="proved" if done or view.state.done_metrics else "likely", evidence=evidence)


def _roots(view: View) -> list[Answer]:
    """The open roots, the earliest first, each cause once."""
    answers: list[Answer] = []
    roots = view.hits("root")
    if not roots:
        roots = [
            hit
            for hit in view.state.past
            if hit.role == "root"
            and hit.traceback
            and view.state.progress_events - hit.steps <= LOOK_BACK_STEPS
            and (hit.writer is not None or view.state.trace.launcher)
        ]
    if not roots and view.state.failed_metrics is not None:
        return [Answer(view.state.failed_metrics, "", "likely", (sensor("the trainer's own `failed` event"),))]
    for hit in roots:
        answer = answer_of(hit, view)
        if answer is not None and answer.cause not in {other.cause for other in answers}:
            answers.append(answer)
    return answers


def _is_earlier(roots: list[Answer], view: View) -> bool:
    """A root of another kind stands before any sign of a kill: the kill came later, or belongs to another."""
    if not roots or roots[0].cause == "host_oom" or cause(roots[0].cause).family in ("distributed", "process"):
        return False
    kills = [hit.order for hit in view.state.open if hit.id in ("sigkill", "killed-word")]
    first = view.hits("root")[0].order if view.hits("root") else 0
    return not kills or first < min(kills)


def _evidence_of_kill(view: View, proof: str) -> tuple[Evidence, ...]:
    lines = [evidence_of(hit) for hit in view.state.open if hit.id in ("sigkill", "killed-word", "slurm-oom")]
    return (sensor(proof), *lines[:2])


def _hardware(view: View, roots: list[Answer]) -> Answer | None:
    fault = xid_fault(view.kernel)
    if fault is not None and (
        not roots or cause(roots[0].cause).family in ("hardware", "application", "gpu_memory", "distributed")
    ):
        if fault.cause == "illegal_memory_access" and roots and roots[0].cause != "illegal_memory_access":
            return None
        why = f"Xid {fault.number}" + (f", {fault.repeats} times on one device" if fault.repeats > 1 else "") + "."
        return Answer(fault.cause, why, "proved", (sensor(fault.text), *(roots[0].evidence if roots else ())))
    blind = blind_fault(view.seen.blind.get("gpu"))
    if blind is not None and blind.cause in ("gpu_lost", "gpu_reset_required") and roots:
        if cause(roots[0].cause).family in ("hardware", "application"):
            return Answer(blind.cause, "", "likely", (sensor(blind.text), *roots[0].evidence))
        return None
    if blind is not None and not roots and not view.hits("hint") and view.state.trace.first is None:
        return Answer(blind.cause, "", "likely", (sensor(blind.text),))
    return None


def _by_signal(view: View, record: ExitRecord | None, ending: Ending) -> Answer | None:
    """An end by a signal, or one that the launcher reports, that no root explains."""
    told = view.hit("got-signal")
    launcher = launcher_signal([told.text]) if told is not None else None
    name = ending.signal if ending.signal in PERSON_SIGNALS else launcher
    scheduler = view.hits("explains")
    evidence = tuple(evidence_of(hit) for hit in [*scheduler, *([told] if told else [])]) or (sensor(ending.words),)
    if scheduler:
        return Answer("terminated", f"{scheduler[0].text[:120]}", "proved", evidence)
    if (record is not None and record.hung_up and name == "SIGHUP") or launcher == "SIGHUP":
        return Answer("hangup", confidence="proved", evidence=evidence)
    if name in PERSON_SIGNALS:
        return Answer(
            "stopped_by_person",
            f"{name}{_at(record)}, which Vigil did not send and nothing explains; who sent it was not seen.",
            "likely",
            evidence,
            (RuledOut(cause="terminated", why="no scheduler, launcher or shutdown said anything"),),
        )
    interrupt = view.hit("keyboard-interrupt")
    if interrupt is not None:
        why = f"it ended with KeyboardInterrupt{_at(record)}; no key was seen in its terminal."
        return Answer("stopped_by_person", why, "likely", (evidence_of(interrupt),))
    if ending.signal == "SIGKILL":
        return _killed(view, ending)
    return None


def _at(record: ExitRecord | None) -> str:
    """When it ended, by the node's clock; empty where that was not recorded."""
    return f", {_clock(record.at_unix_s)}" if record is not None and record.at_unix_s is not None else ""


def _clock(unix_s: float) -> str:
    return f"{from_unix(unix_s):%H:%M:%S} UTC"


def _killed(view: View, ending: Ending) -> Answer:
    """SIGKILL without a proof; where only a word in the log says so, that is said."""
    hits = [hit for hit in view.state.open if hit.id in ("sigkill", "killed-word")]
    seen = ending.signal == "SIGKILL" and view.seen.exit is not None
    told = any(hit.id == "sigkill" for hit in hits)
    status = f"{ending.words}, and " if view.seen.exit is not None else ""
    why = status + ("no kernel line and no counter speaks of memory." if seen else "only the log speaks of a kill.")
    return Answer(
        "killed_unproven",
        why,
        "likely" if seen or told else "guess",
        evidence=tuple(evidence_of(hit) for hit in hits[:2]) or (sensor(ending.words),),
        ruled_out=(RuledOut(cause="host_oom", why="no kernel line and no counter says that it was for memory"),),
    )


def _without_root(view: View, record: ExitRecord | None, ending: Ending) -> Answer:
    trace, state = view.state.trace, view.state
    hints = [hit for hit in view.hits("hint") if _hint_counts(hit, view, ending)]
    fault = xid_fault(view.kernel)
    if fault is not None:
        return Answer(fault.cause, f"Xid {fault.number}.", "proved", (sensor(fault.text),))
    for hit in hints:
        if hit.cause == "killed_unproven":
            return _killed(view, ending)
        answer = answer_of(hit, view)
        if answer is not None:
            return answer
    if ending.code == 127:
        return Answer("command_not_found", "status 127.", "likely", (sensor(ending.words),))
    if ending.code == 126:
        return Answer("permission_denied", "status 126.", "likely", (sensor(ending.words),))
    refused = view.hit("error-line")
    if ending.code == 2 and (refused or any(text.lstrip().startswith("usage:") for text in state.recent)):
        return Answer("bad_arguments", "", "likely", (evidence_of(refused) if refused else sensor(ending.words),))
    if trace.first is not None:
        line, text = trace.first
        return Answer("exception", text, "likely", (Evidence(line=line, text=text),))
    held = view.sensors.held_by_others()
    if held is not None and held.share > 0.5 and not state.progress_events and ending.signal is None:
        return Answer(
            "gpu_oom_foreign",
            f"{held.share:.0%} of a device is held by something that is not this run.",
            "guess",
            (sensor(f"{held.amount_bytes / (1 << 30):.1f} GiB held while nothing of the run lives"),),
        )
    if trace.stray is not None:
        line, text = trace.stray
        return Answer("exception", text, "likely", (Evidence(line=line, text=text),))
    if ending.signal in CRASHES and not (ending.signal == "SIGABRT" and view.hits("fallout")):
        return Answer("segfault", ending.words, "likely", (sensor(ending.words),))
    last = (
        Evidence(line=state.last_line[0], text=short(state.last_line[1])) if state.last_line else sensor(ending.words)
    )
    return Answer("unknown", ending.words, "guess", (last,))


def _hint_counts(hit: Hit, view: View, ending: Ending) -> bool:
    if hit.id == "no-command":
        return ending.code in (126, 127, 2) and not view.state.progress_events
    if hit.id == "killed-word":
        return ending.code not in (0, None) or ending.signal is not None
    return True


def _progress_words(view: View) -> str:
    best = [counter for kind, counter in view.state.counters.items() if ":" not in kind and counter.total]
    if not best:
        return "its completion marker is missing."
    counter = best[0]
    return f"{counter.value:.0f} of {counter.total:.0f} done, no summary, no early stop."
