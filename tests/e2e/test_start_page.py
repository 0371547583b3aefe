"""docs/start.md, executed: its commands in their order, from nothing to a supervised run and its end.

What differs from a reader's machines, and nothing else:
- the installation is this environment's own (`INSTALL` must be what the page says);
- `gpubox` is the testbed's sshd, by the reader's own ~/.ssh/config, and 200 a container of the testbed;
- the container has no GPU: `gpus: [0, 1]` is `gpus: []`;
- the daemon listens on a free port, as another may listen on 8722.
"""

import contextlib
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import until
from tests.testbed.commands import write_command
from tests.testbed.lxc import LxcContainer, why_no_lxc
from tests.testbed.sshd import STANDARD_PATH, Sshd, free_port, why_no_sshd
from tests.testbed.users import make_inner_user

for module in ("torch", "transformers", "accelerate"):
    pytest.importorskip(module)
pytestmark = [pytest.mark.lxc, pytest.mark.torch]
REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "start.md"
SCRIPT = Path(__file__).parent / "programs" / "hf_train.py"
INSTALL = ["python3 -m venv .venv", ".venv/bin/pip install .", "source .venv/bin/activate"]
ASKED = {"vigil node add ": ("right one?", "Shall it?"), "vigil rm ": ("Forget the run",)}
"""What a command asks on a terminal; the answer is yes."""
COMMAND_S = 300.0
"""Generous: transformers starts twice within one of them, on two busy cores."""
TRAIN_YAML = """\
output_dir: out
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
learning_rate: 1.0e-3   # as the paper has it
max_steps: 3000
save_steps: 5
save_total_limit: 3
logging_steps: 1
report_to: none
use_cpu: true
ddp_backend: gloo
samples: 100000
pause_s: 0.1
"""


def commands() -> Iterator[str]:
    """The page's commands in their order."""
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        yield from block.splitlines()


def spec() -> str:
    """The page's spec."""
    [block] = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert "gpus: [0, 1]\n" in block
    return str(block).replace("gpus: [0, 1]\n", "gpus: []\n")


@pytest.fixture
def gpubox(lxc_path: Path) -> Iterator[LxcContainer]:
    """Container 200: a user `train` whose script, configuration and environment lie in ~/gpt."""
    if reason := why_no_lxc():
        pytest.skip(reason)
    container = LxcContainer(lxc_path, "200", memory_bytes=6 * 1024**3)
    try:
        container.start()
        home = make_inner_user(container, "train")
        for name, text in (("train.py", SCRIPT.read_text("utf-8")), ("train.yaml", TRAIN_YAML)):
            into = f"mkdir -p {home}/gpt && cat > {home}/gpt/{name}"
            container.run(["sh", "-c", into], input_text=text)
        container.run(["ln", "-s", sys.prefix, f"{home}/gpt/.venv"])
        container.run(["chown", "-R", "train", f"{home}/gpt"])
        yield container
    finally:
        container.destroy()


@pytest.fixture
def sshd(testbed_folder: Path, lxc_path: Path) -> Iterator[Sshd]:
    """root@gpubox: it lets in whom root's own ~/.ssh/authorized_keys names, too."""
    if reason := why_no_sshd():
        pytest.skip(reason)
    folder = testbed_folder / "gpubox"
    keys = f"{folder}/authorized_keys {folder}/home/.ssh/authorized_keys"
    server = Sshd(folder, path=f"{testbed_folder / 'bin'}:{STANDARD_PATH}", AuthorizedKeysFile=keys)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def reader(testbed_folder: Path, sshd: Sshd, gpubox: LxcContainer) -> Iterator[dict[str, str]]:
    """The environment of a reader who reaches root@gpubox by SSH, and has installed what the page says."""
    home = testbed_folder / "reader"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    config = (
        f"Host gpubox\n  HostName 127.0.0.1\n  Port {sshd.port}\n  IdentityFile {sshd.client_key}\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {sshd.known_hosts}\n"
    )
    (home / ".ssh" / "config").write_text(config, "utf-8")
    # OpenSSH's own client looks into the home of the password file, whatever HOME says.
    real = shutil.which("ssh")
    write_command(home / "bin", "ssh", f'#!/bin/sh\nexec {real} -F "$HOME/.ssh/config" "$@"\n')
    vigil = f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -m supervisor.cli.main "$@"\n'
    write_command(home / "bin", "vigil", vigil)
    (home / "run.yaml").write_text(spec(), "utf-8")
    yield {
        "HOME": str(home),
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "VIGIL_LISTEN": f"127.0.0.1:{free_port()}",
    }
    shutil.rmtree(home, ignore_errors=True)


