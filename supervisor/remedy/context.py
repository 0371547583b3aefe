"""What remedy must know besides the run, its spec and the verdict. Control fills it from store and observations."""

from supervisor.model.code import Code
from supervisor.model.noun import Moment, Noun
from supervisor.model.observation import Checkpoint
from supervisor.model.run import Call


class RemedyContext(Noun):
    """Facts around one decision. The turns in force are those of the latest attempt, `Attempt.overrides`."""

    file_text: str | None = None
    """Text of the spec's `config.file` on the node; None: not read (or there is none)."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """The checkpoints known of, over all attempts, in any order; incomplete ones are passed over."""
    checkpoints_known: bool = True
    """The checkpoint folder could be looked at. False forbids to begin anew: there may be one that was not seen."""
    progress_made: bool = False
    """A step was completed, or a checkpoint written, in any attempt."""
    blind_for_s: float = 0.0
    """How long nothing was seen of the attempt just before its end was found."""
    request: Call | None = None
    """A call of a person that is accepted and not yet carried out: nothing is done beside it."""
    checkpoint_at_launch: dict[int, int | None] = {}
    """Attempt number to the step of the newest complete checkpoint when it was launched (None: there was none)."""
    checkpoint_seen_at: Moment | None = None
    """When the newest complete checkpoint was first seen whole; a change without failure waits for the next one."""
    code_now: Code | None = None
    """The code in the work folder at present, where it is known."""

    @property
    def whole(self) -> tuple[Checkpoint, ...]:
        """The complete checkpoints, newest last."""
        return tuple(sorted((each for each in self.checkpoints if each.complete), key=lambda each: each.step))

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest complete checkpoint."""
        return self.whole[-1] if self.whole else None
