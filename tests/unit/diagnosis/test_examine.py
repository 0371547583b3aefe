import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.diagnosis.examine import UnknownVersion, examine
from supervisor.diagnosis.state import MAX_STATE_BYTES
from supervisor.model.causes import catalogue
from supervisor.model.observation import Checkpoint, Gap, Slice
from tests.unit.diagnosis.build import CPU_OOM, GONE, OOM, START_S, context, ended, examined, look, moment, spec, steps

STORY = (
    "loading checkpoint shards\r\n"
    "\r  0%|          | 0/90 [00:00<?, ?it/s]\r  1%|          | 1/90 [00:17<25:28,  1.06s/it]"
    + steps(1, 12, total=90)
    + "WARNING: CUDA out of memory. Tried to allocate 6.20 GiB. GPU 0 has a total capacity of 44.39 GiB\r\n"
    + "CUDA OOM at batch size 256, retrying with 128\r\n"
    + steps(13, 30, total=90)
    + "[rank1]: "
    + OOM.replace("\r\n", "\r\n[rank1]: ")
    + "\r\nE api.py:874] failed (exitcode: 1) local_rank: 1 (pid: 5133) of binary: python\r\nKilled"
).encode()
METRICS = b"".join(
    json.dumps({"t": START_S + step, "event": "step", "step": step, "total_steps": 50, "loss": 2.0}).encode() + b"\n"
    for step in range(1, 21)
)


def folded(data: bytes, cuts: list[int], *, code: int | None) -> tuple[bytes, str, int | None]:
    """State before the end, then cause and last step after it."""
    state: bytes | None = None
    start = 0
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        seen = look(data[start:cut], offset=start)
        seen = seen.model_copy(update={"log": seen.log.model_copy(update={"end": len(data) + 1})})
        state = examine(spec(), state, seen, moment(100), context=context()).state
        start = cut
    record = ended(code) if code is not None else None
    last = examined(look("", offset=len(data), record=record), state=state)
    assert state is not None
    return state, last.verdict.cause, last.last_step


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, len(STORY)), max_size=8), st.sampled_from([None, 0, 1, 137]))
def test_any_cutting_of_a_log_gives_the_same_state_and_verdict(cuts: list[int], code: int | None) -> None:
    whole, cut = folded(STORY, [], code=code), folded(STORY, cuts, code=code)
    assert _without_last(cut[0]) == _without_last(whole[0])
    assert cut[1:] == whole[1:]


WILD = st.one_of(
    st.binary(max_size=300),
    st.sampled_from(
        [STORY, OOM.encode(), b"\r" * 50, b"\n" * 50, b"%|", b"loss nan\r\n" * 20, b"x" * 20_000, b"{" * 900]
    ),
    st.text(max_size=120).map(lambda text: text.encode("utf-8", "surrogatepass")),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(WILD, max_size=8), st.sampled_from([None, 0, 1, 130, 137]), st.sampled_from([None, 20]))
def test_any_bytes_are_survived_and_the_state_stays_small(
    pieces: list[bytes], code: int | None, columns: int | None
) -> None:
    state: bytes | None = None
    offset = 0
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        record = ended(code) if last and code is not None else None
        seen = look(piece, offset=offset, record=record, metrics=piece)
        examination = examine(spec(), state, seen, moment(100), context=context(columns=columns))
        state, offset = examination.state, offset + len(piece)
        assert len(state) <= MAX_STATE_BYTES
        assert examination.verdict.cause in catalogue()


def test_the_state_stays_small_when_every_signature_matches_in_many_alphabets() -> None:
    from supervisor.diagnosis.signatures import library

    text = "".join(f'{signature.example} {"読" * 400} \x01\x02"\\\r\n' for signature in library().signatures)
    examination = examined(look(text + "ü" * 9000, metrics=b"\x00" * 9000))
    assert len(examination.state) <= MAX_STATE_BYTES
    assert examined(look("", offset=len(text.encode()) + 18_000), state=examination.state).verdict.cause


def test_a_piece_delivered_twice_changes_nothing() -> None:
    once = examined(look(steps(1, 5)))
    twice = examined(look(steps(1, 5)), look(steps(1, 5)))
    assert _without_last(twice.state) == _without_last(once.state)
    assert twice.last_step == 5


