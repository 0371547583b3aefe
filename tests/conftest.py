"""Fixtures that several rooms share: a real sshd, a real container, the ways to a node. Skips are counted."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from supervisor.model.node import Container, NodeSpec
from supervisor.node.options import LinkOptions
from tests.testbed.commands import write_commands
from tests.testbed.folder import end_processes, testbed
from tests.testbed.lxc import LxcContainer, why_no_lxc
from tests.testbed.sshd import STANDARD_PATH, Sshd, why_no_sshd
from tests.testbed.users import Login, allow, make_inner_user, make_login, why_no_users

settings.register_profile("vigil", deadline=None)  # machines are shared and noisy: no test asserts on wall time
settings.load_profile("vigil")
_MEMORY_BYTES = 2 * 1024**3
WAYS = ("local", "ssh", "ssh+lxc", "ssh+pct")


@pytest.fixture(scope="session", autouse=True)
def nothing_lives_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A run outlives its daemon, and so its test: what lives in this session's folders ends with the session."""
    yield
    end_processes(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def testbed_folder() -> Iterator[Path]:
    """Where sshd and containers of this session live."""
    with testbed() as folder:
        yield folder


@pytest.fixture(scope="session")
def lxc_path(testbed_folder: Path) -> Path:
    """The LXC path of this session; `pct` and `lxc-attach` in the sshd's PATH know the containers below it."""
    path = testbed_folder / "lxc"
    path.mkdir()
    write_commands(testbed_folder / "bin", path)
    return path


@pytest.fixture(scope="session")
def sshd(testbed_folder: Path, lxc_path: Path) -> Iterator[Sshd]:
    """A running sshd that stays up. A test that stops one or changes its settings makes its own `Sshd`."""
    if reason := why_no_sshd():
        pytest.skip(reason)
    server = Sshd(testbed_folder / "sshd", path=f"{testbed_folder / 'bin'}:{STANDARD_PATH}")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def lxc(lxc_path: Path) -> Iterator[LxcContainer]:
    """A running container with a memory limit that stays up. A test that stops one makes its own `LxcContainer`."""
    if reason := why_no_lxc():
        pytest.skip(reason)
    container = LxcContainer(lxc_path, f"vt{os.getpid()}", memory_bytes=_MEMORY_BYTES)
    try:
        container.start()
        yield container
    finally:
        container.destroy()


@pytest.fixture(scope="session")
def login(testbed_folder: Path) -> Login:
    """An unprivileged user of this machine, for the session: they log in through `user_sshd` with a key of their own.

    They may do nothing else; `inner_user` lets them into one container.
    """
    if reason := why_no_users():
        pytest.skip(reason)
    return make_login(testbed_folder, f"vt{os.getpid()}")


@pytest.fixture(scope="session")
def user_sshd(testbed_folder: Path, lxc_path: Path) -> Iterator[Sshd]:
    """A second sshd, which lets users in as on a real machine: their HOME, their own `~/.ssh/authorized_keys`."""
    if reason := why_no_sshd():
        pytest.skip(reason)
    server = Sshd(testbed_folder / "user-sshd", path=f"{testbed_folder / 'bin'}:{STANDARD_PATH}", own_homes=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def inner_user(login: Login, lxc: LxcContainer, testbed_folder: Path) -> str:
    """The name of an unprivileged user inside `lxc`, which `login` may enter by `sudo -n lxc-attach` and no other."""
    bin_folder = testbed_folder / "bin"
    allow(login, f"{bin_folder}/lxc-attach -n {lxc.name} -- *", path=f"{bin_folder}:{STANDARD_PATH}")
    make_inner_user(lxc, "vttrain")
    return "vttrain"


@pytest.fixture
def link_options(tmp_path: Path, request: pytest.FixtureRequest) -> LinkOptions:
    """Options that trust the session's sshd and are let in by it; quick to retry."""
    if why_no_sshd():
        return LinkOptions(data_folder=tmp_path / "data", personal_keys=False)
    server: Sshd = request.getfixturevalue("sshd")
    return LinkOptions(
        data_folder=tmp_path / "data",
        known_hosts=server.known_hosts,
        client_keys=[server.client_key],
        personal_keys=False,
        shortest_retry_s=0.1,
        longest_retry_s=0.5,
    )


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """Each way to a node: this machine, a plain machine, a container by lxc-attach, one by pct exec."""
    return str(request.param)


@pytest.fixture
def node_spec(
    way: str, request: pytest.FixtureRequest, testbed_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> NodeSpec:
    """A node, once for each way. State and cache of probes lie in the testbed's folder, never in a real home."""
    if way == "local":
        for name, folder in (("XDG_CACHE_HOME", "cache"), ("XDG_STATE_HOME", "state")):
            monkeypatch.setenv(name, str(testbed_folder / folder))
        return NodeSpec(name="local")
    server: Sshd = request.getfixturevalue("sshd")
    if way == "ssh":
        return NodeSpec(name="plain", ssh=server.address)
    container: LxcContainer = request.getfixturevalue("lxc")
    kind = "lxc" if way == "ssh+lxc" else "pct"
    return NodeSpec(name=f"box-{kind}", ssh=server.address, container=Container(kind=kind, id=container.name))


def pytest_configure() -> None:
    """A terminated session still ends its containers and servers."""
    # A shell's background job would hand its ignored SIGINT down to the programs that tests press Ctrl-C at.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many tests could not run here, and why."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[text.removeprefix("Skipped: ")] += 1
    if reasons:
        terminalreporter.section(f"{sum(reasons.values())} tests could not run here")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5d}  {reason}")
