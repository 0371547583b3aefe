"""Leaving a node: what Vigil made there goes, as each user who had runs; what stays is said."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.control.nodes import Nodes
from supervisor.model.errors import InvalidInput, NodeUnfit, NodeUnreachable


@dataclass(frozen=True, slots=True)
class Leaving:
    """What became of a node's traces."""

    removed: tuple[str, ...]
    """Paths on the node that are gone."""
    stays: tuple[str, ...]
    """What is still there, in sentences."""


async def leave(nodes: Nodes, name: str, runs: Sequence[tuple[str, str | None]], *, anyway: bool) -> Leaving:
    """Clears the node of these runs (id, user) and of Vigil itself.

    CallRefused while anything of them lives; NodeUnreachable or NodeUnfit where the node cannot be asked, InvalidInput
    where its entry is faulty, unless `anyway`: then that part stays.
    """
    by_user: defaultdict[str | None, list[str]] = defaultdict(list, {None: []})
    for run, user in runs:
        by_user[user].append(run)
    removed: list[str] = []
    stays: list[str] = []
    shown = nodes.spec(name).shown
    for user, ids in by_user.items():
        who = f"{shown} as {user}" if user else shown
        try:
            gone, kept = await nodes.link(name, user).clear(ids)
        except (NodeUnreachable, NodeUnfit, InvalidInput) as error:
            if not anyway:
                raise type(error)(
                    f"{error.detail} Nothing was removed from the node's records.",
                    remedy=f"{error.remedy} To forget it all the same: vigil node rm {name} --anyway".strip(),
                ) from error
            stays.append(
                f"{who} could not be asked: there stay ~/.local/state/vigil and ~/.cache/vigil "
                f"(or those below XDG_STATE_HOME and XDG_CACHE_HOME), with the files of {len(ids)} runs"
            )
            continue
        removed += gone
        stays += [f"{who}: {path}" for path in kept]
    return Leaving(tuple(removed), tuple(stays))
