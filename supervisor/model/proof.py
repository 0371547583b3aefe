"""A point that an attempt proved bad, kept for all runs of the daemon."""

from supervisor.model.code import Code
from supervisor.model.noun import Moment, Noun


class Proof(Noun):
    """One line of the ledger of the whole daemon."""

    id: int = 0
    """Given by the store."""
    point: str
    """Stands for the whole launch: configuration, environment, command, folder and devices."""
    code: Code = Code()
    run: str
    """The run's id; it may be gone."""
    name: str
    attempt: int
    cause: str
    at: Moment
    command: str = ""
    """As it was launched, for people."""

    @property
    def sentence(self) -> str:
        """Who proved it, and when."""
        when = f"{self.at:%Y-%m-%d %H:%M} UTC"
        return f"Attempt {self.attempt} of {self.name} proved this very point bad: {self.cause}, {when}."
