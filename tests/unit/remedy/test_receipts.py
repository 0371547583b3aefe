from datetime import timedelta
from typing import Any

import pytest

from supervisor.model.causes import Retry
from supervisor.model.run import Outcome
from supervisor.remedy.receipts import Seen, receipt
from tests.unit.remedy.made import NOW, attempt, corrected, spec

CHUNK = "config.attention.sdpa_chunk"
FAILED = attempt(spec(), 1, cause="gpu_oom", last_step=46, ended_at=NOW)


def following(**changes: Any) -> Any:
    return attempt(
        spec(), 2, **{"overrides": {CHUNK: 64}, "correction": corrected(CHUNK, 128, 64), "last_step": None, **changes}
    )


def test_nothing_is_claimed_before_it_was_seen() -> None:
    made = receipt(FAILED, following())
    assert (made.steps_lost, made.seconds_lost, made.helped) == (None, None, None)
    assert made.sentence == (
        f"{CHUNK} 128 -> 64 after gpu_oom: steps lost not seen yet, time lost not seen yet; "
        "whether it helped shows once attempt 2 is past step 46."
    )


def test_steps_are_lost_from_the_checkpoint_to_the_failure() -> None:
    made = receipt(FAILED, following(first_step=41, last_step=43), Seen(first_step_at=NOW + timedelta(seconds=20)))
    assert (made.steps_lost, made.seconds_lost, made.helped) == (6, None, None)


def test_it_helped_once_it_is_past_the_step_where_the_one_before_failed() -> None:
    seen = Seen(progress_ended_at=NOW - timedelta(seconds=5), caught_up_at=NOW + timedelta(seconds=36))
    made = receipt(FAILED, following(first_step=41, last_step=47), seen)
    assert (made.steps_lost, made.seconds_lost, made.helped) == (6, 41.0, True)
    assert "6 steps done again, 41 s lost; it helped: attempt 2 got past step 46" in made.sentence


@pytest.mark.parametrize(
    ("cause", "last_step", "helped"),
    [
        ("gpu_oom", 46, False),
        ("gpu_oom", None, False),
        ("gpu_oom", 60, True),
        ("nccl_timeout", 43, None),
        ("finished", 46, True),
        ("stopped_by_person", 43, None),
    ],
)
def test_the_end_of_the_attempt_decides(cause: str, last_step: int | None, helped: bool | None) -> None:
    assert receipt(FAILED, following(cause=cause, first_step=41, last_step=last_step)).helped is helped


def test_nothing_is_promised_where_nothing_had_failed() -> None:
    stopped = attempt(spec(), 1, cause="terminated", last_step=46, ended_at=NOW)
    stopped = stopped.model_copy(update={"outcome": Outcome(cause="terminated", retry=Retry.NONE)})
    made = receipt(stopped, following(first_step=41, last_step=90))
    assert made.helped is None
    assert "6 steps done again, time lost not seen yet; attempt 1 had not failed." in made.sentence


def test_where_nothing_was_completed_nothing_is_lost() -> None:
    failed = attempt(spec(), 1, cause="gpu_oom", last_step=None, ended_at=NOW)
    seen = Seen(first_step_at=NOW + timedelta(seconds=8))
    made = receipt(failed, following(first_step=1, last_step=1), seen)
    assert (made.steps_lost, made.seconds_lost, made.helped) == (0, 8.0, True)


def test_a_change_by_hand_names_the_person_and_claims_no_help() -> None:
    healthy = attempt(spec(), 1, cause="stopped_by_person", last_step=46, ended_at=NOW)
    made = receipt(healthy, following(by="anna", first_step=41, last_step=60))
    assert made.helped is None
    assert f"{CHUNK} 128 -> 64 by anna" in made.sentence


BATCH = "per_device_train_batch_size"


@pytest.mark.parametrize(
    ("told", "before", "arrived", "words"),
    [
        ({BATCH: 4.0}, {}, True, "The program tells per_device_train_batch_size 4: it arrived."),
        ({BATCH: 8.0}, {}, False, "tells per_device_train_batch_size 8: the turned value did not arrive."),
        ({}, {}, None, "Not seen whether the value arrived"),
        ({BATCH: 4.0, "total_train_batch_size": 16.0}, {"total_train_batch_size": 16.0}, True, "batch 16, as before."),
        ({BATCH: 4.0, "total_train_batch_size": 8.0}, {"total_train_batch_size": 16.0}, True, "batch 8, before 16."),
    ],
)
def test_the_value_is_read_back_where_the_program_tells_it(
    told: dict[str, float], before: dict[str, float], arrived: bool | None, words: str
) -> None:
    for key in (f"config.trainer.{BATCH}", "args.--per-device-train-batch-size", f"args.{BATCH}"):
        current = following(first_step=41, last_step=43, correction=corrected(key, 8, 4), overrides={})
        made = receipt(FAILED, current, Seen(told=told, told_before=before))
        assert made.arrived is arrived
        assert words in made.sentence
