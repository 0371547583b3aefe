"""What a trainer finds around it in a container behind sshd: a clean base, its spec's, and nothing of the caller."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Place
from tests.e2e.daemon import Daemon
from tests.testbed.lxc import LxcContainer
from tests.testbed.sshd import STANDARD_PATH, Sshd

pytestmark = pytest.mark.lxc

POISON = {
    "SECRET_OF_THE_CALLER": "hunter2-hunter2",
    "PYTHONPATH": "/nowhere/caller",
    "PYTHONSTARTUP": "/nowhere/startup.py",
    "PYTHONHOME": "/nowhere/home",
    "LD_LIBRARY_PATH": "/nowhere/lib",
    "VIRTUAL_ENV": "/nowhere/venv",
    "CONDA_PREFIX": "/nowhere/conda",
    "TMUX": "/nowhere/tmux,1,0",
    "SSH_AUTH_SOCK": "/nowhere/agent",
    "CUDA_VISIBLE_DEVICES": "7",
    "BASH_ENV": "/nowhere/bash_env",
    "GIT_DIR": "/nowhere/git",
    "LC_ALL": "POSIX",
    "TERM": "dumb",
}
SAY = "import json, os; json.dump([dict(os.environ), os.getcwd()], open('said.json', 'w'), ensure_ascii=False)"
CONDA = r"""
conda() {
    [ "$1" = activate ] || return 2
    case "$2" in
        base) __prefix=ROOT ;;
        /*) __prefix=$2 ;;
        *) __prefix=ROOT/envs/$2 ;;
    esac
    if [ ! -d "$__prefix/conda-meta" ]; then
        echo "EnvironmentNameNotFound: Could not find conda environment: $2" >&2
        return 1
    fi
    export CONDA_PREFIX=$__prefix CONDA_DEFAULT_ENV=$2 CONDA_SHLVL=1 PATH="$__prefix/bin:$PATH"
}
"""


@pytest.fixture(scope="module")
def poisoned_sshd(testbed_folder: Path, lxc_path: Path) -> Iterator[Sshd]:
    """Its sessions carry foreign variables, a talking .bashrc that goes elsewhere, and modules that shadow Python's."""
    folder = testbed_folder / f"poison-{os.getpid()}"
    home = folder / "home"
    path = f"{testbed_folder / 'bin'}:{STANDARD_PATH}"
    own = {"HOME": home, "PATH": path, "XDG_CACHE_HOME": home / "cache", "XDG_STATE_HOME": home / "state", **POISON}
    server = Sshd(folder, path=path, SetEnv=" ".join(f'{name}="{value}"' for name, value in own.items()))
    for module in ("selectors", "json", "sitecustomize", "struct"):
        (home / f"{module}.py").write_text("raise SystemExit('a module of the home folder was imported')\n")
    talking = f"echo 'Welcome, VIGIL1 is not for you'\nexport FROM_BASHRC=1\ncd {home}\n"
    for name in (".bashrc", ".profile", ".bash_profile"):
        (home / name).write_text(talking)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def place(
    tmp_path: Path, poisoned_sshd: Sshd, lxc: LxcContainer, request: pytest.FixtureRequest
) -> Iterator[tuple[Daemon, Place]]:
    """A daemon and a container behind that sshd."""
    sshd = poisoned_sshd
    ssh_config = tmp_path / "ssh_config"
    ssh_config.write_text(f"Host 127.0.0.1\n  IdentityFile {sshd.client_key}\n  IdentitiesOnly yes\n", "utf-8")
    with Daemon(tmp_path, config=f'ssh_config = "{ssh_config}"\nknown_hosts = "{sshd.known_hosts}"\n') as daemon:
        ssh = {"host": "127.0.0.1", "port": sshd.port, "user": None, "via": None}
        daemon.post("nodes", {"name": "box", "ssh": ssh, "container": {"kind": "lxc", "id": lxc.name}})
        workdir = lxc.workdir(f"env-{request.node.name}-{os.getpid()}")
        yield daemon, Place("box", workdir, lambda argv: lxc.run(argv, check=False).stdout, None)


def finished(daemon: Daemon, spec: dict[str, Any], place: Place) -> tuple[dict[str, str], str]:
    daemon.post("runs", spec)
    run = daemon.ended(spec["name"])
    assert run["state"] == "finished", run
    found: tuple[dict[str, str], str] = json.loads((place.workdir / "said.json").read_text("utf-8"))
    return found


def test_nothing_of_the_caller_arrives(place: tuple[Daemon, Place], lxc: LxcContainer) -> None:
    daemon, there = place
    kept = lxc.run(["cat", "/etc/environment"], check=False).stdout
    lxc.run(["sh", "-c", "cat > /etc/environment"], input_text=kept + '\nSITE_CACHE="/data/größe"\nHOME=/wrong\n')
    try:
        spec = there.spec("env", command=[sys.executable, "-c", SAY], env={"MINE": "ä b", "LANGUAGE": "x"})
        environ, cwd = finished(daemon, spec, there)
    finally:
        lxc.run(["sh", "-c", "cat > /etc/environment"], input_text=kept)
    run_id = daemon.run("env")["id"]
    system_path = environ.pop("PATH").split(":")
    assert system_path[0] == "/root/.local/bin"
    assert set(system_path) >= set(STANDARD_PATH.split(":"))
    assert not any("poison" in part or "bin-of" in part for part in system_path)
    node_own = {line.partition("=")[0] for line in kept.splitlines() if "=" in line} - {"PATH"}
    assert {name: value for name, value in environ.items() if name not in node_own} == {
        "HOME": "/root",
        "USER": "root",
        "LOGNAME": "root",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "LC_MESSAGES": "C.UTF-8",
        "LC_NUMERIC": "C.UTF-8",
        "TERM": "screen-256color",
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "SITE_CACHE": "/data/größe",
        "MINE": "ä b",
        "LANGUAGE": "x",
        "VIGIL_RUN": run_id,
        "VIGIL_ATTEMPT": f"{run_id}.1",
    }
    assert cwd == str(there.workdir)
    # The tmux server shows its environment to whoever asks.
    words = " ".join(daemon.post("runs/env:attach")["argv"]).replace("'", " ").split()
    socket = words[max(index for index, word in enumerate(words) if word == "-S") + 1]
    shown = there.run(["tmux", "-S", socket, "show-environment", "-g"])
    assert "XDG_STATE_HOME=" in shown
    assert not [line for line in shown.splitlines() if line.partition("=")[0] in set(POISON) - {"TERM", "LC_ALL"}]
    assert "hunter2" not in shown


def test_conda_then_the_virtual_environment_then_setup(place: tuple[Daemon, Place], lxc: LxcContainer) -> None:
    daemon, there = place
    root = "/root/miniforge3"
    for folder in ("etc/profile.d", "conda-meta", "envs/vit/conda-meta", "envs/vit/bin", "bin"):
        lxc.run(["mkdir", "-p", f"{root}/{folder}"])
    lxc.run(["sh", "-c", f"cat > {root}/etc/profile.d/conda.sh"], input_text=CONDA.replace("ROOT", root))
    lxc.run([sys.executable, "-m", "venv", "--without-pip", str(there.workdir / ".venv")])
    try:
        setup = 'set -e; export ORDER="$CONDA_DEFAULT_ENV+$(basename $VIRTUAL_ENV)"'
        spec = there.spec("fit", command=f'python -c "{SAY}"', conda="vit", venv=".venv", setup=setup)
        environ, _ = finished(daemon, spec, there)
        assert environ["ORDER"] == "vit+.venv"
        assert environ["CONDA_PREFIX"] == f"{root}/envs/vit"
        path = environ["PATH"].split(":")
        assert path.index(f"{there.workdir}/.venv/bin") < path.index(f"{root}/envs/vit/bin") < path.index("/usr/bin")
        versions = daemon.run("fit")["attempts"][0]["versions"]
        assert versions.get("python", "3.").startswith("3.")
        for name, more, told in (
            (
                "no-env",
                {"conda": "vti"},
                f"conda: vti: there is no environment of that name in {root}; there are: base, vit",
            ),
            ("no-venv", {"venv": "env2"}, f"venv: {there.workdir}/env2: there is no such folder. Create it"),
            ("bad-setup", {"venv": ".venv", "setup": "false"}, "the setup ended with code 1 before the command began"),
        ):
            daemon.post("runs", there.spec(name, command="touch ran", **more))
            run = daemon.ended(name)
            assert run["verdict"]["cause"] == "setup_failed", run
            assert told in json.dumps(run["verdict"]), run["verdict"]
        assert not (there.workdir / "ran").exists()
    finally:
        lxc.run(["rm", "-rf", root])
