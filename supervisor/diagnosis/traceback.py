"""Tracebacks in the log, however they are prefixed, and lone lines that have an exception's form."""

import re

from supervisor.diagnosis.state import State, short

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


def follow_traceback(state: State, number: int | None, text: str, fallout: bool) -> bool:
    """Follow a traceback; True where the line belongs to one. `fallout`: the line only follows another failure."""
    trace = state.trace
    if "Traceback" in text and (head := _TRACEBACK.search(text)) is not None:
        trace.open = True
        trace.functions = []
        trace.prefix = shape_of(text[: head.start()]) if head.start() <= MAX_PREFIX_CHARS else ""
        return True
    frame = _FRAME.match(text) if "File " in text or ".py:" in text else None
    if frame is not None:
        if not trace.open:
            # The head scrolled away or stands in another writer's line.
            trace.open, trace.functions = True, []
        trace.functions = [*trace.functions, (frame["function"] or frame["boxed"] or "")[:40]][-24:]
        return True
    if not trace.open:
        if trace.stray is None and not fallout and looks_uncaught(text) and not _LAUNCHERS.search(text):
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


def shape_of(prefix: str) -> str:
    """A prefix with its numbers made alike: clocks go on."""
    return _DIGIT.sub("0", prefix)


def looks_uncaught(text: str) -> bool:
    """The line has the form of an exception that nobody caught."""
    return ": " in text[:160] and _UNCAUGHT.match(text) is not None
