"""The command line against a real server: output, exit codes, and what it asks for."""

import json
import os
import subprocess
import sys

import pytest

from supervisor.cli.main import run as vigil
from supervisor.client import DaemonUnreachable, Vigil
from supervisor.model.causes import Retry
from supervisor.model.errors import Conflict, InvalidInput, NotFound, Unauthorized
from supervisor.model.event import Event, EventType
from supervisor.model.run import Correction, Exit, Outcome, Receipt, RunState, Turn
from supervisor.model.verdict import Evidence, Progress, Verdict
from tests.fakes import NOW, attempt

SPEC = "name: vit-l\nnode: local\ncommand: python train.py\nconfig: {format: toml, values: {lr: 0.1}}\n"


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "vit-l.yaml"
    path.write_text(SPEC)
    return str(path)


def corrected(fleet):
    verdict = Verdict(
        cause="healthy",
        retry=Retry.NONE,
        since=NOW,
        sentence="It runs and makes progress.",
        evidence=(Evidence(line=12, text="step 410/1000 loss 2.31"),),
        next="Nothing to do.",
    )
    first = attempt(
        1,
        state="ended",
        ended_at=NOW.replace(minute=4),
        exit=Exit(code=1, signal=None),
        outcome=Outcome(cause="host_alloc_failed", retry=Retry.CORRECTED),
        first_step=1,
        last_step=38,
    )
    turn = Turn(from_=128, to=64, key="config.attention.sdpa_chunk")
    second = attempt(
        2,
        correction=Correction(turns=(turn,), reason="it asked for more than is free"),
        receipt=Receipt(helped=True, sentence="2 steps lost; it helped."),
        resumed_from=36,
        first_step=37,
        last_step=410,
    )
    return fleet.put(
        "vit-l", verdict=verdict, attempts=(first, second), restarts=1, progress=Progress(step=410, total_steps=1000)
    )


