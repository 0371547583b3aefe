"""How a run's first attempt begins, as a person chose it, and what lay in its checkpoint folder before."""

from supervisor.model.noun import Noun
from supervisor.model.observation import Checkpoint


class Begin(Noun):
    """A person's explicit choice at the submit; it travels beside the spec."""

    checkpoint: str | None = None
    """Begin from this checkpoint: a path on the node, relative to `workdir`."""
    fresh: bool = False
    """Begin anew, whatever lies in the checkpoint folder."""
    anyway: bool = False
    """Also where this very point was proven bad."""


UNSAID = Begin()
"""Nothing was chosen."""


class AskedCheckpoint(Noun):
    """The checkpoint that a person named, as the node has it."""

    path: str
    """Absolute."""
    exists: bool
    whole: bool = False
    """The file that is written last is there; where the spec names none: it exists."""
    step: int | None = None
    """From its name; None where the name holds none."""


class Lying(Noun):
    """What the node has before the first attempt."""

    found: tuple[Checkpoint, ...] | None = ()
    """Whole checkpoints in the spec's folder, oldest first; None: it cannot be looked at."""
    asked: AskedCheckpoint | None = None
