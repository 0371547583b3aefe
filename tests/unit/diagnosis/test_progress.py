import json

import pytest

from supervisor.diagnosis.metrics import take_event
from supervisor.diagnosis.progress import Reader, is_skipped, own_reader, reached_total, read, readers, summary, take
from supervisor.diagnosis.state import State


@pytest.mark.parametrize("reader", readers().readers, ids=lambda reader: reader.name)
def test_each_reader_reads_its_example(reader: Reader) -> None:
    found = read(reader.example)
    assert found is not None


@pytest.mark.parametrize(
    ("line", "value", "total"),
    [
        (" 51%|█████| 9100/18000 [4:05:42<4:00:18,  1.62s/it, loss=1.8090]", 9100, 18000),
        ("iter 6200: loss 2.2001, time 238.00ms, mfu 44.80%", 6200, None),
        (" iteration     8700/  200000 | consumed samples: 1 | lm loss: 2.6E+00 | grad norm: 0.4 |", 8700, 200000),
        ("[INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[9.1e-06], mom=[(0.9, 0.95)]", 10, None),
        ("Epoch 1/50  loss 1.820  val 1.810  214 s", 1, 50),
        ("| epoch 001:    100 / 3921 loss=8.400, nll_loss=7.8, num_updates=101, lr=1.25e-05", 101, None),
        ("INFO:tensorflow:loss = 1.840000, step = 41001 (47.200 sec)", 41001, None),
        ("step: 10  loss:  3.9969  grad_norm:  0.7960  memory: 134.91GiB(96.50%)  tps: 7,810", 10, None),
        ("step 41/1000 loss 2.31 gnorm 0.8 25.1 Ktok/s", 41, 1000),
        ("[ time:9917s parleys:47,000 ] {'exs': 1600, 'loss': 2.614}", 47000, None),
    ],
)
def test_the_lines_of_trainers(line: str, value: float, total: float | None) -> None:
    found = read(line)
    assert found is not None
    assert (found.value, found.total) == (value, total)


@pytest.mark.parametrize(
    "line",
    [
        "Batch size 512 failed, trying batch size 256",
        "validate every 5000 steps",
        "[stage3.py:2069:step] 3 pytorch allocator cache flushes since last step. WARNING",
        "Namespace(batch_size=128, lr=0.001, step=3)",
        '  File "train.py", line 12, in step',
        "rank 31/64 streaming dataset 'c4' shard 811",
        "Test set: Average loss: 0.0412, Accuracy: 9871/10000 (99%)",
        "nothing to see here",
    ],
)
def test_lines_that_are_no_progress(line: str) -> None:
    assert is_skipped(line) or read(line) is None


def fed(*lines: str) -> State:
    state = State()
    for at, line in enumerate(lines):
        found = read(line)
        if found is not None:
            take(state, found, line, float(at))
    return state


def test_a_redraw_with_the_same_counter_is_no_progress() -> None:
    state = fed(*[f" 10%|█| 5/50 [00:0{second}<00:45, 1.00it/s]" for second in range(5)])
    assert state.progress_events == 1
    assert state.last_progress_at == state.last_progress_at


def test_a_bar_that_jumps_to_its_checkpoint_tells_no_pace_until_the_jump_is_out_of_it() -> None:
    lines = ["  0%|  | 0/2000 [00:00<?, ?it/s]", "  8%|▊ | 161/2000 [00:02<00:26, 69.30it/s]"]
    lines += [f"  8%|▊ | {step}/2000 [00:13<03:28,  8.79it/s]" for step in range(162, 175)]
    after = fed(*lines)
    assert (summary(after).step, summary(after).rate_per_s, summary(after).eta_s) == (174, None, None)
    assert after.series.usual_seconds == []
    lines += [f" 10%|█ | {step}/2000 [00:25<16:57,  1.78it/s]" for step in range(175, 190)]
    assert summary(fed(*lines)).rate_per_s == pytest.approx(1.78)
    assert max(fed(*lines).series.usual_seconds) == pytest.approx(1 / 1.78)


