# ruff: noqa: E501 - messages stand here as they are printed
import pytest

from supervisor.diagnosis.ending import Ending, ending_of
from supervisor.diagnosis.hardware import blind_fault, xid_fault
from tests.unit.diagnosis.build import CPU_OOM, GONE, OOM, START_S, context, ctrl_c, ended, examined, look, spec, steps


@pytest.mark.parametrize(
    ("code", "signal", "expected"),
    [
        (1, None, Ending(1, None)),
        (None, "SIGKILL", Ending(None, "SIGKILL")),
        (137, None, Ending(137, "SIGKILL", by_shell=True)),
        (143, None, Ending(143, "SIGTERM", by_shell=True)),
        (247, None, Ending(247, "SIGKILL", by_shell=True)),
        (255, None, Ending(255, None)),
        (None, None, Ending(None, None)),
    ],
)
def test_a_shells_code_is_read_as_the_signal(code: int | None, signal: str | None, expected: Ending) -> None:
    assert ending_of(ended(code, signal)) == expected


def cause_of(text: str, code: int | None, signal: str | None = None, **fields: object) -> tuple[str, str]:
    within = fields.pop("within", None)
    kernel = fields.pop("kernel", ())
    seen = look(text, record=ended(code, signal, **fields), kernel=kernel)  # type: ignore[arg-type]
    verdict = examined(seen, within=within).verdict  # type: ignore[arg-type]
    assert verdict.final
    return verdict.cause, str(verdict.retry)


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_a_signal_that_nobody_announced_and_nothing_explains_is_a_persons(signal: str) -> None:
    assert cause_of(steps(1, 9), None, signal) == ("stopped_by_person", "none")


@pytest.mark.parametrize("code", [130, 143, 129, 131])
def test_so_is_a_shells_code_of_it(code: int) -> None:
    assert cause_of(steps(1, 9), code) == ("stopped_by_person", "none")


@pytest.mark.parametrize("code", [0, 1, 130])
def test_a_ctrl_c_shortly_before_the_end_counts_whatever_the_status(code: int) -> None:
    assert cause_of(steps(1, 9, total=50), code, keys=(ctrl_c(),)) == ("stopped_by_person", "none")
    assert cause_of(steps(1, 9, total=50) + OOM, 1, keys=(ctrl_c(),))[0] == "stopped_by_person"


def test_a_ctrl_c_that_was_no_signal_or_long_ago_does_not_count() -> None:
    assert cause_of(steps(1, 9) + OOM, 1, keys=(ctrl_c(as_signal=False),))[0] == "gpu_oom"
    assert cause_of(steps(1, 9) + OOM, 1, keys=(ctrl_c(after_s=-5000),))[0] == "gpu_oom"
    assert cause_of(steps(1, 9) + OOM, 1, keys=(ctrl_c(byte=4),))[0] == "gpu_oom"


def test_torchrun_says_which_signal_it_got() -> None:
    text = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 20101 got signal: {}\r\n"
    assert cause_of(steps(1, 9) + text.format(2), 1) == ("stopped_by_person", "none")
    assert cause_of(steps(1, 9) + text.format(1), 1) == ("hangup", "unchanged")


def test_a_scheduler_explains_a_signal() -> None:
    line = "slurmstepd: error: *** JOB 5 ON node-17 CANCELLED AT 2024-03-11T02:00:12 DUE TO TIME LIMIT ***\r\n"
    assert cause_of(steps(1, 9) + line, 143) == ("terminated", "unchanged")


def test_a_siblings_failure_explains_a_signal() -> None:
    assert cause_of(steps(1, 9) + OOM, 143) == ("gpu_oom", "corrected")


def test_a_hang_up_of_the_terminal_is_no_persons_stop() -> None:
    assert cause_of(steps(1, 9), None, "SIGHUP", hung_up=True) == ("hangup", "unchanged")


def test_sigkill_never_holds_and_needs_proof_for_memory() -> None:
    assert cause_of(steps(1, 9), None, "SIGKILL") == ("killed_unproven", "unchanged")
    assert cause_of(steps(1, 9), 137) == ("killed_unproven", "unchanged")
    counted = {"oom_kills_before": 3, "oom_kills_after": 4}
    assert cause_of(steps(1, 9), None, "SIGKILL", **counted) == ("host_oom", "corrected")
    assert cause_of(steps(1, 9), 137, oom_counter="memory.events shared", **counted) == ("host_oom", "corrected")
    line = "Out of memory: Killed process 77 (python) total-vm:1kB"
    assert cause_of(steps(1, 9), None, "SIGKILL", kernel=(line,)) == ("host_oom", "corrected")


