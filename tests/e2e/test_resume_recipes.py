"""Each way to tell a program where to go on; the arguments and the configuration key are proved with real trainers."""

import sys
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon

PROGRAM = Path(__file__).parent / "programs" / "recipes.py"
RECIPES: dict[str, tuple[Any, list[str], str, int | None]] = {
    "env": ({"env": "FROM"}, [], "finished", 9),
    "auto": ("auto", ["--auto"], "finished", 9),
    "scratch": ("scratch", [], "finished", 1),
    # Told to go on from step 8, it begins anew: stopped before its next save (law 3).
    "not-read": ({"env": "NOT_READ"}, [], "failed", 1),
    # No recipe: once it has made progress it is not started again.
    "none": (None, [], "held", None),
}
"""Recipe, the program's flags, how the run ends, and the second attempt's first step."""


def test_a_recipe_leads_above_the_checkpoint_or_the_attempt_is_stopped(daemon: Daemon, local_place: Place) -> None:
    knob = {"key": "env.SMALL", "set": "1", "relieves": ["host_memory"]}
    for name, (recipe, flags, _, _) in RECIPES.items():
        folder = local_place.workdir / name
        folder.mkdir()
        command = [sys.executable, str(PROGRAM), *flags]
        daemon.post("runs", local_place.spec(name, command=command, resume=recipe, knobs=[knob], workdir=str(folder)))
    for name, (_, _, state, first_step) in RECIPES.items():
        run = daemon.ended(name)
        assert run["state"] == state, run
        assert run["attempts"][0]["last_step"] == 9
        assert [attempt["first_step"] for attempt in run["attempts"][1:]] == ([first_step] if first_step else [])
        assert (local_place.workdir / name / "out" / "step_8" / "done.json").exists()
    assert daemon.run("not-read")["attempts"][1]["outcome"]["cause"] == "resume_failed"
