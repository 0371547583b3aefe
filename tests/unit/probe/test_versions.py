"""Which libraries a Python finds, from folders that look like real ones."""

import platform
import sys
from pathlib import Path

from supervisor.probe import versions
from supervisor.probe.processes import Stat
from supervisor.probe.versions import Interpreter

EXECUTABLE = str(Path(sys.executable).resolve())
MINOR = ".".join(platform.python_version_tuple()[:2])


def python(words: list[str], environ: dict[str, str] | None = None, torch_from: str | None = None) -> Interpreter:
    return Interpreter(EXECUTABLE, words, {"HOME": "/nowhere", **(environ or {})}, "/", torch_from)


def venv(place: Path, *distributions: str, shared: bool = False) -> Path:
    site = place / "lib" / f"python{MINOR}" / "site-packages"
    site.mkdir(parents=True)
    for name in distributions:
        (site / f"{name}.dist-info").mkdir()
    (place / "bin").mkdir()
    (place / "bin" / "python").symlink_to(EXECUTABLE)
    (place / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = {str(shared).lower()}\n")
    return place


def test_a_virtual_environment_is_found_by_its_path(tmp_path: Path) -> None:
    place = venv(tmp_path / "v", "torch-2.4.1+cu124", "transformers-4.44.0", "nvidia_nccl_cu12-2.20.5", "pip-24.0")
    (place / "lib" / f"python{MINOR}" / "site-packages" / "torch").mkdir()
    (place / "lib" / f"python{MINOR}" / "site-packages" / "torch" / "version.py").write_text(
        "__version__ = '2.4.1+cu124'\ndebug = False\ncuda: Optional[str] = '12.4'\n"
    )
    assert versions.versions_of(python([f"{place}/bin/python", "train.py"])) == {
        "python": platform.python_version(),
        "torch": "2.4.1+cu124",
        "cuda": "12.4",
        "transformers": "4.44.0",
        "nccl": "2.20.5",
    }


def test_one_by_path_and_one_by_variable(tmp_path: Path) -> None:
    place = venv(tmp_path / "v", "torch-2.1.0")
    by_path = python(["python", "x.py"], {"PATH": f"/nowhere:{place}/bin"})
    by_variable = python([""], {"VIRTUAL_ENV": str(place)})
    for one in (by_path, by_variable):
        assert versions.versions_of(one)["torch"] == "2.1.0"


def test_a_foreign_variable_does_not_count(tmp_path: Path) -> None:
    place = venv(tmp_path / "v", "torch-9.9.9")
    assert versions.prefix_of(python([EXECUTABLE], {"VIRTUAL_ENV": str(place)})) != str(place)


def test_what_is_loaded_comes_first(tmp_path: Path) -> None:
    place = venv(tmp_path / "v", "torch-2.1.0")
    loaded = tmp_path / "loaded"
    (loaded / "torch-2.5.0.dist-info").mkdir(parents=True)
    assert versions.versions_of(python([f"{place}/bin/python"], torch_from=str(loaded)))["torch"] == "2.5.0"


def test_absence_is_told_only_where_one_could_look(tmp_path: Path) -> None:
    place = venv(tmp_path / "v", "numpy-1.26.4")
    found = versions.versions_of(python([f"{place}/bin/python"]))
    assert (found["torch"], found["transformers"], found["numpy"]) == (None, None, "1.26.4")
    gone = Interpreter("/nowhere/bin/python3.11", ["python"], {}, "/nowhere", None)
    assert versions.versions_of(gone) == {"python": "3.11"}


def test_who_runs_no_python_is_looked_at_no_more_after_the_last_look(tmp_path: Path) -> None:
    looks: list[int] = []

    def living() -> list[Stat]:
        looks.append(1)
        return []

    versions.Seeker(str(tmp_path), {}, living, looks_s=(0.0, 0.0)).seek()
    assert versions.found(str(tmp_path)) == {"versions": {}, "settled": True}
    assert len(looks) == 2


def test_what_is_still_being_set_up_is_not_settled(tmp_path: Path) -> None:
    versions.Seeker(str(tmp_path), {"setup": "make"}, list, looks_s=(0.0,)).seek()
    assert versions.found(str(tmp_path)) is None
    (tmp_path / "setup").touch()
    versions.Seeker(str(tmp_path), {"setup": "make"}, list, looks_s=(0.0,)).seek()
    assert versions.found(str(tmp_path)) == {"versions": {}, "settled": True}
