"""A secret by its name. Its value is in no noun: nothing that is shown, stored as JSON or sent could hold it."""

from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from supervisor.model.errors import InvalidInput
from supervisor.model.noun import Moment, Noun

MIN_VALUE_BYTES = 8
"""Less cannot be masked: it would turn half of a log into stars."""
MAX_VALUE_BYTES = 16 * 1024


def _not_ours(name: str) -> str:
    if name.startswith("VIGIL_"):
        raise ValueError("begins with VIGIL_, as the names of Vigil's own variables do")
    return name


SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"), AfterValidator(_not_ours)]
"""That of an environment variable."""


class SecretInfo(Noun):
    """What may be known of a secret."""

    name: SecretName
    set_at: Moment
    """When its value was set last."""
    set_by: str
    runs: tuple[str, ...] = ()
    """The runs, not finished, that are given it at their next launch."""


def check_value(name: str, value: str) -> None:
    """InvalidInput, which never holds the value, where it cannot be an environment variable or cannot be masked."""
    problem = _problem(value)
    if problem:
        raise InvalidInput(f"The value of {name} {problem[0]}.", remedy=problem[1])


def _problem(value: str) -> tuple[str, str] | None:
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        return "is no valid text", "Give it as UTF-8."
    if "\0" in value:
        return "holds a NUL byte, which no environment variable can", "Encode it, as base64 for example."
    if size < MIN_VALUE_BYTES:
        return (
            f"has {size} bytes; from {MIN_VALUE_BYTES} on a value can be masked",
            "What is no secret belongs into `env` of the spec.",
        )
    if size > MAX_VALUE_BYTES:
        return f"has {size} bytes; at most {MAX_VALUE_BYTES} are kept", "Put a large one into a file of the node."
    return None
