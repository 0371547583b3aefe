"""Take the lines of an observation into the state."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from supervisor.diagnosis.figures import figures_of, oom_figures
from supervisor.diagnosis.metrics import take_event
from supervisor.diagnosis.progress import is_skipped, note_total, own_reader, read, take
from supervisor.diagnosis.readings import NOT_TOLD, SPARSE_AFTER, names_not_finite, push, take_loss
from supervisor.diagnosis.signatures import Library, Signature
from supervisor.diagnosis.state import MAX_OPEN_HITS, MAX_PAST_HITS, Hit, State, short
from supervisor.diagnosis.text import Line, split_prefix

RECENT_LINES = 6
BATCH_LINES = 256
SPARSE = 8
SPARSER_AFTER = 2048
SPARSER = 32
SAME_HEAD = 5
MAX_PASSED_CHARS = 640
MAX_LINE_CHARS = 400
MAX_PREFIX_CHARS = 120
"""Of what a logger or launcher may put before each line of a traceback."""
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
_DIGIT = re.compile(r"\d")
_FRAME = re.compile(
    r'^\s{0,12}File ".{0,300}", line \d{1,9}, in (?P<function>\S{1,80})|^\S{1,200}\.py:\d{1,9} in (?P<boxed>\S{1,80})'
)
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w{0,60}\.){0,12}[A-Z_]\w{0,80}(?:: .*|\s{0,8})$")
_UNCAUGHT = re.compile(r"[\w.]{0,120}(?:Error|Exception): ")
_LAUNCHERS = re.compile(
    r"ChildFailedError|CalledProcessError|SignalException|ProcessExitedException|ProcessRaisedException|RayTaskError"
    r"|ActorDiedError|SystemExit|_?queue\.Empty|^Empty\b|CancelledError|EngineDeadError"
    r"|Engine core initialization failed"
)
_EVALUATION = re.compile(
    r"^_?(?:evaluate\w*|evaluation\w*|validate\w*|validation\w*|eval|eval_\w+|run_eval\w*|test_step|predict\w*|prediction\w*"
    r"|log_validation|generate|model_eval)$"
)
_CAPTURE = re.compile(r"^_?(?:capture\w*|cuda_?graph\w*|graph_capture)$")
_ECHO = re.compile(
    r"""^\s{0,20}(?:--)?[a-z_][a-z0-9_.\-]{0,60}\s{0,8}[:=]\s{0,4}[\[{"']"""
    r"""|^Namespace\(|^\s{0,8}\[?'[^']{0,80}python[^']{0,20}', '"""
)
_PID = re.compile(r"\bpid[ =:]{1,4}(?P<pid>\d{2,7})\b")
_BANNER = re.compile(r"(?i)\battempt \d{1,4}\b.{0,80}(?:resum|start)|^={1,20} run \S{1,60} .{0,80}attempt")
_BAR = re.compile(
    r"[^|]{0,160}%\|[^|]{0,400}\| {0,3}[\d.]{1,16}[kKMG]?/[\d.]{1,16}[kKMG]? \[[^\]]{1,300}\](?=[^\s\],])"
)
"""A bar with something glued to it."""
_HF_RUNNING = "***** Running training *****"


def fold_log(state: State, lines: Iterable[Line], library: Library, own: str | None, at: float) -> None:
    """Take the log's lines, in order; `at` is when they were seen (unix seconds)."""
    read_own = own_reader(own) if own else None
    following = _apart(lines)
    while batch := list(islice(following, BATCH_LINES)):
        texts = [split_prefix(line.text) for line in batch]
        speaking = library.speaking([text for _, text in texts])
        head, most = _passing(state, read_own)
        passed: str | None = None
        for index, (line, (writer, text)) in enumerate(zip(batch, texts, strict=True)):
            state.order += 1
            if (
                text[:SAME_HEAD] == head
                and state.passed < most
                and index not in speaking
                and not names_not_finite(text)
            ):
                state.passed += 1
                passed = text
                continue
            if passed is not None:
                state.passed_line, passed = (passed[:MAX_PASSED_CHARS], at), None
            if text and not text.isspace():
                _fold_line(state, line.number, writer, text, library if index in speaking else None, read_own, at)
                head, most = _passing(state, read_own)
        if passed is not None:
            state.passed_line = (passed[:MAX_PASSED_CHARS], at)


def fold_metrics(state: State, lines: Iterable[Line], at: float) -> None:
    """Take the metrics file's lines, in order."""
    for line in lines:
        if take_event(state, line.text, at):
            progressed(state, at)


def _apart(lines: Iterable[Line]) -> Iterator[Line]:
    """A message that was printed behind a bar is a line of its own."""
    for line in lines:
        text = line.text
        if "%|" in text and not text.endswith("]") and (bar := _BAR.match(text)) is not None:
            yield Line(text[: bar.end()], line.number)
            yield Line(text[bar.end() :], line.number)
        else:
            yield line


def _fold_line(
    state: State,
    number: int | None,
    writer: str | None,
    text: str,
    library: Library | None,
    read_own: object,
    at: float,
) -> None:
    """`library` is None where a fast look found nothing in the line that any signature or traceback asks for."""
    if state.trace.prefix and state.trace.open and _shape(text[: len(state.trace.prefix)]) == state.trace.prefix:
        # What stands before the traceback's head stands before each of its lines, whoever puts it there.
        text = text[len(state.trace.prefix) :]
        if not text:
            return
    if library is None and not state.trace.open:
        if text[:SAME_HEAD] == state.progress_line[:SAME_HEAD]:
            state.passed_line = None  # what comes now tells more than what was passed over
        read_passed(state)
        if not _fold_progress(state, text, read_own, at):
            _plain_line(state, number, text)
        return
    read_passed(state)
    moved = "%|" in text and _fold_progress(state, text, read_own, at)
    found = library.match(text, state.recent) if library is not None and not _ECHO.search(text) else []
    for signature in found:
        _take_signature(state, signature, number, writer, text, at)
    if _trace(state, number, text, any(signature.role == "fallout" for signature in found)):
        state.last_line = (number, text[:MAX_LINE_CHARS])
    elif moved or (
        not any(signature.role in ("root", "hint", "handled") for signature in found)
        and not is_skipped(text)
        and _fold_progress(state, text, read_own, at)
    ):
        if not found:
            return
    else:
        _continue_figures(state, text)
        _plain_line(state, number, text)
        return
    state.recent = [*state.recent, text[:MAX_LINE_CHARS]][-RECENT_LINES:]


def read_passed(state: State) -> None:
    """Read the line of progress that was passed over last: it stands before whatever comes now."""
    if state.passed_line is not None:
        text, at = state.passed_line
        state.passed_line = None
        _fold_progress(state, text, None, at)


def _passing(state: State, read_own: object) -> tuple[str | None, int]:
    """How a line begins that may be passed over, and how many of them: a long log repeats itself, and every eighth or
    so tells enough."""
    if read_own is not None or state.open or state.trace.open or state.progress_events <= SPARSE_AFTER:
        return None, 0
    most = SPARSE if state.progress_events <= SPARSER_AFTER else SPARSER
    return state.progress_line[:SAME_HEAD] or None, most - 1


def _plain_line(state: State, number: int | None, text: str) -> None:
    state.last_line = (number, text[:MAX_LINE_CHARS])
    state.recent = [*state.recent, text[:MAX_LINE_CHARS]][-RECENT_LINES:]
    _notes(state, text)


def _fold_progress(state: State, text: str, read_own: object, at: float) -> bool:
    """Whether the line is one of progress, moved or not."""
    if callable(read_own):
        answer = read_own(text)
        if answer is not None:
            reading, loss = answer
            if take(state, reading, text, at):
                if loss is not None and (not state.series.losses or state.series.losses[-1] != loss):
                    push(state.series.losses, loss, 64)
                    push(state.series.norms, NOT_TOLD, 64)
                progressed(state, at)
            return True
    reading = read(text, state.reader)
    if reading is None:
        if "loss" in text and text.lstrip().startswith("{"):
            return take_loss(state.series, text[:640])
        return False
    state.reader = reading.reader
    lines_since, state.passed = state.passed + 1, 0
    if "metrics" in state.counters and reading.kind != "own":
        # The metrics file counts; the log's lines are signs of life only.
        state.last_moved_at = at
        return True
    if take(state, reading, text, at, lines_since):
        progressed(state, at)
    return True


def progressed(state: State, at: float) -> None:
    """Completed progress: whatever stood open was survived."""
    if state.last_progress_at is not None and at > state.last_progress_at:
        push(state.gaps_s, at - state.last_progress_at, 64)
    state.last_progress_at = at
    state.last_moved_at = at
    if state.open:
        survived = [hit for hit in state.open if hit.role in ("root", "handled")]
        known = {hit.id for hit in survived}
        state.past = [*(hit for hit in state.past if hit.id not in known), *survived][-MAX_PAST_HITS:]
        state.open = []
    state.trace.first = state.trace.last = state.trace.stray = None
    state.trace.launcher = False


def _take_signature(
    state: State, signature: Signature, number: int | None, writer: str | None, text: str, at: float
) -> None:
    if signature.not_after and any(hit.role == signature.not_after for hit in state.open):
        return
    state.counts[signature.id] = state.counts.get(signature.id, 0) + 1
    if signature.role == "phase":
        state.phase = signature.phase or state.phase
        return
    if signature.dismisses:
        state.open = [
            hit for hit in state.open if hit.id not in signature.dismisses or state.order - hit.last_order > 8
        ]
    if signature.clears:
        state.open = [hit for hit in state.open if hit.role != signature.clears]
    figures = figures_of(signature.figures, text)
    if "scale_after" in figures:
        push(state.series.scales, figures["scale_after"], 64)
    for hit in state.open:
        if hit.id == signature.id:
            hit.count += 1
            hit.last_order = state.order
            return
    hit = Hit(
        id=signature.id,
        role=signature.role,
        cause=signature.cause,
        order=state.order,
        line=number,
        text=short(text),
        writer=writer[:40] if writer else None,
        last_order=state.order,
        traceback=state.trace.open or _looks_uncaught(text),
        evaluating=state.phase == "evaluating" or any(map(_EVALUATION.match, state.trace.functions)),
        capturing=any(map(_CAPTURE.match, state.trace.functions)),
        steps=state.progress_events,
        figures=figures,
    )
    if len(state.open) < MAX_OPEN_HITS:
        state.open.append(hit)
    elif signature.role in ("root", "done"):
        index = next((i for i, other in enumerate(state.open) if other.role not in ("root", "done")), None)
        if index is not None:
            del state.open[index]
            state.open.append(hit)


def _shape(prefix: str) -> str:
    """A prefix with its numbers made alike: clocks go on."""
    return _DIGIT.sub("0", prefix)


def _looks_uncaught(text: str) -> bool:
    return (": " in text[:160]) and _UNCAUGHT.match(text) is not None


def _trace(state: State, number: int | None, text: str, fallout: bool) -> bool:
    """Follow a traceback; True where the line belongs to one. `fallout`: the line only follows another failure."""
    trace = state.trace
    if "Traceback" in text and (head := _TRACEBACK.search(text)) is not None:
        trace.open = True
        trace.functions = []
        trace.prefix = _shape(text[: head.start()]) if head.start() <= MAX_PREFIX_CHARS else ""
        return True
    frame = _FRAME.match(text) if "File " in text or ".py:" in text else None
    if frame is not None:
        if not trace.open:
            # The head scrolled away or stands in another writer's line.
            trace.open, trace.functions = True, []
        trace.functions = [*trace.functions, (frame["function"] or frame["boxed"] or "")[:40]][-24:]
        return True
    if not trace.open:
        if trace.stray is None and not fallout and _looks_uncaught(text) and not _LAUNCHERS.search(text):
            trace.stray = (number, short(text))
        return False
    if text[:1].isspace() or text[:1] in "│❱╰╭^~":
        return True
    match = _EXCEPTION.match(text)
    if match is None:
        # Another writer's line, or words after the end.
        return False
    trace.open = False
    trace.exceptions += 1
    entry = (number, short(text))
    if fallout or _LAUNCHERS.search(text):
        trace.launcher = True
    elif trace.first is None:
        trace.first = entry
    trace.last = entry
    return True


def _continue_figures(state: State, text: str) -> None:
    """Some messages tell their figures in the lines below."""
    if not text.startswith("- ") or not state.open:
        return
    hit = state.open[-1]
    if hit.cause == "gpu_oom" and state.order - hit.last_order <= 4:
        hit.figures = oom_figures(text) | hit.figures


def _notes(state: State, text: str) -> None:
    note_total(state, text)
    if _HF_RUNNING in text:
        state.counts["training-begins"] = state.counts.get("training-begins", 0) + 1
    if "ttempt" in text and _BANNER.search(text):
        state.open, state.past = [], []
        state.trace.first = state.trace.last = state.trace.stray = None
    if "pid" in text and len(state.pids) < 64:
        for match in _PID.finditer(text):
            pid = int(match["pid"])
            if pid not in state.pids and len(state.pids) < 64:
                state.pids.append(pid)