def test_every_command_of_the_page_does_what_it_says(reader: dict[str, str], gpubox: LxcContainer) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["scripts"]["vigil"] == "supervisor.cli.main:main"
    told = list(commands())
    assert told[: len(INSTALL)] == INSTALL
    said: dict[str, str] = {}
    with contextlib.ExitStack() as ends:
        for command in told[len(INSTALL) :]:
            assert command.startswith("vigil "), command
            if command == "vigil serve":
                ends.enter_context(served(reader))
                continue
            code, said[command] = typed(command, reader)
            assert code == (130 if " -f gpt" in command else 0), f"{command}: {code}\n{said[command]}"
    assert "miss" not in said["vigil node check gpubox-200"]
    consent = said["vigil run -f run.yaml --dry-run"]
    assert "config.per_device_train_batch_size 4 -> 2 -> 1" in consent
    assert "dead" not in consent
    assert "healthy" in said["vigil show gpt"] or "makes progress" in said["vigil show gpt"]
    left = gpubox.run(["sh", "-c", "cd /home/train/gpt && cat train.yaml && ls out"]).stdout
    assert left.startswith(TRAIN_YAML), "the person's file is as it was"
    assert "checkpoint-" in left, "checkpoints stay"


def typed(command: str, reader: dict[str, str]) -> tuple[int, str]:
    """What the command ends with and has printed, when a person does with it what the page says."""
    with Terminal(command, reader) as terminal:
        if command.startswith(tuple(ASKED)):
            terminal.answer(*next(questions for begin, questions in ASKED.items() if command.startswith(begin)))
        elif command.startswith("vigil logs -f "):
            terminal.expect("loss")
            terminal.process.send_signal(signal.SIGINT)
        elif command.startswith("vigil attach ") and "Ask again" in terminal.expect("it/s", "Ask again"):
            # A starved machine; it says itself what to do.
            time.sleep(1)
            return typed(command, reader)
        elif command.startswith("vigil attach "):
            terminal.type("\x02d")
        return terminal.ended(), terminal.text


@contextlib.contextmanager
def served(reader: dict[str, str]) -> Iterator[None]:
    """`vigil serve` in a terminal of its own."""
    with Terminal("vigil serve", reader) as terminal:
        address = Path(reader["HOME"]) / ".local/share/vigil/address"
        until(address.exists, "the daemon listens", on_failure=lambda: terminal.text)
        try:
            yield
        finally:
            terminal.process.terminate()
            terminal.ended()


class Terminal:
    """One command in a terminal of its own, as a person has it."""

    def __init__(self, command: str, environment: dict[str, str]) -> None:
        """Starts it in the reader's home."""
        self.command = command
        self.text = ""
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            shlex.split(command),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            cwd=environment["HOME"],
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> "Terminal":
        """Itself."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing of it lives on."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def type(self, keys: str) -> None:
        """As if typed."""
        os.write(self._master, keys.encode())

    def expect(self, *words: str) -> str:
        """All that it has printed, once one of the words stands there."""
        end = time.monotonic() + COMMAND_S
        while not any(word in self.text for word in words):
            going_on = self._read() and time.monotonic() < end
            assert going_on or any(word in self.text for word in words), f"{self.command}: never {words}\n{self.text}"
        return self.text

    def answer(self, *questions: str) -> None:
        """Says yes to each."""
        for question in questions:
            self.expect(question)
            self.type("y\n")

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        end = time.monotonic() + COMMAND_S
        while self._read():
            assert time.monotonic() < end, f"{self.command} does not end\n{self.text}"
        return self.process.wait(timeout=COMMAND_S)

    def _read(self) -> bool:
        """False once nothing will come any more."""
        ready, _, _ = select.select([self._master], [], [], 0.2)
        if not ready:
            return self.process.poll() is None
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the last holder of the other end is gone
            return False
        self.text += data.decode("utf-8", "replace")
        return bool(data)