def test_a_shared_counter_or_a_strangers_kill_proves_nothing() -> None:
    counted = {"oom_kills_before": 3, "oom_kills_after": 4, "oom_counter": "memory.events shared"}
    assert cause_of(steps(1, 9) + "ValueError: no\r\n", 1, **counted)[0] != "host_oom"
    line = "Out of memory: Killed process 77 (mysqld) total-vm:1kB"
    assert cause_of(steps(1, 9), None, "SIGKILL", kernel=(line,))[0] == "killed_unproven"


def test_an_announced_stop_is_no_failure() -> None:
    for code, signal in ((130, None), (None, "SIGKILL"), (0, None), (1, None)):
        assert cause_of(steps(1, 9, total=50), code, signal, announced=("stop", "SIGINT")) == ("terminated", "none")
    assert cause_of(steps(1, 9, total=50), 130, within=context(stop_announced=True)) == ("terminated", "none")


@pytest.mark.parametrize(
    ("failure", "cause"),
    [("command_not_found", "command_not_found"), ("workdir", "setup_failed"), ("setup", "setup_failed"),
     ("secret", "setup_failed"), ("refused", "unknown")],
)  # fmt: skip
def test_what_was_never_started_says_so_itself(failure: str, cause: str) -> None:
    assert cause_of("", 127, failure=failure, failure_detail="no such thing")[0] == cause


@pytest.mark.parametrize(
    ("text", "code", "cause"),
    [
        (CPU_OOM, 1, "host_alloc_failed"),
        ("usage: train.py [-h]\r\ntrain.py: error: unrecognized arguments: --lrr\r\n", 2, "bad_arguments"),
        ("bash: line 1: trian.py: command not found\r\n", 127, "command_not_found"),
        ("Traceback (most recent call last):\r\n  File \"t.py\", line 1, in <module>\r\nKeyError: 'x'\r\n", 1, "exception"),
        ("", 1, "unknown"),
        ("", 139, "segfault"),
        ("terminate called after throwing an instance of 'std::runtime_error'\r\nAborted (core dumped)\r\n", 134, "segfault"),
    ],
)  # fmt: skip
def test_the_text_names_the_root(text: str, code: int, cause: str) -> None:
    assert cause_of(text, code)[0] == cause


def test_the_earliest_root_wins_and_the_others_are_kept() -> None:
    text = steps(1, 9) + OOM + "RuntimeError: CUDA error: an illegal memory access was encountered\r\n"
    verdict = examined(look(text, record=ended(1))).verdict
    assert verdict.cause == "gpu_oom"
    assert [finding.cause for finding in verdict.also] == ["illegal_memory_access"]


def test_fallout_never_wins_over_a_root() -> None:
    fallout = "[rank0]: sendBytes failed: Broken pipe\r\nW api.py:9] Sending process 5 closing signal SIGTERM\r\n"
    assert cause_of(steps(1, 9) + fallout + OOM + fallout, 1)[0] == "gpu_oom"
    assert cause_of(steps(1, 9) + fallout, 1)[0] == "unknown"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (steps(1, 50, total=50), "finished"),
        (steps(1, 9), "finished"),
        (steps(1, 9, total=50), "exit_without_completion"),
        (steps(1, 9, total=50) + "EarlyStopping: stopping training, no improvement for 5 epochs\r\n", "finished"),
        (steps(1, 9, total=50) + "{'train_runtime': 197.41, 'train_loss': 0.6}\r\n", "finished"),
        (steps(1, 9, total=50) + OOM, "gpu_oom"),
    ],
)
def test_exit_0_is_success_unless_the_work_was_not_complete(text: str, cause: str) -> None:
    assert cause_of(text, 0)[0] == cause


def test_an_own_marker_decides_completion_wherever_the_log_was_cut() -> None:
    marked = spec(completion={"marker": "ALL GOOD"})
    first, rest = look(steps(1, 9) + "ALL "), look("GOOD\r\n", offset=len(steps(1, 9)) + 4, record=ended(0))
    assert examined(first, rest, of=marked).verdict.cause == "finished"
    assert examined(look(steps(1, 9), record=ended(0)), of=marked).verdict.cause == "exit_without_completion"


