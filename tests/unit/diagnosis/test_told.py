import pytest

from tests.unit.diagnosis.build import context, examined, look

TRAINER = """\
[transformers]   Num examples = 4,000
[transformers]   Instantaneous batch size per device = 8
[transformers]   Total train batch size (w. parallel, distributed & accumulation) = 1,024
[transformers]   Gradient Accumulation steps = 4
"""


def test_what_transformers_prints_of_its_batch_is_remembered() -> None:
    seen = examined(look(TRAINER))
    assert seen.told == {
        "per_device_train_batch_size": 8,
        "total_train_batch_size": 1024,
        "gradient_accumulation_steps": 4,
    }


@pytest.mark.parametrize(
    ("log", "first", "cause"),
    [
        (" 40%|████      | 8/20 [00:00<?, ?it/s]\n", None, "starting"),
        (" 40%|████      | 8/20 [00:00<?, ?it/s]\n 45%|████▌     | 9/20 [00:01<00:11,  1.00it/s]\n", 9, "healthy"),
        ("  0%|          | 0/20 [00:00<?, ?it/s]\n 45%|████▌     | 9/20 [00:01<00:11,  1.00it/s]\n", 9, "healthy"),
        (
            "  0%|          | 0/20 [00:00<?, ?it/s]\n 40%|████      | 8/20 [00:01<00:11,  1.00it/s]\n",
            8,
            "resume_failed",
        ),
        ("  5%|▌         | 1/20 [00:01<00:19,  1.00it/s]\n", 1, "resume_failed"),
    ],
)
def test_a_bar_that_begins_at_the_checkpoints_step_has_made_no_step_yet(
    log: str, first: int | None, cause: str
) -> None:
    """tqdm shows `initial` before any work; the guard of law 3 must not take that for a step done twice."""
    seen = examined(look(f"  Total optimization steps = 20\n{log}"), within=context(resumed_from=8))
    assert seen.first_step == first
    assert seen.verdict.cause == cause


def test_a_bar_over_one_epoch_proves_nothing_about_the_resume() -> None:
    log = "  Total optimization steps = 60\n  5%|▌         | 1/20 [00:01<00:19,  1.00it/s]\n"
    assert examined(look(log), within=context(resumed_from=8)).verdict.cause == "healthy"
    assert examined(look(log.splitlines(keepends=True)[1]), within=context(resumed_from=8)).verdict.cause == "healthy"
