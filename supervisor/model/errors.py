"""One tree of errors. An error carries facts: what, where, which value, what to do about it."""

from collections.abc import Sequence
from typing import ClassVar, TypedDict


class Fault(TypedDict, total=False):
    """One thing that is wrong in an input."""

    place: str
    """Where: the dotted path of the key, or a line of the text."""
    value: str
    """What stood there, shortened."""
    detail: str
    """What is wrong with it."""
    remedy: str
    """What to write instead."""


class VigilError(Exception):
    """Vigil could not do what was asked."""

    code: ClassVar[str] = "error"
    """Stable word for programs; the last part of the problem's type."""
    status: ClassVar[int] = 500
    """HTTP status."""
    exit_code: ClassVar[int] = 1
    """What `vigil` ends with."""
    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later without a change."""

    def __init__(self, detail: str = "", *, remedy: str = "", faults: Sequence[Fault] = ()) -> None:
        """`detail` defaults to the class's own sentence; `remedy` says what to do about it."""
        self.detail = detail or (type(self).__doc__ or "").splitlines()[0]
        self.remedy = remedy
        self.faults = list(faults)
        super().__init__(self.detail)

    def __str__(self) -> str:
        """The sentence, its remedy, then each fault on a line of its own."""
        lines = [self.detail + (f" {self.remedy}" if self.remedy else "")]
        for fault in self.faults:
            parts = [fault.get("place", ""), fault.get("detail", ""), fault.get("remedy", "")]
            lines.append("  " + ": ".join(part for part in parts if part))
        return "\n".join(lines)


class InvalidInput(VigilError):  # noqa: N818 - reads as what it is
    """The input is not valid."""

    code = "invalid_input"
    status = 422
    exit_code = 2


class TooLarge(InvalidInput):
    """The input is too large."""

    code = "too_large"
    status = 413


class NotFound(VigilError):  # noqa: N818
    """There is no such thing."""

    code = "not_found"
    status = 404
    exit_code = 3


class Conflict(VigilError):  # noqa: N818
    """The present state does not allow this."""

    code = "conflict"
    status = 409
    exit_code = 4


class Unauthorized(VigilError):  # noqa: N818
    """A valid token is needed."""

    code = "unauthorized"
    status = 401


class Forbidden(VigilError):  # noqa: N818
    """This token may not do that."""

    code = "forbidden"
    status = 403


class Unavailable(VigilError):  # noqa: N818
    """Vigil cannot do this at present."""

    code = "unavailable"
    status = 503
    retryable = True


class StoreBusy(Unavailable):
    """The store cannot be written at present."""

    code = "store_unavailable"


class SecretsLocked(Unavailable):
    """Stored secrets cannot be opened."""

    code = "secrets_locked"
    retryable = False


class NodeUnreachable(Unavailable):
    """The node cannot be reached; this says nothing about its runs."""

    code = "node_unreachable"
    status = 502


class HostKeyUnknown(NodeUnreachable):
    """The node's host key is not known."""

    code = "host_key_unknown"
    retryable = False


class HostKeyChanged(NodeUnreachable):
    """The node shows another host key than the one that is known."""

    code = "host_key_changed"
    retryable = False


class LoginRefused(NodeUnreachable):
    """The node refused the login."""

    code = "login_refused"
    retryable = False


class NodeUnfit(VigilError):  # noqa: N818
    """Something that Vigil needs is missing on the node."""

    code = "node_unfit"
    status = 424


class CallRefused(VigilError):  # noqa: N818
    """The probe refused the call."""

    code = "call_refused"
    status = 409
    exit_code = 4


class StaleToken(CallRefused):
    """A newer claim holds this run on the node."""

    code = "stale_token"


class ContainerDown(NodeUnreachable):
    """The container is not running."""

    code = "container_down"