def test_nothing_alive_and_no_status_is_a_lost_session_or_another_boot() -> None:
    gone = look(steps(1, 9), processes=GONE, session="lost", boot_id="b")
    verdict = examined(gone, within=context(boot_id="b")).verdict
    assert (verdict.cause, verdict.final) == ("session_lost", True)
    assert examined(gone, within=context(boot_id="a")).verdict.cause == "host_rebooted"
    other_first = look(steps(1, 9), processes=GONE, session="lost", boot_id="b", pid1_start_ticks=9)
    assert examined(other_first, within=context(boot_id="b", pid1_start_ticks=5)).verdict.cause == "host_rebooted"


def test_the_first_xid_is_the_root_and_cleanup_is_not() -> None:
    head = "NVRM: Xid (PCI:0000:0a:00): "
    fault = xid_fault([head + "63, row", head + "13, pid=1, x", head + "45, pid=1, y", head + "45, pid=1, z"])
    assert fault is not None
    assert (fault.cause, fault.number) == ("illegal_memory_access", 13)
    assert xid_fault([head + "45, pid=1, y"]) is None
    announced = xid_fault([head + "154, GPU recovery action changed", head + "79, GPU has fallen off the bus."])
    assert announced is not None
    assert announced.cause == "gpu_lost"


def test_our_own_device_read_names_what_it_knows() -> None:
    lost = blind_fault("Unable to determine the device handle for GPU0000:03:00.0: Unknown Error")
    assert lost is not None
    assert lost.cause == "gpu_lost"
    assert blind_fault("timeout after 10 s") is None
    assert blind_fault(None) is None


def test_the_end_is_final_only_when_the_log_is_read_and_closed() -> None:
    record = ended(1)
    open_log = look(OOM, record=record, processes=None).model_copy()
    still = open_log.model_copy(update={"log": open_log.log.model_copy(update={"closed": False})})
    assert not examined(still).verdict.final
    more = open_log.model_copy(update={"log": open_log.log.model_copy(update={"end": 10_000})})
    assert not examined(more).verdict.final
    assert examined(open_log).verdict.final
    assert record.at_unix_s == START_S + 100


def test_a_kill_that_was_logged_before_the_end_was_seen_proves_it() -> None:
    line = "Out of memory: Killed process 77 (python) total-vm:1kB"
    before = look(steps(1, 9), after_s=95, kernel=(line,))
    end = look("", offset=len(steps(1, 9)), record=ended(None, "SIGKILL"))
    assert examined(before, end).verdict.cause == "host_oom"
    long_ago = look(steps(1, 9), after_s=-5000, kernel=(line,))
    assert examined(long_ago, end).verdict.cause == "killed_unproven"


def test_without_a_status_the_text_may_still_prove_a_root() -> None:
    assert cause_of(steps(1, 9) + OOM, None) == ("gpu_oom", "corrected")
    assert cause_of(steps(1, 9), None) == ("session_lost", "unchanged")
    assert cause_of(steps(1, 9) + "Training completed.\r\n", None) == ("finished", "none")
    other = look(steps(1, 9) + OOM, processes=GONE, session="lost", boot_id="b")
    assert examined(other, within=context(boot_id="a")).verdict.cause == "host_rebooted"


def test_sshs_own_status_says_nothing_of_the_run() -> None:
    seen = look(steps(1, 9), record=ended(255), blind={"ssh": "client_loop: send disconnect: Broken pipe"})
    assert examined(seen).verdict.cause == "ssh_lost"
    assert cause_of(steps(1, 9), 255)[0] == "unknown"


def test_a_driver_that_does_not_fit_is_told_by_our_own_read() -> None:
    text = "RuntimeError: No CUDA GPUs are available\r\n"
    seen = look(text, record=ended(1), blind={"gpu": "Failed to initialize NVML: Driver/library version mismatch"})
    assert examined(seen).verdict.cause == "driver_mismatch"
    assert cause_of(text, 1)[0] == "driver_unavailable"


UNKNOWN = {"unknown_why": "its exit status is not known"}


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (steps(1, 9) + OOM, "gpu_oom"),
        (steps(1, 9) + "Killed\n$ ", "killed_unproven"),
        (steps(1, 9) + "Traceback (most recent call last):\nKeyboardInterrupt\n$ ", "stopped_by_person"),
        (steps(1, 9) + "$ ", "unknown"),
    ],
)
def test_an_end_without_a_status_is_told_by_its_text(text: str, cause: str) -> None:
    assert cause_of(text, None, **UNKNOWN)[0] == cause


def test_where_the_text_says_nothing_the_verdict_says_that_nobody_knows() -> None:
    verdict = examined(look(steps(1, 9), record=ended(None, **UNKNOWN))).verdict
    assert "its exit status is not known" in verdict.sentence
