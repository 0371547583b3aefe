"""A session that a person started: watched from its scrollback to its end, and left as it was."""

import itertools
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.probe import exits, processes
from tests.integration.probe.conftest import R1, R2, Probe, Refused, until
from tests.integration.probe.people import ODD, Person

SHOWN = re.compile(r"^step (\d+)/", re.MULTILINE)


@pytest.fixture
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Person]]:
    """Makes one; all servers are ended afterwards."""
    made: list[Person] = []

    def make(**how: Any) -> Person:
        made.append(Person(tmp_path_factory.mktemp("p"), **how))
        return made[-1]

    yield make
    for one in made:
        one.close()


def look(probe: Probe, person: Person, **more: Any) -> dict[str, Any]:
    args = {"tmux": "mine", "pane": None, "socket": str(person.socket), "socket_name": None, "log": None, **more}
    return probe.call("adoptable", **args)


def adopt(probe: Probe, person: Person, run: str = R1, **more: Any) -> dict[str, Any]:
    found = look(probe, person, **more)
    spec = found["draft"]["spec"]
    reply = probe.call(
        "adopt",
        run=run,
        attempt=1,
        token=1,
        adopted=found,
        command=spec["command"],
        workdir=spec["workdir"],
        metrics=None,
        checkpoint=None,
    )
    assert reply["state"] == "started", reply
    return found


def steps_and_gaps(probe: Probe, run: str = R1) -> tuple[list[int], list[dict[str, Any]]]:
    data, gaps = probe.whole_log(run)
    text = re.sub(r"[^\n]*\r", "", data.decode())
    return [int(number) for number in SHOWN.findall(text)], gaps


def reader(probe: Probe, run: str = R1) -> int:
    members = processes.Members(str(probe.folder(run)), run, 1)
    key = members.wrapper()
    assert key is not None
    return key[0]


@pytest.mark.parametrize("configuration", ["", ODD], ids=["default", "odd"])
def test_it_is_read_from_the_first_step_to_the_last_and_nothing_is_doubled(probe, person, configuration):
    mine = person(configuration=configuration)
    mine.trains(0, 150, 0.02)
    found = adopt(probe, mine)
    assert found["piped"] is False
    assert found["pane"] == mine.tmux("list-panes", "-t", "mine", "-F", "#{pane_id}").strip()
    assert probe.observe(R1)["processes"]["alive"] == 1
    ended = probe.ended(R1)
    numbers, gaps = steps_and_gaps(probe)
    assert numbers == list(range(150))
    assert [gap["why"] for gap in gaps] == ["shown before this process was started"]
    assert ended["exit"]["started_unix_s"] == pytest.approx(found["started_unix_s"])
    if exits.kernel_tells():
        assert ended["exit"]["code"] == 0
    else:
        assert ended["exit"]["unknown_why"]
    until(lambda: probe.observe(R1)["log"]["closed"], "it is closed")
    assert probe.observe(R1)["session"] == "alive"


def test_a_burst_larger_than_the_history_is_a_gap_and_nothing_is_invented(probe, person):
    mine = person(configuration=ODD)
    mine.trains(0, 20, 0.1)
    adopt(probe, mine)
    until(lambda: len(steps_and_gaps(probe)[0]) > 5, "it is read")
    probe.ended(R1)
    mine.close()
    other = person(configuration=ODD)
    (other.folder / "wait").touch()
    other.trains(0, 6000, 0)
    adopt(probe, other, R2)
    (other.folder / "wait").unlink()
    probe.ended(R2)
    numbers, gaps = steps_and_gaps(probe, R2)
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 5999
    assert numbers[0] > 0
    assert gaps


