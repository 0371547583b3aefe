"""Whether a run may begin as it is meant to: never over a checkpoint that it does not know of. Pure."""

from supervisor.model.begin import Begin, Lying
from supervisor.model.errors import Fault, InvalidInput
from supervisor.model.spec import Spec

NOT_TOLD = frozenset({"auto", "scratch"})
"""Recipes by which the program is told nothing: it finds its checkpoint itself, or may begin anew."""


def objection(spec: Spec, begin: Begin, lying: Lying) -> InvalidInput | None:
    """Why the first attempt must not begin; None: it may.

    A checkpoint older than the run asks a person: to go on from it and to begin anew beside it are both right at
    times, and both wrong at others. With `auto` the program finds it itself, as the spec says, and writes over
    nothing; `scratch` is leave to begin anew. Neither asks.
    """
    if begin.checkpoint is not None and begin.fresh:
        return _no("--fresh", "stands beside --from", "begin anew, or from a checkpoint: give one of them")
    if begin.checkpoint is not None:
        return _from(spec, begin.checkpoint, lying)
    newest = lying.found[-1] if lying.found else None
    if begin.fresh and spec.resume == "auto" and newest is not None:
        return _no(
            "--fresh",
            f"cannot be kept: with `resume: auto` the program finds {newest.path} itself",
            "move the checkpoints away, or name another `checkpoint.path`",
        )
    if begin.fresh or spec.resume in NOT_TOLD or newest is None:
        return None
    remedy = "Begin anew and leave it alone: --fresh (?fresh=true)."
    if spec.resume is not None:
        remedy = f"Go on from it: --from {newest.path} (?from=…). {remedy}"
    return InvalidInput(
        f"{newest.path} is older than the run: made before it, step {newest.step}. Which way to begin is yours to say.",
        remedy=remedy,
    )


def said(spec: Spec, begin: Begin, lying: Lying) -> str | None:
    """How it begins, for the consent; None: without a checkpoint, and none lies there."""
    newest = lying.found[-1] if lying.found else None
    if lying.asked is not None:
        return f"{lying.asked.path}, as you say"
    if newest is None:
        return None
    there = f"{newest.path} (step {newest.step}) lies there"
    if begin.fresh:
        return f"anew, as you say; {there} and is left alone"
    if spec.resume == "auto":
        return f"where the program finds itself; {there}"
    return f"anew; {there}"


def _from(spec: Spec, asked: str, lying: Lying) -> InvalidInput | None:
    if spec.resume is None:
        return _no("--from", "the spec has no `resume`", "say how the program is told: resume: --resume {checkpoint}")
    if spec.resume in NOT_TOLD:
        return _no("--from", f"with `resume: {spec.resume}` the program is told of no checkpoint", "leave it away")
    if lying.asked is None or not lying.asked.exists:
        return _no("--from", f"{lying.asked.path if lying.asked else asked} is not there", "name one that is", asked)
    if not lying.asked.whole:
        last = spec.checkpoint.complete if spec.checkpoint else None
        return _no("--from", f"{lying.asked.path} is not whole: {last} is missing", "name one that is", asked)
    return None


def _no(place: str, detail: str, remedy: str, value: str | None = None) -> InvalidInput:
    fault = Fault(place=place, detail=detail, remedy=remedy)
    if value is not None:
        fault["value"] = value
    return InvalidInput("The run cannot begin so.", faults=[fault])