def test_a_gap_loses_the_numbers_of_lines_but_not_the_verdict() -> None:
    first = look(steps(1, 5), gaps=(Gap(offset=len(steps(1, 5)), size_bytes=1000, why="rotated"),))
    offset = first.log.next_offset
    verdict = examined(first, look(OOM, offset=offset, record=ended(1))).verdict
    assert (verdict.cause, verdict.evidence[0].line) == ("gpu_oom", None)
    unannounced = examined(look(steps(1, 5)), look(OOM, offset=5000, record=ended(1))).verdict
    assert (unannounced.cause, unannounced.evidence[0].line) == ("gpu_oom", None)


def test_evidence_names_the_line_of_the_log() -> None:
    verdict = examined(look(steps(1, 5) + OOM, record=ended(1))).verdict
    assert (verdict.evidence[0].line, verdict.confidence) == (9, "proved")
    assert verdict.evidence[0].text.startswith("torch.OutOfMemoryError: CUDA out of memory.")
    assert {ruled.cause for ruled in verdict.ruled_out} == {"gpu_oom_fragmented", "gpu_oom_foreign"}


def test_a_host_allocation_tells_how_much_was_asked() -> None:
    verdict = examined(look(steps(1, 5) + CPU_OOM, record=ended(1))).verdict
    assert (verdict.cause, verdict.retry, verdict.figures["asked_bytes"]) == (
        "host_alloc_failed",
        "corrected",
        268435456,
    )


def test_a_state_of_another_version_asks_for_a_refold() -> None:
    state = examined(look(steps(1, 2))).state
    for broken in (state.replace(b'"version":1', b'"version":99'), b"{}", b"\xff", state[:-5]):
        with pytest.raises(UnknownVersion):
            examine(spec(), broken, look(), moment(1), context=context())


def test_since_is_kept_while_the_cause_stays() -> None:
    first = examined(look(steps(1, 3), after_s=10))
    later = examined(look(steps(4, 6), offset=len(steps(1, 3)), after_s=40), state=first.state)
    assert later.verdict.cause == "healthy"
    assert later.verdict.since == moment(10)


def test_starting_then_healthy_with_progress() -> None:
    begun = examined(look("loading model\r\n"))
    assert (begun.verdict.cause, begun.first_step, begun.phase) == ("starting", None, "loading")
    running = examined(look(steps(1, 5), offset=15, after_s=200), state=begun.state)
    assert (running.verdict.cause, running.first_step, running.last_step) == ("healthy", 1, 5)
    assert running.last_progress_at == moment(200)
    assert running.phase == "training"
    assert not running.verdict.final


def test_the_metrics_file_tells_steps_phase_and_the_end() -> None:
    saving = METRICS + b'{"t": 1.0, "event": "phase", "phase": "saving", "begin": true}\n'
    seen = examined(look("step 77 loss 1.0\r\n", metrics=saving))
    assert (seen.first_step, seen.last_step, seen.progress.total_steps, seen.phase) == (1, 20, 50, "saving")
    done = examined(look("", metrics=METRICS + b'{"event": "finished"}\n', record=ended(0)))
    assert done.verdict.cause == "finished"
    undone = examined(look("", metrics=METRICS, record=ended(0)))
    assert undone.verdict.cause == "exit_without_completion"
    failed = examined(look("", metrics=METRICS + b'{"event": "failed", "cause": "gpu_oom"}\n', record=ended(1)))
    assert failed.verdict.cause == "gpu_oom"


def test_a_resume_that_fell_back_is_told_while_it_runs() -> None:
    resumed = context(resumed_from=25)
    event = b'{"t": 5.0, "event": "step", "step": %d, "loss": 2.0}\n'
    assert examined(look("", metrics=event % 25), within=resumed).verdict.cause == "resume_failed"
    assert examined(look("", metrics=event % 1), within=resumed).verdict.cause == "resume_failed"
    assert examined(look("", metrics=event % 26), within=resumed).verdict.cause == "healthy"
    assert examined(look("step 1 loss 2.0\r\n"), within=resumed).verdict.cause == "resume_failed"
    assert examined(look("step 26 loss 2.0\r\n"), within=resumed).verdict.cause == "healthy"
    assert examined(look("Epoch: [3][ 10/5005]\tLoss 6.8\r\n"), within=resumed).verdict.cause == "healthy"


