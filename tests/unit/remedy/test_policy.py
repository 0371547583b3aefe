import pytest

from supervisor.model.causes import catalogue
from supervisor.remedy.policy import permission
from tests.unit.remedy.made import spec


@pytest.mark.parametrize(
    ("policy", "action", "by"),
    [
        ({"default": "shadow"}, "shadow", "policy.default"),
        ({"default": "shadow", "corrected": "alert"}, "alert", "policy.corrected"),
        ({"corrected": "alert", "gpu_memory": "restart"}, "restart", "policy.gpu_memory"),
        ({"gpu_memory": "restart", "gpu_oom": "shadow"}, "shadow", "policy.gpu_oom"),
        ({"gpu_oom_late": "shadow"}, "restart", "the default"),
    ],
)
def test_the_most_specific_word_wins(policy: dict[str, str], action: str, by: str) -> None:
    allowed = permission(spec(policy=policy), "gpu_oom", correctable=True)
    assert (allowed.action, allowed.by, allowed.explicit) == (action, by, by != "the default")


DEFAULTS = {
    "restart": ["gpu_oom", "host_oom", "nccl_timeout", "hub_rate_limited", "hub_unreachable", "io_error", "segfault"],
    "alert": [
        *("killed_unproven", "session_lost", "host_rebooted", "unknown", "terminated", "hangup"),
        *("exit_without_completion", "hang_collective", "hang_lock", "hang_unknown", "loss_nan", "loss_scale_floor"),
        *("gpu_lost", "driver_mismatch", "exception", "bad_arguments", "gpu_oom_single", "teardown"),
    ],
    "shadow": ["memory_churn", "memory_leak", "loss_spike", "throughput_drop"],
}


@pytest.mark.parametrize(("action", "causes"), DEFAULTS.items())
def test_the_documented_defaults(action: str, causes: list[str]) -> None:
    for cause in causes:
        assert permission(spec(), cause, correctable=True).action == action, cause


def test_without_a_live_knob_a_correctable_cause_is_told() -> None:
    assert permission(spec(), "gpu_oom", correctable=False).action == "alert"
    assert permission(spec(), "nccl_timeout", correctable=False).action == "restart"


def test_every_cause_has_an_action() -> None:
    for cause in catalogue():
        for correctable in (True, False):
            assert permission(spec(), cause, correctable=correctable).action in {"restart", "alert", "shadow"}
