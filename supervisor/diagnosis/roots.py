"""From a matched root or hint to the cause that its circumstances make of it."""

from supervisor.diagnosis.memory import Kind, kind_of_library, kind_of_oom
from supervisor.diagnosis.state import Hit
from supervisor.diagnosis.view import Answer, View, evidence_of, sensor
from supervisor.model.verdict import Evidence

GIB = float(1 << 30)
FRAMES_BEFORE = 40
"""How many lines above an errno its frames may stand."""


def answer_of(hit: Hit, view: View) -> Answer:
    """The answer that the hit amounts to."""
    if hit.id in ("cublas-status", "cudnn-status", "nvml-assert"):
        return _from_kind(hit, kind_of_library(hit, view.state, view.sensors))
    if hit.cause == "gpu_oom":
        return _from_kind(hit, kind_of_oom(_with_sizes(hit, view), view.state, view.sensors))
    if hit.id == "engine-preflight":
        return _preflight(hit, view)
    if hit.id in ("rendezvous-timeout", "store-barrier"):
        return barrier_answer(hit, view) or _plain(hit)
    if hit.id == "no-space":
        return _no_space(hit, view)
    if hit.cause == "driver_unavailable" and view.sensors.mismatch:
        return _plain(hit, "driver_mismatch", also=sensor(view.seen.blind["gpu"]))
    if hit.id == "io" and (space := view.hit("no-space")) is not None and space.order - hit.order <= FRAMES_BEFORE:
        return _no_space(space, view)
    if hit.id == "io" and "few-bytes-left" in view.state.counts:
        return _plain(hit, "disk_full", "the log itself says how little is left.")
    return _plain(hit)


def barrier_answer(hit: Hit, view: View) -> Answer | None:
    """More workers than the world has is never a slow peer: stale keys, or launched twice."""
    world, workers = hit.figures.get("world_size"), hit.figures.get("worker_count")
    if world is None or workers is None or workers <= world:
        return None
    why = f"{workers:.0f} workers counted where there are {world:.0f}."
    stale = "file-store" in view.state.counts
    return _plain(hit, "rendezvous_stale" if stale else "rendezvous_misconfigured", why)


def _with_sizes(hit: Hit, view: View) -> Hit:
    """A bare message beside one that tells sizes (`what()` and its detail lines, an allocator's own line)."""
    if hit.figures:
        return hit
    for other in view.state.open:
        if other.cause == "gpu_oom" and other.figures and abs(other.order - hit.order) <= FRAMES_BEFORE:
            hit.figures = dict(other.figures)
            break
    return hit


def _preflight(hit: Hit, view: View) -> Answer:
    held = hit.figures.get("held_bytes", 0.0)
    why = f"{held / GIB:.1f} GiB are held before the start."
    return _plain(hit, "gpu_oom_foreign" if held > GIB or view.sensors.held_by_others() else "gpu_oom_cap", why)


def _no_space(hit: Hit, view: View) -> Answer:
    frame = view.hit("semaphore-frame")
    if frame is not None and abs(hit.order - frame.last_order) <= FRAMES_BEFORE:
        return _plain(hit, "shm_full", also=evidence_of(frame))
    if "inodes-full" in view.state.counts:
        return _plain(hit, "inodes_exhausted")
    return _plain(hit)


def _from_kind(hit: Hit, kind: Kind) -> Answer:
    return Answer(
        cause=kind.cause,
        why=kind.why,
        confidence="proved" if kind.sure else "likely",
        evidence=(evidence_of(hit), sensor(kind.why)),
        ruled_out=kind.ruled_out,
        figures=_figures(hit),
    )


def _plain(hit: Hit, cause: str | None = None, why: str = "", also: Evidence | None = None) -> Answer:
    name = cause or hit.cause or "unknown"
    evidence = (evidence_of(hit), *((also,) if also else ()))
    return Answer(
        name, why or _told(hit), "likely" if hit.role == "hint" else "proved", evidence, figures=_figures(hit)
    )


def _told(hit: Hit) -> str:
    asked = hit.figures.get("asked_bytes")
    if hit.cause == "host_alloc_failed" and asked:
        return f"{asked / GIB:.2f} GiB were asked in one piece."
    if hit.cause == "compile_oom" and hit.figures.get("ratio"):
        return f"It needs {hit.figures['ratio']:.2f} times what there is."
    if hit.cause in ("exception", "segfault"):
        return hit.text[:160]
    return ""


def _figures(hit: Hit) -> dict[str, float | int | str | None]:
    figures: dict[str, float | int | str | None] = {
        name: round(value) if name.endswith("_bytes") or value.is_integer() else value
        for name, value in hit.figures.items()
    }
    if hit.count > 1:
        figures["lines"] = hit.count
    return figures
