"""Take the lines of an observation into the state."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from supervisor.diagnosis.figures import figures_of, oom_figures
from supervisor.diagnosis.metrics import take_event
from supervisor.diagnosis.progress import countable, is_skipped, note_total, own_reader, read, take
from supervisor.diagnosis.readings import NOT_TOLD, SPARSE_AFTER, names_not_finite, push, take_loss
from supervisor.diagnosis.signatures import Library, Signature
from supervisor.diagnosis.state import MAX_OPEN_HITS, MAX_PAST_HITS, Hit, State, short
from supervisor.diagnosis.text import Line, split_prefix
from supervisor.diagnosis.told import TOLD_WORDS, note_told
from supervisor.diagnosis.traceback import follow_traceback, looks_uncaught, shape_of

RECENT_LINES = 6
BATCH_LINES = 256
SPARSE = 8
SPARSER_AFTER = 2048
SPARSER = 32
SAME_HEAD = 5
MAX_PASSED_CHARS = 640
MAX_LINE_CHARS = 400
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
_NOTED_WORDS = (*TOLD_WORDS, "otal", "ttempt", "pid", "PID", "loss", "***** Running training")
"""What `_notes` and the readers without a counter look for: lines without any of them need no second look."""
_HF_RUNNING = "***** Running training *****"


def fold_log(state: State, lines: Iterable[Line], library: Library, own: str | None, at: float) -> None:
    """Take the log's lines, in order; `at` is when they were seen (unix seconds)."""
    read_own = own_reader(own) if own else None
    following = iter(lines)
    while batch := list(islice(following, BATCH_LINES)):
        if any("%|" in line.text for line in batch):
            batch = list(_apart(batch))
        _fold_batch(state, batch, library, read_own, at)


def fold_metrics(state: State, lines: Iterable[Line], at: float) -> None:
    """Take the metrics file's lines, in order."""
    for line in lines:
        if take_event(state, line.text, at):
            progressed(state, at)


def _fold_batch(state: State, batch: list[Line], library: Library, read_own: object, at: float) -> None:
    """Fold lines, most of which are passed over: progress that repeats itself, and lines that say nothing."""
    texts = [split_prefix(line.text) for line in batch]
    together = "\n".join([text for _, text in texts])
    encoded = together.encode("utf-8", "replace")
    speaking = library.speaking(encoded)
    marked = set(speaking)
    if names_not_finite(together):
        marked.update(index for index, (_, text) in enumerate(texts) if names_not_finite(text))
    heads = [text[:SAME_HEAD] for _, text in texts]
    telling = marked | _worth_reading(state, heads, texts, together, encoded)
    at_marks, at_words = _Ahead(marked, len(batch)), _Ahead(telling, len(batch))
    head, most = _passing(state, read_own)
    index = 0
    while index < len(batch):
        until = min(at_marks.next(index), index + most - state.passed)
        alike = _alike(heads, index, until, head) if head is not None else 0
        if alike:
            state.order += alike
            state.passed += alike
            index += alike
            state.passed_line = (texts[index - 1][1][:MAX_PASSED_CHARS], at)
            continue
        silent = at_words.next(index) - index if read_own is None and not state.trace.open else 0
        if silent:
            _pass_silent(state, batch, texts, index, index + silent)
            index += silent
            continue
        state.order += 1
        writer, text = texts[index]
        if text and not text.isspace():
            known = library if index in speaking else None
            _fold_line(state, batch[index].number, writer, text, known, read_own, at)
            head, most = _passing(state, read_own)
        index += 1


class _Ahead:
    """The next of some places, asked for in order."""

    def __init__(self, places: set[int], size: int) -> None:
        self._left = [size, *sorted(places, reverse=True)]

    def next(self, index: int) -> int:
        """The first place that is not before `index`; the size where none is left."""
        while len(self._left) > 1 and self._left[-1] < index:
            self._left.pop()
        return self._left[-1]


def _worth_reading(
    state: State, heads: list[str], texts: list[tuple[str | None, str]], together: str, encoded: bytes
) -> set[int]:
    """Lines that may hold a counter, or tell a total, an attempt, a process or a loss; where there are many of them,
    all lines: to tell them apart would cost more than to read them."""
    many = len(heads) // 4 + 1
    if heads.count(state.progress_line[:SAME_HEAD]) >= many:
        return set(range(len(heads)))
    found = countable(encoded, many)
    if len(found) >= many:
        return set(range(len(heads)))
    words = [word for word in _NOTED_WORDS if word in together]
    if words:
        found.update(index for index, (_, text) in enumerate(texts) if any(word in text for word in words))
    return found


def _pass_silent(state: State, batch: list[Line], texts: list[tuple[str | None, str]], start: int, end: int) -> None:
    """Lines in which nothing was found: the last of them are remembered."""
    state.order += end - start
    said = [index for index in range(max(start, end - 64), end) if texts[index][1] and not texts[index][1].isspace()]
    if not said:
        said = [index for index in range(start, end) if texts[index][1] and not texts[index][1].isspace()]
    if not said:
        return
    if texts[said[0]][1][:SAME_HEAD] == state.progress_line[:SAME_HEAD]:
        state.passed_line = None
    read_passed(state)
    last = said[-1]
    state.last_line = (batch[last].number, texts[last][1][:MAX_LINE_CHARS])
    lately = [texts[index][1][:MAX_LINE_CHARS] for index in said[-RECENT_LINES:]]
    state.recent = [*state.recent, *lately][-RECENT_LINES:]


def _alike(heads: list[str], start: int, until: int, head: str) -> int:
    """How many lines from `start` on begin with `head`, before `until`."""
    if until <= start or heads[start] != head:
        return 0
    if heads[start:until] == [head] * (until - start):
        return until - start
    return next(index for index in range(start, until) if heads[index] != head) - start


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
    note_told(state, text)
    if state.trace.prefix and state.trace.open and shape_of(text[: len(state.trace.prefix)]) == state.trace.prefix:
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
    if follow_traceback(state, number, text, any(signature.role == "fallout" for signature in found)):
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
        traceback=state.trace.open or looks_uncaught(text),
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
