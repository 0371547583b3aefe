"""What the demo says while its run goes its way."""

from collections.abc import Callable, Sequence

from supervisor.cli.history import attempt_lines
from supervisor.cli.telling import sentence_of
from supervisor.model.event import Event, EventType
from supervisor.model.run import Run, RunState

_TOLD = frozenset(
    {
        EventType.ATTEMPT_LAUNCHED,
        EventType.ATTEMPT_FIRST_STEP,
        EventType.ATTEMPT_CHECKPOINT,
        EventType.ATTEMPT_ENDED,
        EventType.VERDICT_CHANGED,
        EventType.DECISION_TAKEN,
        EventType.LINK_LOST,
        EventType.LINK_BACK,
    }
)
"""The rest says the same again, in other words."""


class Story:
    """Tells every event once, and the step where it moved on."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """`say` prints one line."""
        self._say = say
        self._step: tuple[int, int | None] | None = None
        self._said: set[tuple[int | None, str]] = set()
        self.seq = 0
        """The number of the last event told."""

    def tell(self, events: Sequence[Event], run: Run) -> None:
        """What is new since the last call."""
        # What is written at one moment has no order; people like the end before its explanation.
        for event in sorted(events, key=lambda one: (one.at, one.type is not EventType.ATTEMPT_ENDED)):
            self.seq = max(self.seq, event.seq)
            words = sentence_of(event)
            # A verdict is told again once it is final, and a decision often shares its sentence.
            if event.type in _TOLD and words and (event.attempt, words) not in self._said:
                who = f"attempt {event.attempt}" if event.attempt else run.name
                self._say(f"{event.at.astimezone():%H:%M:%S}  {who}: {words}")
                self._said.add((event.attempt, words))
        self._tell_step(run)

    def end(self, run: Run) -> None:
        """How it came out, attempt by attempt."""
        self._say("")
        for attempt in run.attempts:
            for line in attempt_lines(attempt):
                self._say(line.plain)
                again = f" in {len(run.attempts)} attempts" if len(run.attempts) > 1 else ""
        if run.state is RunState.FINISHED:
            self._say(f"The run has finished{again}.")
            return
        self._say(f"The run is {run.state}{again}: {(run.reason or 'no reason was given').rstrip('.')}.")

    def _tell_step(self, run: Run) -> None:
        progress = run.progress
        if progress.step is None or not run.attempts or run.attempts[-1].first_step is None:
            return
        here = (run.attempts[-1].no, progress.step)
        if here == self._step:
            return
        self._step = here
        loss = f", loss {progress.loss:.3f}" if progress.loss is not None else ""
        self._say(f"          attempt {here[0]}: step {progress.step} of {progress.total_steps or '?'}{loss}")