def test_a_burst_between_two_looks_is_a_gap_where_it_happened(probe, person):
    mine = person(configuration=ODD)
    parts = [f"read x\nseq -f 'line %g' {first} {last}\n" for first, last in ((1, 40), (41, 9000), (9001, 9020))]
    (mine.folder / "burst.sh").write_text("echo ready\n" + "".join(parts), "utf-8")
    mine.types("bash burst.sh")
    mine.until(lambda: "ready" in mine.shown(), "it waits")
    adopt(probe, mine)
    last = 0
    for end in (40, 9000, 9020):
        mine.types("")
        until(lambda end=end: f"line {end}\n".encode() in probe.whole_log(R1)[0], f"line {end} is read")
        last = end
    data, gaps = probe.whole_log(R1)
    numbers = [int(word) for word in re.findall(rb"^line (\d+)$", data, re.MULTILINE)]
    assert last == 9020
    assert numbers == sorted(set(numbers))
    assert numbers[:40] == list(range(1, 41))
    assert numbers[-20:] == list(range(9001, 9021))
    # Each jump in the numbers has its gap, and a gap stands for a jump.
    jumps = [pair for pair in itertools.pairwise(numbers) if pair[1] != pair[0] + 1]
    assert jumps
    assert len([gap for gap in gaps if "joined" in gap["why"]]) >= len(jumps)


def test_an_existing_pipe_goes_on_byte_for_byte(probe, person):
    mine = person()
    copy = mine.folder / "copy"
    mine.tmux("pipe-pane", "-t", "mine", f"cat > {copy}")
    mine.until(lambda: mine.tmux("display-message", "-p", "-t", "mine", "#{pane_pipe}").strip() == "1", "the pipe")
    mine.trains(0, 100, 0.02)
    found = adopt(probe, mine)
    assert found["piped"] is True
    probe.ended(R1)
    assert mine.tmux("display-message", "-p", "-t", "mine", "#{pane_pipe}").strip() == "1"
    mine.until(lambda: b"step 99/" in copy.read_bytes(), "the person's own pipe gets the last line")
    assert [int(one) for one in re.findall(rb"step (\d+)/", copy.read_bytes())] == list(range(100))
    assert steps_and_gaps(probe)[0] == list(range(100))


def test_nothing_of_the_session_is_changed(probe, person):
    mine = person(configuration=ODD)
    mine.trains(0, 60, 0.02)
    before = everything(mine)
    adopt(probe, mine)
    probe.observe(R1, screen=True)
    probe.call("screen", run=R1, attempt=1)
    argv = probe.call("session", run=R1, attempt=1)["argv"]
    assert str(mine.socket) in argv
    with pytest.raises(Refused) as refused:
        probe.stop(R1)
    assert refused.value.code == "call_refused"
    assert everything(mine) == before
    probe.ended(R1)


def everything(person: Person) -> list[str]:
    """Whatever of a server, its sessions and its options a client can see."""
    format_ = "#{session_id} #{session_attached} #{window_layout} #{pane_id} #{pane_pipe} #{pane_in_mode}"
    return [
        person.tmux("list-panes", "-a", "-F", format_),
        person.tmux("show-options", "-g"),
        person.tmux("show-options", "-s"),
        person.tmux("show-window-options", "-g"),
        person.tmux("show-environment", "-g"),
        person.tmux("list-buffers"),
        person.tmux("list-clients"),
    ]


def test_a_killed_reader_and_a_killed_probe_lose_and_double_nothing(state: Path, person):
    mine = person()
    one = Probe(state)
    mine.trains(0, 200, 0.02)
    adopt(one, mine)
    until(lambda: len(steps_and_gaps(one)[0]) > 10, "it is read")
    os.kill(reader(one), signal.SIGKILL)
    one.kill()
    two = Probe(state)
    try:
        two.observe(R1)
        two.ended(R1)
        numbers, gaps = steps_and_gaps(two)
        assert numbers == list(range(200))
        assert len(gaps) == 1
    finally:
        two.close()


def test_the_end_that_nobody_saw_has_no_status(state: Path, person):
    mine = person()
    one = Probe(state)
    mine.trains(0, 100, 0.02, 3)
    adopt(one, mine)
    until(lambda: len(steps_and_gaps(one)[0]) > 10, "it is read")
    os.kill(reader(one), signal.SIGKILL)
    one.kill()
    mine.until(lambda: mine.shown().rstrip()[-1] in "$#", "it has ended")
    two = Probe(state)
    try:
        ended = two.ended(R1)
        assert ended["exit"]["code"] is None
        assert ended["exit"]["signal"] is None
        assert "not known" in ended["exit"]["unknown_why"]
        assert steps_and_gaps(two)[0] == list(range(100))
    finally:
        two.close()


