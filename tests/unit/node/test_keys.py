"""Keys: the daemon's own, pinned ones, what is said about a host key that is not trusted."""

import stat
from pathlib import Path

import asyncssh
import pytest

from supervisor.model.errors import HostKeyChanged, HostKeyUnknown, InvalidInput
from supervisor.node.keys import HostKeyCheck, own_key, own_public_line, pinned_key, public_line

KEY = asyncssh.generate_private_key("ssh-ed25519").convert_to_public()
OTHER = asyncssh.generate_private_key("ssh-ed25519").convert_to_public()
REFUSED = asyncssh.HostKeyNotVerifiable("not trusted")


def test_the_own_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = own_key(tmp_path)
    content = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert own_key(tmp_path).read_bytes() == content
    assert own_public_line(tmp_path).startswith("ssh-ed25519 ")


def test_a_pinned_key_may_stand_behind_a_host_name() -> None:
    assert pinned_key(public_line(KEY)) == KEY
    assert pinned_key(f"gpubox {public_line(KEY)} comment") == KEY


@pytest.mark.parametrize("line", ["", "ssh-ed25519", "hello world", "a b c d"])
def test_what_is_no_key(line: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        pinned_key(line)


def check(tmp_path: Path, known: str, port: int | None = None) -> HostKeyCheck:
    file = tmp_path / "known_hosts"
    file.write_text(known, "ascii")
    checked = HostKeyCheck("gpubox", (), [file, tmp_path / "missing"])
    checked.trusted("gpubox", "10.0.0.5", port)
    checked.validate(OTHER)
    return checked


def test_unknown_when_nothing_is_known_of_the_host(tmp_path: Path) -> None:
    error = check(tmp_path, f"elsewhere {public_line(KEY)}\n").error(REFUSED)
    assert isinstance(error, HostKeyUnknown)
    assert OTHER.get_fingerprint() in error.detail
    assert f"gpubox {public_line(OTHER)}" in error.remedy


@pytest.mark.parametrize("name", ["gpubox", "10.0.0.5", "gpu*"])
def test_changed_when_another_key_is_known(tmp_path: Path, name: str) -> None:
    error = check(tmp_path, f"{name} {public_line(KEY)}\n").error(REFUSED)
    assert isinstance(error, HostKeyChanged)
    assert KEY.get_fingerprint() in error.detail
    assert OTHER.get_fingerprint() in error.detail


def test_another_port_is_another_server(tmp_path: Path) -> None:
    error = check(tmp_path, f"gpubox {public_line(KEY)}\n", port=2222).error(REFUSED)
    assert isinstance(error, HostKeyUnknown)
    assert f"[gpubox]:2222 {public_line(OTHER)}" in error.remedy


def test_pinned_keys_are_the_only_ones(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"gpubox {public_line(OTHER)}\n", "ascii")
    checked = HostKeyCheck("gpubox", (public_line(KEY),), [file])
    assert checked.trusted("gpubox", "10.0.0.5", None)[0] == [KEY]
    assert not checked.validate(OTHER)
    assert isinstance(checked.error(REFUSED), HostKeyChanged)