def test_a_bar_that_begins_at_its_checkpoint_tells_its_pace_at_once() -> None:
    state = fed("  8%|▊ | 160/2000 [00:00<?, ?it/s]", "  8%|▊ | 161/2000 [00:01<16:57,  1.78it/s]")
    assert summary(state).rate_per_s == pytest.approx(1.78)


def test_a_bar_of_loading_moves_but_is_no_progress() -> None:
    state = fed("Loading checkpoint shards:  25%|██| 1/4 [00:26<01:18, 26.40s/it]")
    assert (state.progress_events, state.phase, state.last_moved_at) == (0, "loading", 0.0)


def test_a_smaller_bar_within_the_main_one_is_evaluation() -> None:
    state = fed(" 8%|█| 100/1250 [01:31<17:26, 1.10it/s]", " 3%|█| 2/79 [00:00<00:30, 2.50it/s]")
    assert state.progress_events == 1
    assert state.phase == "evaluating"
    assert summary(state).step == 100


def test_the_summary_tells_rate_loss_and_what_is_left() -> None:
    state = fed(*[f"step {step}/100 loss {3 - step / 100:.2f} 0.5 s/step 2.0k tok/s" for step in range(10, 60, 10)])
    told = summary(state)
    assert (told.step, told.total_steps, told.loss, told.tokens_per_s) == (50, 100, 2.5, 2000.0)
    assert told.rate_per_s == pytest.approx(2.0)
    assert told.eta_s == pytest.approx(25.0)


def test_a_total_counts_as_reached_within_one_stride() -> None:
    assert reached_total(fed("step 80/100 loss 1.0", "step 100/100 loss 1.0")) is True
    assert reached_total(fed("step 60/95 loss 1.0", "step 80/95 loss 1.0")) is True
    assert reached_total(fed("step 20/100 loss 1.0", "step 40/100 loss 1.0")) is False
    assert reached_total(fed("step 20 loss 1.0")) is None


def test_an_own_pattern_reads_step_total_and_loss() -> None:
    answer = own_reader(r"S(?P<step>\d+) of (?P<total>\d+) L(?P<loss>\S+)")("S5 of 9 L1.5")
    assert answer is not None
    reading, loss = answer
    assert (reading.kind, reading.value, reading.total, loss) == ("own", 5.0, 9.0, 1.5)
    assert own_reader(r"(?P<step>\d+)")("no number") is None


def test_the_metrics_file_counts_steps() -> None:
    state = State()
    for step in (1, 2, 3, 4):
        event = {"t": 10.0 + step, "event": "step", "step": step, "total_steps": 8, "loss": 2.0, "tokens_per_s": 50.0}
        assert take_event(state, json.dumps(event), 1.0)
    told = summary(state)
    assert (told.step, told.total_steps, told.loss, told.tokens_per_s, told.rate_per_s) == (4, 8, 2.0, 50.0, 1.0)
    assert told.eta_s == pytest.approx(4.0)


def test_the_loss_is_the_newest_one_whoever_tells_it() -> None:
    """The log's first line of progress comes before the metrics file is looked at; from then on the file leads."""
    state = State()
    first = "step 5/10  loss 5.6571  grad_norm 2.4"
    reading = read(first)
    assert reading is not None
    assert take(state, reading, first, 1.0)
    for step, loss in ((5, 5.6571), (6, 5.5113), (7, 5.4851)):
        take_event(state, json.dumps({"t": 10.0 + step, "event": "step", "step": step, "loss": loss}), 1.0)
    assert (summary(state).step, summary(state).loss) == (7, 5.4851)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"event": "step"}', '{"event": "step", "step": true}', '{"event": "step", "step": 1e999}',
     '{"event": 3}', '{"event": "failed", "cause": "sunspots"}', "[" * 5000, '{"event":"phase","phase":7}'],
)  # fmt: skip
def test_any_line_of_the_metrics_file_is_survived(text: str) -> None:
    assert take_event(State(), text, 0.0) is False
