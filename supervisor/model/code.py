"""The code that an attempt runs, and how the code of two attempts differs. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from supervisor.model.noun import Noun

DELETED = "deleted"
"""In place of a content's hash."""
_SHOWN = 5


class Code(Noun):
    """The code that an attempt ran. What is None or empty was not seen, or is not there; `why` says which."""

    head: str | None = None
    """The commit of the work folder's git repository; None: no repository, or it could not be read."""
    dirty: str | None = None
    """Hash of the uncommitted difference; None: clean or no repository."""
    branch: str | None = None
    """None: none is checked out."""
    tree: str | None = None
    """The commit's content: two commits may hold the same."""
    files: dict[str, str] = {}
    """Files that git knows and that differ from `head` (staged or not): path below the repository to content hash."""
    untracked: dict[str, str] = {}
    """Source files below the work folder that git does not know: path to content hash."""
    scripts: dict[str, str] = {}
    """Files of the work folder that the command names: path below it to content hash; also without a repository."""
    since: str | None = None
    """The commit of the attempt before, where `moved` tells what lies between."""
    moved: dict[str, tuple[str | None, str | None]] = {}
    """What the commits from `since` to `head` changed: path to content hash before and after."""
    cut: bool = False
    """There is more than these lists hold."""
    why: str | None = None
    """What could not be seen, and why."""


UNSEEN = Code()
"""Nothing was told of it so far: what was looked at and could not be seen says `why`."""


class CodeChange(Noun):
    """How the code of one attempt differs from another's."""

    changed: bool = False
    files: tuple[str, ...] = ()
    """Which files, sorted, as far as their names are known."""
    heads: tuple[str, str] | None = None
    """Both commits, where they differ."""

    @property
    def shown(self) -> str:
        """In a few words: `train.py, model.py (3f2c… -> 9d1e…)`; empty where nothing changed."""
        if not self.changed:
            return ""
        more = f" and {len(self.files) - _SHOWN} more" if len(self.files) > _SHOWN else ""
        names = ", ".join(self.files[:_SHOWN]) + more
        heads = f"{self.heads[0][:10]} -> {self.heads[1][:10]}" if self.heads else ""
        if names and heads:
            return f"{names} ({heads})"
        return names or heads or "uncommitted changes"


def changes(then: Code, now: Code) -> CodeChange:
    """What changed from `then` to `now`, by content: to commit what had been tried is no change.

    What one side does not know counts as the same, and so does a new file that git does not know: nothing that had
    run before can have needed it.
    """
    names = {name for name, content in then.scripts.items() if now.scripts.get(name, content) != content}
    if then.head is None or now.head is None:
        return CodeChange(changed=bool(names), files=tuple(sorted(names)))
    heads = (then.head, now.head) if then.head != now.head else None
    moved = now.moved if heads and now.since == then.head else {}
    explained = heads is None or now.since == then.head or (then.tree is not None and then.tree == now.tree)
    for name in {*moved, *then.files, *now.files, *then.untracked}:
        before, after = moved.get(name, (_AS_COMMITTED, _AS_COMMITTED))
        before = then.files.get(name, then.untracked.get(name, before))
        gone = DELETED if name in then.untracked else _AS_COMMITTED
        after = now.files.get(name, now.untracked.get(name, after if name in moved else gone))
        if (before or DELETED) != (after or DELETED):
            names.add(name)
    if explained and _whole(then) and _whole(now):
        changed = bool(names)
    else:
        changed = bool(names) or not explained or then.dirty != now.dirty
    return CodeChange(changed=changed, files=tuple(sorted(names)), heads=heads if changed else None)


def changes_over(codes: Sequence[Code]) -> CodeChange:
    """What changed from the first of these to the last, by way of all between them: the codes of consecutive attempts.

    For a comparison of two attempts of a run give it both and all that lie between. Where both ends know their commit,
    one between them that does not is passed over.
    """
    by_commit = bool(codes and codes[0].head and codes[-1].head)
    steps = [changes(then, now) for then, now in pairwise(one for one in codes if one.head or not by_commit)]
    if not any(step.changed for step in steps):
        return CodeChange()
    first, last = codes[0].head, codes[-1].head
    return CodeChange(
        changed=True,
        files=tuple(sorted({name for step in steps for name in step.files})),
        heads=(first, last) if first and last and first != last else None,
    )


_AS_COMMITTED = "as committed"


def _whole(code: Code) -> bool:
    """Its lists hold all that differs from its commit."""
    return not code.cut and (code.dirty is not None) == bool(code.files or code.untracked)
