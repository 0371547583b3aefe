"""What Vigil may do for a cause: the spec's word, the most specific first, else the documented defaults."""

from typing import NamedTuple

from supervisor.model.causes import Cause, Retry, cause
from supervisor.model.spec import Action, Spec

UNPROVEN = frozenset(
    {
        "killed_unproven",
        "session_lost",
        "host_rebooted",
        "unknown",
        "terminated",
        "hangup",
        "exit_without_completion",
        "peer_lost",
        "teardown",
    }
)
"""Ends whose reason nobody has proved: a person looks first."""


class Permission(NamedTuple):
    """An action, and whose word it is."""

    action: Action
    by: str
    """`policy.gpu_oom`, `policy.default`, or `the default`."""
    explicit: bool
    """The spec says it."""


def permission(spec: Spec, cause_id: str, *, correctable: bool) -> Permission:
    """What the run's policy allows for the cause.

    `correctable`: a live knob (or, for a damaged checkpoint, the one before) would answer it.
    """
    row = cause(cause_id)
    for key in (cause_id, row.family, str(row.retry), "default"):
        if key in spec.policy:
            return Permission(spec.policy[key], f"policy.{key}", explicit=True)
    return Permission(_default(row, correctable=correctable), "the default", explicit=False)


def _default(row: Cause, *, correctable: bool) -> Action:
    if row.retry is Retry.NONE:
        return "shadow" if row.role == "state" else "alert"
    if row.role == "state" or row.role == "fallout" or row.id in UNPROVEN:
        return "alert"
    match row.retry:
        case Retry.CORRECTED:
            return "restart" if correctable else "alert"
        case Retry.WAIT | Retry.UNCHANGED:
            return "restart"
        case _:
            return "alert"
