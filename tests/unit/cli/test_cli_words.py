"""What the command line says: events, histories, addresses, spec files, the demo's spec."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.demo import CONFIG, demo_spec, examples_folder
from supervisor.cli.demo_story import Story
from supervisor.cli.nodes import container_of, row_of, ssh_of
from supervisor.cli.specfile import key_values, lay_over, read_spec
from supervisor.cli.telling import sentence_of
from supervisor.model.errors import InvalidInput
from supervisor.model.event import Event, EventType
from supervisor.model.reading import parse_spec, unsupported
from supervisor.model.run import LinkView, Run, RunState
from supervisor.model.verdict import Progress

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def event(kind, seq=1, **data):
    return Event(seq=seq, at=NOW, run="r", attempt=1, type=kind, data=data)


@pytest.mark.parametrize("kind", list(EventType))
def test_every_event_has_a_sentence_even_without_its_facts(kind):
    assert isinstance(sentence_of(event(kind)), str)


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        (
            EventType.RUN_STATE,
            {"from": "running", "to": "failed", "reason": "no knob left"},
            "running -> failed: no knob",
        ),
        (
            EventType.ATTEMPT_ENDED,
            {"exit": {"code": None, "signal": "SIGKILL"}, "last_step": 8},
            "SIGKILL after step 8",
        ),
        (EventType.ATTEMPT_ENDED, {"started": False, "why": "no tmux"}, "was not started: no tmux"),
        (EventType.VERDICT_CHANGED, {"verdict": {"sentence": "It runs."}}, "It runs."),
        (
            EventType.ATTEMPT_LAUNCHED,
            {"by": "vigil", "correction": {"turns": [{"key": "env.X", "from": 1, "to": 2}]}, "resumed_from": 8},
            "with env.X 1 -> 2, from the checkpoint of step 8",
        ),
        (EventType.RUN_CALLED, {"by": "ann", "call": "edit", "changed": {"policy": 1}}, "ann asked to change policy"),
        (EventType.RUN_CALLED, {"by": "ann", "call": "restart", "set": {"env.X": 1}, "why": "why not"}, "env.X=1: why"),
    ],
)
def test_sentences(kind, data, words):
    assert words in sentence_of(event(kind, **data))


@pytest.mark.parametrize(
    ("address", "host", "port", "user"),
    [
        ("gpubox", "gpubox", None, None),
        ("root@gpubox:2222", "gpubox", 2222, "root"),
        ("[::1]:22", "::1", 22, None),
        ("me@[fe80::1]", "fe80::1", None, "me"),
        ("fe80::1", "fe80::1", None, None),
        ("user@domain@host", "host", None, "user@domain"),
    ],
)
def test_addresses(address, host, port, user):
    assert ssh_of(address, None) == {"host": host, "port": port, "user": user, "via": None}


@given(st.from_regex(r"[a-z0-9.-]{1,20}", fullmatch=True), st.none() | st.integers(1, 65535))
def test_an_address_is_read_as_it_was_written(host, port):
    read = ssh_of(host if port is None else f"{host}:{port}", None)
    assert (read["host"], read["port"]) == (host, port)


def test_one_container_at_most():
    assert container_of({"pct": "200", "lxc": None}, None, sudo=True) == {"kind": "pct", "id": "200", "sudo": True}
    assert container_of({}, "nsenter -t 1", sudo=False)["prefix"] == ["nsenter", "-t", "1"]
    assert container_of({}, None, sudo=False) is None
    for bad in (({"pct": "1", "lxc": "b"}, None), ({"pct": "1"}, "x")):
        with pytest.raises(InvalidInput):
            container_of(*bad, sudo=False)
    with pytest.raises(InvalidInput, match="--sudo"):
        container_of({}, None, sudo=True)


def test_settings_have_a_place_or_are_refused():
    spec = {"name": "a", "config": {"file": "x.toml"}, "node": "n"}
    assert lay_over(spec, ["node=other", "watch.interval_s=2", "config.file=y.toml"]) == {
        "name": "a",
        "node": "other",
        "watch": {"interval_s": 2},
        "config": {"file": "y.toml"},
    }
    for setting in ("config.lr=1", "args.--lr=1", "name.x=1"):
        with pytest.raises(InvalidInput) as caught:
            lay_over(spec, [setting])
        assert caught.value.faults[0]["place"] == f"--set {setting.split('=')[0]}"
    assert spec == {"name": "a", "config": {"file": "x.toml"}, "node": "n"}


def test_values_of_the_command_line():
    assert key_values(["config.a=0.5", "env.B=0.5", "args.--c=x=y"]) == {
        "config.a": 0.5,
        "env.B": "0.5",
        "args.--c": "x=y",
    }


def test_the_demos_spec_is_valid_and_runs_in_a_folder_of_its_own(tmp_path):
    data = demo_spec(examples_folder(), tmp_path)
    spec = parse_spec(data)
    unsupported(spec)
    assert (Path(spec.workdir) / CONFIG).is_file()
    assert spec.config_is_used
    assert Path(spec.command[0]).is_file()


def test_a_spec_that_is_no_mapping_names_its_file(tmp_path):
    path = tmp_path / "s.yml"
    path.write_text("- a\n- b\n")
    with pytest.raises(InvalidInput, match=r"s\.yml must be a mapping"):
        read_spec(path)


def test_the_story_tells_every_event_once():
    told = []
    story = Story(told.append)
    run = Run(
        id="r",
        name="demo",
        node="local",
        desired="running",
        state=RunState.RUNNING,
        link=LinkView(ok=True),
        created_at=NOW,
        updated_at=NOW,
        progress=Progress(),
    )
    verdict = event(EventType.VERDICT_CHANGED, 1, verdict={"sentence": "It ran out of memory."})
    decision = event(EventType.DECISION_TAKEN, 2, decision={"sentence": "It ran out of memory."})
    story.tell([verdict, decision, event(EventType.RUN_STATE, 3)], run)
    assert [line.split("  ")[1] for line in told] == ["attempt 1: It ran out of memory."]
    assert story.seq == 3


def test_a_node_on_hold_still_says_what_is_wrong_with_it() -> None:
    node = {
        "name": "gpubox-200",
        "shown": "gpubox / ct 200",
        "link": {"ok": False, "error": "it does not answer"},
        "missing": [],
        "gpus": [{"index": 0, "claimed_by": "vit-l"}, {"index": 1, "claimed_by": None}],
        "hold": {"by": "ada", "why": "driver update"},
    }
    assert row_of(node)[-1] == "on hold by ada: driver update; it does not answer; vit-l has GPU 0"
    assert row_of(node | {"hold": None, "gpus": []})[-1] == "it does not answer"