def test_a_run_from_its_file_to_its_end(served, spec, capsys):
    assert vigil(["run", "-f", spec]) == 0
    assert capsys.readouterr().out == "vit-l\n"
    assert vigil(["stop", "vit-l", "-m", "enough"]) == 0
    assert served.fleet.calls[-1]["why"] == "enough"
    served.fleet.change("vit-l", state=RunState.STOPPED)
    assert vigil(["start", "vit-l", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["state"] == "pending"
    assert vigil(["rm", "vit-l", "--yes"]) == 0
    assert vigil(["show", "vit-l"]) == 3


def test_settings_of_the_command_line_lie_over_the_spec(served, spec):
    assert vigil(["run", "-f", spec, "--set", "config.lr=0.5", "--set", "env.X=1", "--set", "budget.total=3"]) == 0
    sent = next(iter(served.fleet.known.values())).spec
    assert sent["config"]["values"] == {"lr": 0.5}
    assert sent["env"] == {"X": "1"}
    assert sent["budget"] == {"total": 3}


def test_a_dry_run_prints_the_consent_and_creates_nothing(served, spec, capsys):
    assert vigil(["run", "-f", spec, "--dry-run"]) == 0
    assert capsys.readouterr().out == "would launch vit-l\n"
    assert not served.fleet.known


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "gone"], 3, "There is no run 'gone'"),
        (["start", "vit-l"], 4, "start is not possible"),
        (["run", "-f", "gone.yaml"], 2, "gone.yaml cannot be read"),
        (["run", "-f", "spec.txt"], 2, "a spec ends in"),
        (["run"], 2, "--file"),
        (["shwo", "x"], 2, "shwo"),
        (["restart", "vit-l", "-m", "x", "--set", "nonsense"], 2, "is no KEY=VALUE"),
        (["restart", "vit-l"], 2, "--message"),
        (["restart"], 2, "See: vigil restart --help"),
        (["hold", "vit-l", "--until", "tomorrow"], 2, "is no time with its zone"),
        (["hold", "vit-l", "--until", "2026-12-31T18:00:00"], 2, "is no time with its zone"),
        (["wait", "vit-l", "--until", "soon"], 2, "--until soon is not known"),
        (["wait", "vit-l", "--until", "ended", "--timeout", "0.1"], 7, "was not there after 0.1 s"),
        (["node", "check", "gone"], 3, "no node named"),
        (["node", "add", "n", "u@h:x"], 2, "'x' is no port"),
        (["node", "add", "n", "h", "--pct", "1", "--lxc", "x", "--yes"], 2, "More than one container"),
        (["node", "add", "-bad", "h"], 2, ""),
    ],
)
def test_exit_codes_and_one_line_on_stderr(served, capsys, arguments, code, words):
    served.fleet.put("vit-l")
    assert vigil(arguments) == code
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.err.startswith("vigil: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_faulty_spec_names_the_place_and_the_nearest_key(served, tmp_path, capsys):
    path = tmp_path / "s.yaml"
    path.write_text(SPEC + "workdri: x\n")
    assert vigil(["run", "-f", str(path)]) == 2
    err = capsys.readouterr().err
    assert "workdri" in err
    assert "did you mean 'workdir'?" in err
    path.write_bytes(b"a: " + b"x" * 10_000_000)
    assert vigil(["run", "-f", str(path)]) == 2
    assert "is larger than" in capsys.readouterr().err


def test_no_daemon_is_6_and_no_token_is_said(served, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("VIGIL_SERVER", "http://127.0.0.1:9")
    assert vigil(["ps"]) == 6
    assert "vigil serve" in capsys.readouterr().err
    monkeypatch.setenv("VIGIL_SERVER", served.url)
    monkeypatch.setenv("VIGIL_TOKEN", "wrong")
    assert vigil(["ps"]) == 1
    monkeypatch.delenv("VIGIL_TOKEN")
    monkeypatch.setenv("VIGIL_DATA_FOLDER", str(tmp_path))
    assert vigil(["ps"]) == 1
    assert "VIGIL_TOKEN" in capsys.readouterr().err


def test_ps_fits_80_columns_in_a_pipe(served, capsys):
    for number in range(3):
        served.fleet.put(f"a-rather-long-name-of-a-run-{number}", reason="waiting for the GPUs of another run " * 3)
    corrected(served.fleet)
    assert vigil(["ps"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].split() == ["vit-l", "local", "running", "410/1000", "2", "healthy"]
    assert vigil(["ps", "--json", "-n", "2"]) == 0
    names = [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()]
    assert names == ["vit-l", "a-rather-long-name-of-a-run-2"]


def test_show_tells_the_story(served, capsys):
    corrected(served.fleet)
    assert vigil(["show", "vit-l"]) == 0
    text = capsys.readouterr().out
    for words in (
        "It runs and makes progress.",
        "12: step 410/1000 loss 2.31",
        "next    Nothing to do.",
        "#1 host_alloc_failed (exit 1)",
        "config.attention.sdpa_chunk 128 -> 64",
        "because it asked for more than is free",
        "checkpoint of step 36",
        "2 steps lost; it helped.",
    ):
        assert words in text
    assert "\x1b" not in text
    assert vigil(["show", "vit-l", "--json"]) == 0
    turns = json.loads(capsys.readouterr().out)["attempts"][1]["correction"]["turns"]
    assert turns == [{"key": "config.attention.sdpa_chunk", "from": 128, "to": 64}]


@pytest.mark.parametrize(
    ("until", "fields", "code"),
    [
        ("first-step", {"attempts": (attempt(1, first_step=1),)}, 0),
        ("first-step", {"state": RunState.FAILED}, 5),
        ("first-step", {"state": RunState.STOPPED}, 1),
        ("step:5", {"progress": Progress(step=5)}, 0),
        ("step:9", {"state": RunState.HELD, "attempts": (attempt(1, last_step=8),)}, 5),
        ("step:8", {"state": RunState.FINISHED, "attempts": (attempt(1, last_step=8),)}, 0),
        ("ended", {"state": RunState.FINISHED}, 0),
        ("ended", {"state": RunState.STOPPED}, 0),
        ("ended", {"state": RunState.FAILED}, 5),
        ("ended", {"state": RunState.HELD}, 5),
        ("trouble", {"state": RunState.RESTARTING}, 0),
        ("trouble", {"state": RunState.FINISHED}, 0),
    ],
)
def test_wait(served, capsys, until, fields, code):
    served.fleet.put("a", **fields)
    assert vigil(["wait", "a", "--until", until, "--timeout", "5"]) == code


def test_wait_for_a_checkpoint_of_the_newest_attempt(served):
    run = served.fleet.put("a", attempts=(attempt(1, state="ended"), attempt(2)))
    earlier = Event(seq=1, at=NOW, run=run.id, attempt=1, type=EventType.ATTEMPT_CHECKPOINT)
    served.fleet.store.log_events.append(earlier)
    assert vigil(["wait", "a", "--until", "checkpoint", "--timeout", "0.1"]) == 7
    served.fleet.store.log_events.append(earlier.model_copy(update={"seq": 2, "attempt": 2}))
    assert vigil(["wait", "a", "--until", "checkpoint", "--timeout", "5"]) == 0


def test_logs_are_byte_for_byte_and_follow_over_attempts(served, capfdbinary):
    first, second = bytes(range(256)) * 20_000, b"resumed\r\n\x1b[1mdone\n"
    run = served.fleet.put(
        "a", state=RunState.FINISHED, attempts=(attempt(1, state="ended"), attempt(2, state="ended"))
    )
    served.fleet.store.logs = {(run.id, 1): first, (run.id, 2): second}
    assert vigil(["logs", "a"]) == 0
    assert capfdbinary.readouterr().out == second
    assert vigil(["logs", "a", "--attempt", "1", "--since", "100"]) == 0
    assert capfdbinary.readouterr().out == first[100:]
    assert vigil(["logs", "a", "-f"]) == 0
    assert capfdbinary.readouterr().out == second
    served.fleet.change("a", attempts=(attempt(1, state="ended"), attempt(2, state="ended")))
    assert vigil(["logs", "a", "-f", "--attempt", "1"]) == 0
    assert capfdbinary.readouterr().out == first


def test_logs_follow_into_the_next_attempt_without_losing_or_doubling_a_byte(served):
    run = served.fleet.put("a", attempts=(attempt(1),))
    logs = served.fleet.store.logs
    logs[run.id, 1] = b"first "
    following = subprocess.Popen(
        [sys.executable, "-m", "supervisor.cli.main", "logs", "a", "-f"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert following.stdout.read(6) == b"first "
    logs[run.id, 1] += b"grows\n"
    logs[run.id, 2] = b"second\n"
    ended = (attempt(1, state="ended"), attempt(2, state="ended"))
    served.fleet.change("a", state=RunState.FINISHED, attempts=ended)
    out, err = following.communicate(timeout=60)
    assert (following.returncode, out, err) == (0, b"grows\nsecond\n", b"vigil: attempt 2\n")
    assert vigil(["logs", "a", "-f", "--attempt", "3"]) == 3


def test_lost_bytes_are_said_on_stderr(served, capfdbinary):
    run = served.fleet.put("a", attempts=(attempt(1),))
    served.fleet.store.logs[run.id, 1] = b"0123456789"
    served.fleet.store.gaps[run.id, 1] = (0, 4)
    assert vigil(["logs", "a"]) == 0
    printed = capfdbinary.readouterr()
    assert (printed.out, printed.err) == (b"456789", b"vigil: 4 bytes are lost here\n")


def test_a_reader_that_has_seen_enough_is_no_error(served):
    run = served.fleet.put("a", attempts=(attempt(1),))
    served.fleet.store.logs[run.id, 1] = b"line\n" * 1_000_000
    script = f"{sys.executable} -m supervisor.cli.main logs a | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["line", "0"]
    assert done.stderr == ""


def test_nodes(served, capsys, tmp_path):
    assert vigil(["node", "add", "gpubox", "root@gpubox:2222", "--pct", "200"]) == 1
    assert "--accept-key SHA256:fake" in capsys.readouterr().err
    assert "gpubox" not in served.fleet.node_specs
    assert vigil(["node", "add", "gpubox", "gpubox", "--accept-key", "SHA256:other"]) == 1
    # 1: tmux is missing there, and without it no run can live.
    assert vigil(["node", "add", "gpubox", "root@gpubox:2222", "--pct", "200", "--accept-key", "SHA256:fake"]) == 1
    added = served.fleet.node_specs["gpubox"]
    assert added.shown == "gpubox / ct 200"
    assert (added.ssh.user, added.ssh.port, added.host_keys) == ("root", 2222, ("ssh-ed25519 AAAAfake",))
    assert "mend: apt install tmux" in capsys.readouterr().out
    assert vigil(["node", "check", "gpubox"]) == 1
    capsys.readouterr()
    run = tmp_path / "run.yaml"
    run.write_text("name: a\nnode: gpubox\ncommand: x\nworkdir: ~/vit\ncheckpoint: {path: out}\n", "utf-8")
    assert vigil(["node", "check", "gpubox", "-f", str(run)]) == 1
    printed = capsys.readouterr().out
    assert "disk at workdir: ~/vit\n" in printed
    assert "disk at checkpoint: ~/vit/out\n" in printed
    assert vigil(["node", "ls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "local", "gpubox"]
    assert all(len(line) <= 80 for line in lines)
    assert vigil(["node", "rm", "gpubox", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["key"] == "kept"  # nobody can be asked


def test_events_screen_and_attach(served, spec, capsys):
    vigil(["run", "-f", spec])
    capsys.readouterr()
    assert vigil(["events", "vit-l"]) == 0
    assert "run.created" in capsys.readouterr().out
    assert vigil(["screen", "vit-l"]) == 0
    assert capsys.readouterr().out == "hello\n\n"
    done = subprocess.run(
        [sys.executable, "-m", "supervisor.cli.main", "attach", "vit-l", "--write"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TERM": "xterm-ghostty"},
    )
    assert done.stdout == "vit-l xterm-ghostty write\n"


def test_attach_prints_the_command_and_says_how_an_attempt_ended(served, capsys, monkeypatch):
    served.fleet.put("a b", attempts=(attempt(1, state="ended"),))
    monkeypatch.setenv("TERM", "no type; of a terminal")
    assert vigil(["attach", "a b", "--print", "--attempt", "1"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "echo 'a b' no-term read-only\n"
    assert "attempt 1 ended" in printed.err


def test_ctrl_c_is_130(served):
    served.fleet.put("a")
    waiting = subprocess.Popen(
        [sys.executable, "-m", "supervisor.cli.main", "events", "a", "-f"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    served.fleet.store.log_events.append(Event(seq=1, at=NOW, run="id-0", type=EventType.RUN_STATE))
    assert waiting.stdout.readline()
    waiting.send_signal(2)
    _, err = waiting.communicate(timeout=20)
    assert (waiting.returncode, err) == (130, b"")


def test_a_folders_token_goes_to_the_folders_daemon_only(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("VIGIL_SERVER", raising=False)
    monkeypatch.delenv("VIGIL_TOKEN", raising=False)
    (tmp_path / "admin.token").write_text("secret")
    monkeypatch.setenv("VIGIL_DATA_FOLDER", str(tmp_path))
    assert vigil(["ps"]) == 6
    assert f"No running daemon was found in {tmp_path}." in capsys.readouterr().err


def test_what_a_call_answers_is_not_cut(served, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    served.fleet.put("vit-l", state=RunState.HELD)
    assert vigil(["hold", "vit-l", "-m", "x" * 100]) == 0
    assert capsys.readouterr().out == f"vit-l held, on hold by the admin: {'x' * 100}\n"


def test_no_words_at_all_show_the_help(capsys):
    assert vigil([]) == 2
    assert capsys.readouterr().err.startswith("Usage: vigil")


def test_the_client_raises_the_daemons_errors(served, monkeypatch):
    served.fleet.put("a")
    with Vigil() as client:
        assert client.run("a").state is RunState.RUNNING
        with pytest.raises(NotFound):
            client.run("gone")
        with pytest.raises(Conflict):
            client.start("a")
        with pytest.raises(InvalidInput) as caught:
            client.create_run({"nmae": "x"})
        assert "did you mean 'name'?" in [fault.get("remedy") for fault in caught.value.faults]
        spec = {"name": "b", "node": "local", "command": "x"}
        assert client.create_run(spec, idempotency_key="k").id == client.create_run(spec, idempotency_key="k").id
    with Vigil(token="wrong") as client, pytest.raises(Unauthorized):
        client.run("a")
    with Vigil(server="http://127.0.0.1:9") as client, pytest.raises(DaemonUnreachable):
        client.run("a")
