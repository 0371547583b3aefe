"""Vigil's key in somebody's `authorized_keys`: whatever stands there beside it stays, byte for byte.

The `ssh` here is a script that runs the command on this machine, as sshd would; the command itself is the real one.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.cli import login
from supervisor.model.node import NodeSpec, SshAddress

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGxZ1Yx8bXyJ0D9yVbqVQ2sZ0bqk1qkQk1kQk1kQk1kQ vigil@control"
SPEC = NodeSpec(name="box", ssh=SshAddress(host="box", user="me"))


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, of a home of its own, behind an `ssh` that gets there."""
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/sh\nfor last in "$@"; do :; done\nexec sh -c "$last"\n', "ascii")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    file = tmp_path / ".ssh" / "authorized_keys"
    file.parent.mkdir(mode=0o700)
    return file


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                b"ssh-rsa AAAAB3Nza J\xf6rg",  # a comment in Latin-1
                b"ssh-rsa AAAAB3Nza a\0b",
                b"# \xff\xfe",
                b"",
                b'from="10.0.0.*",command="echo \'x\'" ssh-ed25519 AAAAC3 it\'s "mine"',
                b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI other",
                b"-----x",
                b"ssh-rsa A\r",
            ]
        ),
        max_size=5,
    )
)
def test_lines_of_others_stay_whatever_is_in_them(keys: Path, lines: list[bytes]) -> None:
    before = b"".join(line + b"\n" for line in lines)
    keys.write_bytes(before)
    assert login.install(SPEC, KEY) == "added"
    assert keys.read_bytes() == before + KEY.encode() + b"\n"
    assert login.install(SPEC, KEY) == "present"
    assert login.remove(SPEC, KEY) == "removed"
    assert keys.read_bytes() == before
    assert login.remove(SPEC, KEY) == "absent"
    assert [file.name for file in keys.parent.iterdir()] == ["authorized_keys"]


@pytest.mark.parametrize("key", ["ssh-ed25519 ", "ssh-ed25519 AAAA", "ssh-ed25519  x", "", "ssh-rsa " + "A" * 70])
def test_what_is_no_whole_key_takes_no_line_away(keys: Path, key: str) -> None:
    keys.write_bytes(before := b"ssh-ed25519 AAAAC3NzaC1 me\nssh-rsa AAAAB3Nza you\n")
    for change in (login.install, login.remove):
        with pytest.raises(login.NotDone):
            change(SPEC, key)
    assert keys.read_bytes() == before
