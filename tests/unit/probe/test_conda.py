"""Finding conda and its environments, in trees that look like theirs."""

from pathlib import Path

import pytest

from supervisor.probe import conda, folder, preamble
from supervisor.probe.unfit import Unfit


def tree(root: Path, *environments: str) -> Path:
    (root / "etc" / "profile.d").mkdir(parents=True)
    (root / "etc" / "profile.d" / "conda.sh").touch()
    (root / "conda-meta").mkdir()
    for name in environments:
        (root / "envs" / name / "conda-meta").mkdir(parents=True)
    return root


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setattr(folder, "home", lambda: str(place))
    monkeypatch.setattr(conda, "_HOMES", (str(tmp_path / "opt"),))
    monkeypatch.setattr(conda, "_SYSTEM_START_UP", ())
    return place


@pytest.mark.parametrize("flavour", ["miniconda3", "anaconda3", "miniforge3", "mambaforge"])
def test_the_usual_places(home: Path, flavour: str) -> None:
    root = tree(home / flavour, "vit")
    assert conda.activation("vit", "/w", "") == f". {root}/etc/profile.d/conda.sh && conda activate vit"


def test_below_opt(home: Path) -> None:
    root = tree(home.parent / "opt" / "conda", "vit")
    assert f"{root}/etc/profile.d/conda.sh" in conda.activation("vit", "/w", "")


def test_where_the_shells_start_up_says_it_lies_which_is_never_run(home: Path) -> None:
    root = tree(home.parent / "apps" / "my-conda", "vit")
    tree(home / "miniconda3", "other")
    (home / ".bashrc").write_text(
        "touch /tmp/never\n# . /old/bin/conda\n"
        f"__conda_setup=\"$('{root}/bin/conda' 'shell.bash' 'hook' 2> /dev/null)\"\n"
    )
    assert conda.installations("")[0].root == str(root)
    assert f"{root}/etc" in conda.activation("vit", "/w", "")
    assert "miniconda3" in conda.activation("other", "/w", "")


def test_by_path_and_base(home: Path) -> None:
    root = tree(home / "miniconda3")
    (home / "envs" / "a b" / "conda-meta").mkdir(parents=True)
    assert conda.activation("~/envs/a b", "/w", "").endswith(f"conda activate '{home}/envs/a b'")
    assert conda.activation("./a b", str(home / "envs"), "").endswith(f"conda activate '{home}/envs/a b'")
    assert conda.activation("base", "/w", "") == f". {root}/etc/profile.d/conda.sh && conda activate base"


def test_other_folders_of_environments(home: Path) -> None:
    tree(home / "miniconda3")
    (home / "scratch" / "deep" / "conda-meta").mkdir(parents=True)
    (home / ".condarc").write_text("channels:\n  - defaults\nenvs_dirs:\n  - ~/scratch\n  - /nowhere\n")
    assert conda.activation("deep", "/w", "").endswith(f"conda activate {home}/scratch/deep")


def test_micromamba(home: Path) -> None:
    program = home / ".local" / "bin" / "micromamba"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (home / "micromamba" / "envs" / "vit" / "conda-meta").mkdir(parents=True)
    line = conda.activation("vit", "/w", "")
    assert line.startswith(f"export MAMBA_ROOT_PREFIX={home}/micromamba; ")
    assert line.endswith("micromamba activate vit")


def test_what_is_missing_is_named(home: Path) -> None:
    with pytest.raises(Unfit, match="conda: vit: no conda was found"):
        conda.activation("vit", "/w", "")
    root = tree(home / "miniconda3", "vit", "llm")
    with pytest.raises(Unfit, match=f"vti: there is no environment of that name in {root}; there are: base, llm, vit"):
        conda.activation("vti", "/w", "")
    with pytest.raises(Unfit, match="there is no environment in /w/env"):
        conda.activation("./env", "/w", "")


def test_a_virtual_environment_whose_python_is_gone(tmp_path: Path) -> None:
    place = tmp_path / ".venv" / "bin"
    place.mkdir(parents=True)
    with pytest.raises(Unfit, match="it has no bin/activate"):
        preamble.text({"venv": ".venv"}, "/f", str(tmp_path), "")
    (place / "activate").touch()
    (place / "python").symlink_to("/nowhere/python3")
    with pytest.raises(Unfit, match=r"its Python is gone \(it pointed at /nowhere/python3\)"):
        preamble.text({"venv": ".venv"}, "/f", str(tmp_path), "")
