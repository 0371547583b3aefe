"""`vigil demo`: a real run that fails for real, is corrected, resumes and finishes, on this machine."""

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli.demo_story import Story
from supervisor.cli.following import FAILED, RunFailed
from supervisor.cli.output import Json, print_json, say
from supervisor.cli.specfile import read_spec
from supervisor.client import DaemonUnreachable, TimedOut, Vigil
from supervisor.model.errors import NodeUnfit, NotFound
from supervisor.model.run import ENDED, Run
from supervisor.model.settings import ADDRESS_FILE, DEFAULT_LISTEN, TOKEN_FILE, split_listen

_START_S = 120.0
_STOP_S = 30.0
_LOOK_S = 1.0
CONFIG = "dflash-cpu.toml"
SPEC = "demo.yaml"


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(demo)


def demo(
    data: Annotated[Path, typer.Option("--data", help="The demo's data folder.", file_okay=False)] = Path("vigil-data"),
    leave: Annotated[bool, typer.Option("--exit", help="End when the run has ended: 0 finished, 5 failed.")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1, metavar="S", help="With --exit: end with 7 after so long.")
    ] = 1800,
    json: Json = False,
) -> None:
    """A real training fails and is corrected, here.

    Shows it all on this machine: a daemon, a real training, a real failure, its correction, the page.
    """
    examples = examples_folder()
    _must_be_there()
    data = data.absolute()
    with _daemon(data) as url:
        token = (data / TOKEN_FILE).read_text("utf-8").strip()
        with Vigil(url, token) as vigil:
            page = f"{url}/#token={token}"
            say(f"The page: {page}", style="bold")
            run = vigil.create_run(demo_spec(examples, data))
            try:
                run = _followed(vigil, run, timeout_s if leave else None)
            except (KeyboardInterrupt, TimedOut):
                say(f"The daemon ends; the run goes on in tmux. Take it up again: vigil serve --data {data}")
                raise
            if json:
                print_json(run.model_dump(mode="json"))
            if not leave:
                say(f"The page stays at {page}. Ctrl-C ends the daemon.", style="bold")
                say(f"From another terminal: VIGIL_DATA_FOLDER={data} vigil show {run.name}")
                say(f"To take it away, tmux session and all, the same way: vigil rm {run.name}")
                _wait_for_ever()
                say(f"The daemon ends; the run stays in {data}. Look again: vigil serve --data {data}")
    if leave and run.state in FAILED:
        raise RunFailed(f"The demo's run is {run.state}.")


def examples_folder() -> Path:
    """Where the examples are: inside the installed package, or in the checkout."""
    package = Path(__file__).parent.parent
    for folder in (package / "examples", package.parent / "deploy" / "examples"):
        if (folder / SPEC).is_file() and (folder / CONFIG).is_file():
            return folder
    raise NotFound(f"The examples {SPEC} and {CONFIG} are not installed.")


def demo_spec(examples: Path, data: Path) -> dict[str, Any]:
    """The demo's spec, in a folder of its own that holds the configuration."""
    workdir = data / "demo" / datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    workdir.mkdir(parents=True)
    shutil.copy(examples / CONFIG, workdir / CONFIG)
    spec = read_spec(examples / SPEC)
    _, *arguments = spec["command"]
    # This interpreter: the one that the trainer was installed for.
    return spec | {"workdir": str(workdir), "command": [sys.executable, *arguments]}


def _must_be_there() -> None:
    if shutil.which("tmux") is None:
        raise NodeUnfit("The demo needs tmux.", remedy="Install it: apt-get install tmux")
    missing = [name for name in ("torch", "transformers", "trainer") if find_spec(name) is None]
    if missing:
        raise NodeUnfit(
            f"The demo trains for real and needs {', '.join(missing)}.",
            remedy="Run `make demo` in a checkout, or: pip install 'vigil-supervisor[trainer]'",
        )


@contextlib.contextmanager
def _daemon(data: Path) -> Iterator[str]:
    """A daemon on `data`, in a process of its own; ended politely at the end. Answers its address."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    log, earlier = data / "daemon.log", _written_ns(data / ADDRESS_FILE)
    argv = [sys.executable, "-m", "supervisor.cli.main", "serve", "--data", str(data), "--listen", _free_address()]
    say(f"A daemon starts on {data}; its log: {log}")
    with log.open("ab") as writing:
        began = writing.tell()
        # A session of its own: Ctrl-C reaches us, and we end it in order.
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing, start_new_session=True
        )
    try:
        yield _address_of(process, data / ADDRESS_FILE, earlier, log, began)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_address() -> str:
    host, port = split_listen(DEFAULT_LISTEN)
    try:
        with socket.create_server((host, port)):
            return DEFAULT_LISTEN
    except OSError:
        return f"{host}:0"


def _address_of(process: "subprocess.Popen[bytes]", address: Path, earlier: int | None, log: Path, began: int) -> str:
    """What the daemon writes into its folder once it listens; what an `earlier` one left there does not count."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            words = log.read_bytes()[began:].decode("utf-8", "replace").strip().splitlines()
            raise DaemonUnreachable(f"The daemon ended at once: {words[-1] if words else 'without a word'}")
        if _written_ns(address) not in (None, earlier) and (url := address.read_text("utf-8").strip()):
            return url
        time.sleep(0.05)
    raise TimedOut(f"The daemon did not start within {_START_S:g} s.", remedy=f"See {log}.")


def _written_ns(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _followed(vigil: Vigil, run: Run, timeout_s: float | None) -> Run:
    """Tells what happens until the run has ended."""
    story = Story(say)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        # The run first: what it had done by then is among the events.
        run = vigil.run(run.id)
        story.tell(vigil.events(run.id, after=story.seq, wait_s=_LOOK_S), run)
        if run.state in ENDED:
            story.end(run)
            return run
        if deadline is not None and time.monotonic() > deadline:
            raise TimedOut(f"The demo's run is still {run.state} after {timeout_s:g} s.")


def _wait_for_ever() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