def test_blindness_keeps_the_last_verdict() -> None:
    first = examined(look(steps(1, 5), after_s=10))
    blind = look(
        "", offset=len(steps(1, 5)), after_s=9000, processes=None, session="unknown", blind={"tmux": "timeout"}
    )
    kept = examined(blind, state=first.state)
    assert kept.verdict == first.verdict.model_copy(update={"also": ()})
    assert examined(blind, blind, state=first.state).verdict.cause == "healthy"


def test_a_container_that_stands_still_is_told() -> None:
    first = examined(look(steps(1, 5)))
    down = look("", offset=len(steps(1, 5)), processes=None, blind={"container": "CT 200 not running"})
    verdict = examined(down, state=first.state).verdict
    assert (verdict.cause, verdict.retry, verdict.final) == ("container_down", "host", False)


def test_the_newest_complete_checkpoint_is_told() -> None:
    found = (
        Checkpoint(step=10, path="a", complete=True),
        Checkpoint(step=30, path="c", complete=False),
        Checkpoint(step=20, path="b", complete=True),
    )
    newest = examined(look(checkpoints=found)).checkpoint
    assert newest is not None
    assert newest.step == 20
    assert examined(look()).checkpoint is None


def test_survivors_keep_the_end_open() -> None:
    record = ended(1)
    seen = look(OOM, record=record, processes=GONE.model_copy(update={"alive": 1}))
    seen = seen.model_copy(update={"log": Slice(offset=0, data=OOM.encode(), end=len(OOM.encode()))})
    verdict = examined(seen).verdict
    assert (verdict.cause, verdict.final) == ("gpu_oom", False)


def test_an_own_pattern_of_the_spec_is_read() -> None:
    seen = examined(
        look("S5 of 9 L1.5\r\nS6 of 9 L1.4\r\n"), of=spec(progress=r"S(?P<step>\d+) of (?P<total>\d+) L(?P<loss>\S+)")
    )
    assert (seen.first_step, seen.last_step, seen.progress.total_steps, seen.progress.loss) == (5, 6, 9, 1.4)


def test_a_failure_that_progress_followed_is_none() -> None:
    text = steps(1, 5) + "WARNING: CUDA out of memory. Tried to allocate 6.20 GiB.\r\n" + steps(6, 9)
    verdict = examined(look(text)).verdict
    assert (verdict.cause, verdict.retry) == ("oom_handled", "none")
    assert examined(look(text + steps(10, 12), record=ended(0))).verdict.cause == "finished"


def _without_last(state: bytes) -> dict[str, object]:
    return {name: value for name, value in json.loads(state)["fold"].items() if name != "devices"}


def test_what_a_shared_metrics_file_tells_of_an_earlier_attempt_does_not_count() -> None:
    event = b'{"t": %d, "event": "step", "step": %d, "loss": 2.0}\n'
    shared = event % (START_S - 50, 25) + event % (START_S + 20, 26) + event % (START_S + 40, 27)
    seen = examined(look("", metrics=shared), within=context(resumed_from=25))
    assert (seen.first_step, seen.last_step, seen.verdict.cause) == (26, 27, "healthy")


def test_the_nodes_clock_may_differ_from_ours() -> None:
    event = b'{"t": %d, "event": "step", "step": 3, "loss": 2.0}\n' % (START_S - 7000 + 20)
    seen = look("", metrics=event, after_s=-6900)
    assert examine(spec(), None, seen, moment(100), context=context()).last_step == 3


LONG = (steps(1, 603) + "INFO chatter\r\n" + steps(604, 640) + OOM + steps(641, 643)).encode()


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(len(LONG) - 6000, len(LONG)), max_size=5))
def test_lines_that_are_passed_over_change_nothing_wherever_the_log_is_cut(cuts: list[int]) -> None:
    whole, cut = folded(LONG, [], code=1), folded(LONG, cuts, code=1)
    assert _without_last(cut[0]) == _without_last(whole[0])
    assert cut[1:] == whole[1:]
    assert whole[2] == 643


def test_the_latest_step_of_a_long_log_is_told_and_a_root_after_it_stands() -> None:
    running = examined(look(steps(1, 701)))
    assert (running.last_step, running.first_step, running.progress.loss) == (701, 1, 3.299)
    assert examined(look(steps(1, 701) + OOM, record=ended(1))).verdict.cause == "gpu_oom"
    assert examined(look(steps(1, 701, total=701), record=ended(0))).verdict.cause == "finished"
