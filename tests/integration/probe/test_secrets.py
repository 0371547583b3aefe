"""Secrets reach the attempt's environment and nothing else: no file, no argv, no tmux, no log."""

import contextlib
import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from supervisor.probe import delivery, difference
from tests.integration.probe.conftest import R1, Probe, launch_args, until

KEY = "hf_Zq81mWc7Lr5TvX0pNeYb"
OTHER = 'p/w+of "mine"%'
PRINTS = """
python3 - <<'END'
import os, sys, time
key = os.environ["HF_TOKEN"]
print("whole", key, "twice", key * 2)
print("prefix", key[:8], "and", key[3:15])
for pieces in ((key[:5], key[5:9], key[9:], "\\n"), (key[:2], key[2:4], key[4:], "\\n")):
    for piece in pieces:
        sys.stdout.write(piece); sys.stdout.flush(); time.sleep(0.3)
print("other", os.environ["OTHER"], "file", os.environ["FROM_FILE"], file=sys.stderr)
END
echo seen by a child of a shell: $HF_TOKEN
"""


def launch_with(probe: Probe, command: str, values: dict[str, str], **more: Any) -> dict[str, Any]:
    parcel = delivery.packed(values)
    return probe.launch(R1, command, raw=parcel, secrets=sorted(values), parcel_bytes=len(parcel), **more)


def test_values_are_in_the_environment_and_nowhere_else(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "vars").write_text("# mine\nexport FROM_FILE='of the file 1234'\nOTHER=overridden\n")
    values = {"HF_TOKEN": KEY, "OTHER": OTHER}
    proof = tmp_path / "proof"
    command = f'printf "%s|%s" "$HF_TOKEN" "$OTHER" > {proof}\n{PRINTS}\nsleep 1000'
    assert launch_with(probe, command, values, env_file=str(tmp_path / "vars"))["state"] == "started"
    until(lambda: _seen(probe).rstrip().endswith(b"shell: " + b"*" * len(KEY)), "the last line")
    assert proof.read_text() == f"{KEY}|{OTHER}"
    log = _seen(probe)
    screen = probe.call("screen", run=R1, attempt=1)["ansi"]
    assert b"whole " + b"*" * len(KEY) + b" twice " + b"*" * 2 * len(KEY) in log
    assert b"prefix ******** and ************" in log
    assert b"\n" + b"*" * len(KEY) + b"\r\n" in log, "in pieces"
    assert b"\nhf" + b"*" * (len(KEY) - 2) + b"\r\n" in log, "at a pause three bytes of a value may be seen, not more"
    assert b"other " + b"*" * len(OTHER) + b" file " + b"*" * len("of the file 1234") in log
    assert "whole ****" in screen
    server = probe.tmux(R1, "display-message", "-p", "#{pid}").strip()
    places = {
        "log": log,
        "screen": screen.encode(),
        "tmux environment": probe.tmux(R1, "show-environment", "-g").encode(),
        "session environment": probe.tmux(R1, "show-environment", "-t", "attempt-1").encode(),
        "tmux server": Path(f"/proc/{server}/cmdline").read_bytes() + Path(f"/proc/{server}/environ").read_bytes(),
        "scrollback": probe.tmux(R1, "capture-pane", "-p", "-S", "-", "-t", "attempt-1").encode(),
    }
    for path in probe.state.rglob("*"):
        if path.is_file():
            places[str(path)] = path.read_bytes()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            environ, cmdline = (_content(entry / name) for name in ("environ", "cmdline"))
            own = b"VIGIL_ATTEMPT=" in environ  # another session may run this very test
            places[f"/proc/{entry.name}"] = cmdline if own else environ + cmdline
    for word in (KEY, KEY[:8], KEY[4:12], KEY[-8:], OTHER, "of the f"):
        assert not [name for name, content in places.items() if word.encode() in content], word
    assert not (probe.folder(R1) / delivery.FIFO).exists()


def _seen(probe: Probe) -> bytes:
    return bytes(probe.observe(R1)["log_data"])


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_wrapper_that_gets_no_secret_starts_nothing(probe: Probe, tmp_path: Path) -> None:
    probe.launch(R1, f"touch {tmp_path}/ran", secrets=["HF_TOKEN"])
    seen = probe.ended(R1)
    assert seen["exit"]["failure"] == "secret"
    assert "HF_TOKEN was not delivered within 5 s" in seen["exit"]["failure_detail"]
    assert not (tmp_path / "ran").exists()
    assert not (probe.folder(R1) / delivery.FIFO).exists()