def test_a_resize_while_it_is_read_doubles_nothing(probe, person):
    mine = person(columns=100)
    mine.trains(0, 300, 0.02)
    adopt(probe, mine)
    for width in (15, 100, 33, 90):
        size = len(steps_and_gaps(probe)[0])
        mine.tmux("resize-window", "-t", "mine", "-x", str(width), "-y", "12")
        until(lambda size=size: len(steps_and_gaps(probe)[0]) > size + 3, "it is read on")
    probe.ended(R1)
    numbers, gaps = steps_and_gaps(probe)
    if len(gaps) == 1:
        assert numbers == list(range(300))
    assert numbers[-1] == 299
    assert len(numbers) == len(set(numbers)) or len(gaps) > 1


def test_a_killed_server_is_an_end_that_is_said(probe, person):
    mine = person()
    mine.trains(0, 5000, 0.02)
    adopt(probe, mine)
    until(lambda: len(steps_and_gaps(probe)[0]) > 10, "it is read")
    mine.close()
    ended = probe.ended(R1)
    assert ended["session"] == "lost"
    assert ended["exit"]["code"] is None
    assert ended["exit"]["signal"] == "SIGHUP" or ended["exit"]["unknown_why"]
    assert ended["exit"]["hung_up"] or ended["exit"]["signal"] == "SIGHUP"


def test_a_renamed_session_is_the_same_pane(probe, person):
    mine = person()
    mine.trains(0, 150, 0.02)
    adopt(probe, mine)
    mine.tmux("rename-session", "-t", "mine", "other")
    probe.ended(R1)
    assert steps_and_gaps(probe)[0] == list(range(150))


def test_a_second_adoption_is_refused_until_the_first_is_forgotten(probe, person):
    mine = person()
    mine.trains(0, 5000, 0.02)
    adopt(probe, mine)
    with pytest.raises(Refused) as refused:
        look(probe, mine)
    assert R1 in refused.value.detail
    read_by = reader(probe)
    probe.call("forget", run=R1)
    until(lambda: not Path(f"/proc/{read_by}").exists() or processes.read_stat(read_by).state == "Z", "the reader ends")
    assert not probe.folder(R1).exists()
    size = len(mine.shown())
    mine.until(lambda: len(mine.shown()) > size, "the training goes on")
    adopt(probe, mine, R2)


def test_what_cannot_be_adopted_is_said(probe, person):
    mine = person()
    with pytest.raises(Refused) as refused:
        look(probe, mine)
    assert "a shell waits" in refused.value.detail
    with pytest.raises(Refused) as refused:
        look(probe, mine, tmux="nobody")
    assert refused.value.code == "not_found"
    with pytest.raises(Refused) as refused:
        look(probe, mine, socket="/nowhere/at/all")
    assert "/nowhere/at/all" in refused.value.detail
    mine.trains(0, 200, 0.02)
    with pytest.raises(Refused) as refused:
        look(probe, mine, log="no-such.log")
    assert "no-such.log" in refused.value.detail


def test_a_log_file_is_followed_over_truncation_and_rotation(probe, person):
    mine = person()
    log = mine.folder / "train.log"
    log.write_text("one\n", "utf-8")
    mine.types("sleep 1000 >> train.log")
    mine.until(
        lambda: mine.tmux("display-message", "-p", "-t", "mine", "#{pane_current_command}").strip() == "sleep", ""
    )
    adopt(probe, mine, log="train.log")
    with log.open("a") as file:
        file.write("two\n")
    until(lambda: probe.whole_log(R1)[0] == b"one\ntwo\n", "it is followed")
    log.write_text("3\n", "utf-8")
    until(lambda: probe.whole_log(R1)[0] == b"one\ntwo\n3\n", "it was cut")
    log.rename(log.with_suffix(".1"))
    log.write_text("four\n", "utf-8")
    until(lambda: probe.whole_log(R1)[0] == b"one\ntwo\n3\nfour\n", "it was replaced")
    assert [gap["why"].split(" was ")[1].split()[0].rstrip(";") for gap in probe.whole_log(R1)[1]] == [
        "cut",
        "replaced",
    ]
    mine.types("\x03")
    probe.ended(R1)


