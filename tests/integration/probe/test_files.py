"""Configurations, metrics, checkpoints, slices: the files around an attempt."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.probe.conftest import R1, R2, R3, R4, Probe, Refused, until


def test_a_rendered_configuration_lies_in_the_attempts_folder(probe: Probe) -> None:
    reply = probe.launch(
        R1, "cat {config}; echo $WHERE", raw=b"a = 1\n", config_name="c.toml", env={"WHERE": "{config}"}
    )
    want = str(probe.folder(R1) / "c.toml")
    assert reply["config_path"] == want
    assert probe.ended(R1)["log_data"].decode().splitlines() == ["a = 1", want]


def test_a_rendered_copy_beside_a_file_never_overwrites_what_is_not_ours(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "train.yaml").write_text("a: 1\n")
    beside = {"config_beside": "conf/train.yaml", "workdir": str(tmp_path)}
    probe.launch(R1, ["cat", "{config}"], raw=b"a: 2\n", config_name="train.vigil.yaml", **beside)
    probe.ended(R1)
    assert (tmp_path / "conf" / "train.vigil.yaml").read_text() == "a: 2\n"
    # The next attempt may replace what Vigil itself has put there.
    reply = probe.launch(R1, ["cat", "{config}"], raw=b"a: 3\n", config_name="train.vigil.yaml", attempt=2, **beside)
    assert reply["state"] == "started"
    assert (tmp_path / "conf" / "train.vigil.yaml").read_text() == "a: 3\n"
    with pytest.raises(Refused, match="call_refused"):
        probe.launch(R2, ["cat", "{config}"], raw=b"x", config_name="train.yaml", **beside)
    assert (tmp_path / "conf" / "train.yaml").read_text() == "a: 1\n"


def test_an_untouched_configuration_is_used_as_it_is(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "my conf.yaml").write_text("hello\n")
    probe.launch(R1, "cat {config}", config_path="my conf.yaml", workdir=str(tmp_path))
    assert probe.ended(R1)["log_data"] == b"hello\r\n"


def test_a_folder_without_room_or_permission_is_a_named_error(probe: Probe) -> None:
    with pytest.raises(Refused, match="node_unfit"):
        probe.launch(R1, "true", raw=b"x", config_name="c.yaml", config_beside="/proc/c.yaml")


def test_the_metrics_file_is_followed_from_where_the_attempt_began(probe: Probe, tmp_path: Path) -> None:
    metrics = tmp_path / "m.jsonl"
    metrics.write_text('{"old": 1}\n')
    probe.launch(R1, f"echo '{{\"new\": 2}}' >> {metrics}", metrics=str(metrics))
    seen = probe.ended(R1)
    assert seen["metrics_data"] == b'{"new": 2}\n'
    assert seen["metrics"]["end"] == 11
    assert probe.observe(R1, metrics_cursor=5)["metrics_data"] == b'": 2}\n'


def test_a_metrics_file_in_the_attempts_folder(probe: Probe) -> None:
    probe.launch(R1, "echo hello > $METRICS", metrics="{attempt}/m.jsonl", env={"METRICS": "{attempt}/m.jsonl"})
    assert probe.ended(R1)["metrics_data"] == b"hello\n"


def test_checkpoints_are_complete_when_the_last_file_is_there(probe: Probe, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for step in (10, 9, 200):
        (out / f"step_{step}").mkdir(parents=True)
        (out / f"step_{step}" / "w").write_bytes(b"x" * step)
    (out / "step_9" / "done").touch()
    (out / "latest").symlink_to("step_200")
    plan = {"path": "out", "step": r"step_(\d+)", "complete": "done"}
    probe.launch(R1, "true", workdir=str(tmp_path), checkpoint=plan)
    found = probe.ended(R1)["checkpoints"]
    assert [(one["step"], one["complete"], one["size_bytes"]) for one in found] == [
        (9, True, 9),
        (10, False, 10),
        (200, False, 200),
    ]
    assert found[0]["path"] == str(out / "step_9")


def test_a_checkpoint_without_a_last_file_is_complete_when_it_no_longer_grows(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "ckpt-7.pt").write_bytes(b"x")
    plan = {"path": ".", "step": r"ckpt-(\d+)", "complete": None}
    probe.launch(R1, "sleep 1000", workdir=str(tmp_path), checkpoint=plan)
    (first,) = probe.observe(R1)["checkpoints"]
    assert first["complete"] is False
    until(lambda: probe.observe(R1)["checkpoints"][0]["complete"], "the second look")


def test_a_file_is_read_in_slices(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    assert probe.receive(probe.send("read", path="f", offset=3, size=4, base=str(tmp_path))) == (
        {"offset": 3, "size": 4, "end": 10},
        b"3456",
    )
    with pytest.raises(Refused, match="not_found"):
        probe.call("read", path="g", offset=0, size=1, base=str(tmp_path))
    with pytest.raises(Refused, match="call_refused"):
        probe.call("read", path=str(tmp_path), offset=0, size=1)


def test_the_code_is_named_with_what_is_not_committed(probe: Probe, tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "train.py").write_text("1")
    subprocess.run([*git, "add", "train.py"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    clean = _code(probe, R1, tmp_path)
    assert len(clean["head"]) == 40
    assert clean["dirty"] is None
    (tmp_path / "train.py").write_text("2")
    dirty = _code(probe, R2, tmp_path)
    (tmp_path / "new.py").write_text("3")
    dirtier = _code(probe, R3, tmp_path)
    (tmp_path / "new.py").write_text("4")
    dirtiest = _code(probe, R4, tmp_path)
    assert len({clean["dirty"], dirty["dirty"], dirtier["dirty"], dirtiest["dirty"]}) == 4
    assert _code(probe, R1, tmp_path) == clean


def test_no_repository_is_no_error(probe: Probe, tmp_path: Path) -> None:
    found = _code(probe, R1, tmp_path)
    assert "head" not in found
    assert found["why"] == "the work folder is in no git repository"


def _code(probe: Probe, run: str, workdir: Path) -> dict[str, Any]:
    """The launch's answer; where the look took longer than the launch waits, the observation's."""
    reply = probe.launch(run, "true", workdir=str(workdir))["code"]
    found: dict[str, Any] = reply or until(lambda: probe.observe(run, about=True).get("code"), "the code is told")
    return found