def test_a_value_that_is_missing_is_named(probe: Probe) -> None:
    parcel = delivery.packed({"A": "x"})
    probe.launch(R1, "true", raw=parcel, secrets=["A", "B"], parcel_bytes=len(parcel))
    record = probe.ended(R1)["exit"]
    assert (record["failure"], record["failure_detail"]) == ("secret", "no value was delivered for the secret B")


def test_an_env_file_that_is_wrong_is_named_with_its_line(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "vars").write_text("A=1\nnot hush-hush a line\n")
    probe.launch(R1, "true", env_file="vars", workdir=str(tmp_path))
    record = probe.ended(R1)["exit"]
    assert record["failure"] == "secret"
    assert record["failure_detail"] == f"env_file {tmp_path}/vars, line 2: is not NAME=VALUE"


def test_a_rendered_configuration_travels_beside_them(probe: Probe) -> None:
    parcel = delivery.packed({"HF_TOKEN": KEY})
    probe.launch(
        R1,
        f'cat {{config}}; test "${{#HF_TOKEN}}" = {len(KEY)}',
        raw=b"answer = 42\n" + parcel,
        config_name="c.toml",
        secrets=["HF_TOKEN"],
        parcel_bytes=len(parcel),
    )
    seen = probe.ended(R1)
    assert seen["exit"]["code"] == 0
    assert seen["log_data"].strip() == b"answer = 42"
    assert "parcel_bytes" not in json.loads((probe.folder(R1) / "launch.json").read_text())


def test_what_is_given_up_never_begins_and_what_has_begun_goes_on(probe: Probe) -> None:
    reply = probe.launch(R1, "true", secrets=["HF_TOKEN"], give_up="HF_TOKEN is not set")
    assert (reply["state"], reply["given_up"], reply["why"]) == ("refused", True, "HF_TOKEN is not set")
    reply = launch_with(probe, "true", {"HF_TOKEN": KEY})
    assert (reply["state"], reply["given_up"]) == ("refused", True)
    parcel = delivery.packed({"HF_TOKEN": KEY})
    more: dict[str, Any] = {"attempt": 2, "secrets": ["HF_TOKEN"]}
    assert probe.launch(R1, "sleep 1000", raw=parcel, parcel_bytes=len(parcel), **more)["state"] == "started"
    assert probe.launch(R1, "sleep 1000", give_up="HF_TOKEN is not set", **more)["state"] == "already"
    assert probe.observe(R1, attempt=2)["exit"] is None


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.25])
def test_a_probe_killed_in_the_middle_of_a_launch(state: Path, tmp_path: Path, after_s: float) -> None:
    """Whatever it had done: the next one that is asked starts the command once, with its secret, and leaves no FIFO."""
    ran = tmp_path / "ran"
    command = f'echo "$HF_TOKEN" >> {ran}; sleep 1000'
    parcel = delivery.packed({"HF_TOKEN": KEY})
    first = Probe(state)
    asking = threading.Thread(target=_launch_into_the_void, args=(first, command))
    asking.start()
    time.sleep(after_s)
    first.process.kill()
    asking.join()
    first.close()
    second = Probe(state)
    args = launch_args(R1, command, secrets=["HF_TOKEN"], parcel_bytes=len(parcel))
    assert second.call("launch", parcel, **args)["state"] in ("started", "already")
    until(lambda: ran.exists() and ran.read_text().endswith("\n"), "the command ran")
    assert second.call("launch", parcel, **args)["state"] == "already"
    assert ran.read_text() == KEY + "\n"
    assert not (second.folder(R1) / delivery.FIFO).exists()
    found = subprocess.run(["grep", "-rlF", KEY, str(state)], capture_output=True, text=True, check=False)
    assert not found.stdout
    second.close()


def _launch_into_the_void(probe: Probe, command: str) -> None:
    parcel = delivery.packed({"HF_TOKEN": KEY})
    with contextlib.suppress(AssertionError, OSError):  # its probe is killed
        probe.launch(R1, command, raw=parcel, secrets=["HF_TOKEN"], parcel_bytes=len(parcel))


def test_a_value_in_uncommitted_code_is_masked(probe: Probe, tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "train.py").write_text("print(1)\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    (tmp_path / "train.py").write_text("print(1)\nlogin('plain-Word-7731x')\nother = 'of the file 1234'\n")
    (tmp_path / "vars").write_text("FROM_FILE='of the file 1234'\n")
    launch_with(probe, "true", {"HF_TOKEN": "plain-Word-7731x"}, workdir=str(tmp_path), env_file="vars")
    text = probe.folder(R1) / difference.FILE
    until(text.exists, "the difference")
    assert "login('" + "*" * 16 + "')" in text.read_text()
    assert "of the f" not in text.read_text()