def test_the_draft_holds_names_of_secrets_and_no_values(probe, person):
    mine = person()
    (mine.folder / "out" / "checkpoint-20").mkdir(parents=True)
    text = "# from transformers import Trainer\n# Trainer(model)\n" + mine.script.read_text("utf-8")
    mine.script.write_text(text.replace("len(sys.argv) > 4", "False"), "utf-8")
    mine.trains(0, 300, 0.02, "--output_dir", "out", "--hf_token", "hf_abcdefghijklmnopqrstuvwxyz0123")
    found = look(probe, mine)
    spec = found["draft"]["spec"]
    assert spec["workdir"] == str(mine.folder)
    assert spec["env"]["HF_HOME"] == "/data/hf"
    assert "WANDB_API_KEY" in spec["secrets"]
    assert spec["preset"] == "hf-trainer"
    assert spec["checkpoint"] == {"path": "out", "step": r"checkpoint-(\d+)"}
    assert spec["command"].endswith("train.py 0 300 0.02 --output_dir out --hf_token '***'")
    assert "abcdef0123456789abcdef" not in str(found)
    assert "hf_abcdefghij" not in str(found)
    adopt(probe, mine)
    assert b"hf_abcdefghij" not in probe.whole_log(R1)[0]


@pytest.mark.parametrize("to_file", [False, True], ids=["terminal", "file"])
def test_a_secret_of_its_environment_is_masked_also_where_it_is_printed_in_two_halves(probe, person, to_file):
    mine = person()
    program = (
        "import os, time\nkey = os.environ['WANDB_API_KEY']\nprint('key', key[:11], end='', flush=True)\n"
        "while not os.path.exists('go'):\n time.sleep(.02)\nprint(key[11:], flush=True)\n"
        "while not os.path.exists('end'):\n time.sleep(.02)\n"
    )
    (mine.folder / "tells.py").write_text(program, "utf-8")
    mine.types("python3 tells.py" + (" > out.log" if to_file else ""))
    log = mine.folder / "out.log"
    mine.until(lambda: "key abcdef" in (log.read_text("utf-8") if to_file and log.exists() else mine.shown()), "it")
    adopt(probe, mine, log="out.log" if to_file else None)
    until(lambda: b"key ***********" in probe.whole_log(R1)[0], "the first half, masked")
    (mine.folder / "go").touch()
    until(lambda: b"key " + 22 * b"*" + b"\n" in probe.whole_log(R1)[0], "all of it, masked")
    (mine.folder / "end").touch()
    probe.ended(R1)
    data, gaps = probe.whole_log(R1)
    assert b"abcdef01" not in data
    assert not [gap for gap in gaps if "started" not in gap["why"]]


def test_a_finished_bar_is_one_line_and_an_unfinished_one_is_shown(probe, person):
    mine = person()
    bar = "print(f'\\r{n:3d}/80 [bar]',end='',flush=True); time.sleep(.03)"
    program = f"import time\nfor n in range(80):\n {bar}\nprint()\n"
    (mine.folder / "bar.py").write_text(program, "utf-8")
    mine.types("python3 bar.py")
    mine.until(lambda: "/80 [bar]" in mine.shown(), "the bar")
    adopt(probe, mine)
    until(lambda: probe.whole_log(R1)[0].count(b"\r") >= 2, "states of the bar between the looks")
    probe.ended(R1)
    assert b" 79/80 [bar]\n" in probe.whole_log(R1)[0]
    assert probe.whole_log(R1)[0].count(b"[bar]\n") == 1
