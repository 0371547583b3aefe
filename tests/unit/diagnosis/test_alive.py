# ruff: noqa: E501 - messages stand here as they are printed
import pytest

from supervisor.model.observation import Observation, Processes
from tests.unit.diagnosis.build import GIB, device, examined, idle_host, look, spec, steps

TEXT = steps(1, 20)
ASLEEP = Processes(alive=20, wrapper_alive=True, states={"S": 20})


def after(silent_s: float, text: str = TEXT, **fields: object) -> str:
    """The cause after so much silence."""
    seen = look(text, after_s=100)
    fields = {"processes": ASLEEP, "host": idle_host()} | fields
    quiet = look("", offset=len(text.encode()), after_s=100 + silent_s, **fields)  # type: ignore[arg-type]
    verdict = examined(seen, quiet).verdict
    assert not verdict.final
    return verdict.cause


def test_a_short_silence_needs_no_explanation() -> None:
    assert after(100) == "healthy"


def test_no_hang_before_the_programs_own_time_outs() -> None:
    assert after(700, devices=(device(util=100, power=80, used=40 * GIB, own=40 * GIB),)) == "slow_phase"
    assert after(700, devices=(device(used=40 * GIB, own=40 * GIB),)) == "slow_phase"


def test_devices_that_spin_at_low_power_hang_in_a_collective() -> None:
    spinning = device(util=100, power=80, used=40 * GIB, own=40 * GIB)
    assert after(4000, devices=(spinning,)) == "hang_collective"


def test_devices_that_work_without_a_line_are_buffered_output() -> None:
    assert after(4000, devices=(device(util=97, power=380, used=40 * GIB, own=40 * GIB),)) == "output_buffered"


def test_everything_idle_is_a_hang() -> None:
    idle = device(used=40 * GIB, own=40 * GIB)
    assert after(4000, devices=(idle,)) == "hang_dataloader"
    few = Processes(alive=2, wrapper_alive=True, states={"S": 2})
    assert after(4000, devices=(idle,), processes=few) == "hang_unknown"


def test_disk_or_processor_work_is_no_hang() -> None:
    idle = device(used=40 * GIB, own=40 * GIB)
    busy = idle_host().model_copy(update={"disk_write_bps": 2e9})
    assert after(4000, devices=(idle,), host=busy) == "slow_phase"
    running = Processes(alive=20, wrapper_alive=True, states={"R": 8, "S": 12})
    assert after(4000, devices=(idle,), processes=running) == "slow_phase"


def test_uninterruptible_sleep_is_storage_or_driver() -> None:
    stuck = Processes(alive=4, wrapper_alive=True, states={"D": 2, "S": 2})
    assert after(4000, devices=(device(used=40 * GIB, own=40 * GIB),), processes=stuck) == "hang_io"


def test_a_lock_and_a_dead_thread_are_named() -> None:
    idle = device(used=2 * GIB, own=2 * GIB)
    lock = "Using /root/.cache/torch_extensions/py310_cu121 as PyTorch extensions root...\r\n"
    assert after(4000, lock, devices=(idle,)) == "hang_lock"
    died = TEXT + "Exception in thread loader-0:\r\n"
    assert after(4000, died, devices=(idle,)) == "hang_worker_lost"


def test_nothing_to_read_is_no_hang() -> None:
    assert after(4000, processes=None, host=None) == "slow_phase"


def test_a_spec_may_say_when_silence_counts() -> None:
    seen = look(TEXT, after_s=100)
    fields = {"processes": ASLEEP, "host": idle_host(), "devices": (device(used=40 * GIB, own=40 * GIB),)}
    quiet = look("", offset=len(TEXT), after_s=400, **fields)  # type: ignore[arg-type]
    assert examined(seen, quiet, of=spec(watch={"stall": 200})).verdict.cause == "hang_dataloader"
    assert examined(seen, quiet).verdict.cause == "slow_phase"


def test_complete_but_not_gone() -> None:
    text = TEXT + "Training completed. Do not forget to share your model\r\n"
    assert after(4000, text, devices=(device(used=4 * GIB),)) == "done_not_exited"


def test_an_uncaught_root_with_nothing_after_it_is_the_failure() -> None:
    text = TEXT + "Traceback (most recent call last):\r\nOSError: [Errno 24] Too many open files\r\n"
    assert after(20, text) == "healthy"
    assert after(3000, text, devices=(device(used=4 * GIB, own=4 * GIB),)) == "fd_limit"


def test_more_workers_than_the_world_has_are_stale_keys() -> None:
    line = "Waiting in store based barrier (world_size=2, worker_count=4, timeout=0:30:00)\r\n"
    assert examined(look("init method is file:///tmp/x\r\n" + line * 2)).verdict.cause == "rendezvous_stale"
    assert examined(look(line * 2)).verdict.cause == "rendezvous_misconfigured"
    assert examined(look(line.replace("=4", "=1") * 9)).verdict.cause == "starting"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("step {n} | loss inf | grad_norm inf\r\n", "loss_nan"),
        ("step {n} | loss 0.0 | grad_norm nan\r\n", "loss_nan"),
        ("step {n} | loss 1.3 | grad_norm nan\r\n", "loss_nan"),
        ("step {n} | loss 1.3 | grad_norm 0.4\r\n", "healthy"),
        ("step {n} | loss 1.3 | nan_count 0 | info banana\r\n", "healthy"),
        ("step {n} | loss 2.0 | iter_time: 2.000s, data_time: 1.800s\r\n", "data_starved"),
    ],
)
def test_numbers_that_last(line: str, cause: str) -> None:
    text = "".join(line.format(n=number) for number in range(30))
    assert examined(look(text)).verdict.cause == cause


def test_numbers_that_pass_are_told_as_nothing() -> None:
    falling = "".join(f"step {n} | loss {9 - n * 0.2:.2f} | grad_norm nan\r\n" for n in range(30))
    assert examined(look(falling)).verdict.cause == "healthy"
    once = "step 1 | loss nan | grad_norm nan\r\n" + "".join(f"step {n} | loss 2.0\r\n" for n in range(2, 9))
    assert examined(look(once)).verdict.cause == "healthy"


def test_a_loss_scale_at_its_floor_and_one_that_settles() -> None:
    line = "step {n} loss 2.0\r\nOVERFLOW! Attempted loss scale: {a}, reducing to {b}\r\n"
    floor = "".join(line.format(n=n, a=1, b=1) for n in range(5))
    assert examined(look(floor)).verdict.cause == "loss_scale_floor"
    settling = "".join(line.format(n=n, a=65536 >> n, b=65536 >> (n + 1)) for n in range(5))
    assert examined(look(settling)).verdict.cause == "overflow_benign"


def test_steps_that_became_lastingly_slower() -> None:
    text = "".join(f"step {n} loss 2.0 (2.000 sec/step)\r\n" for n in range(20))
    slow = "".join(f"step {n} loss 2.0 (60.000 sec/step)\r\n" for n in range(20, 26))
    assert examined(look(text + slow)).verdict.cause == "throughput_drop"
    assert examined(look(text + slow[:40] + text.replace("step ", "step 9"))).verdict.cause == "healthy"


def churning(count: int, low: float, high: float) -> list[Observation]:
    looks, offset = [], 0
    for number in range(count):
        text = steps(number * 10 + 1, number * 10 + 10)
        window = device(used=low, low=low, high=high, util=80, power=300)
        looks.append(look(text, offset=offset, after_s=100 + 5 * number, devices=(window,)))
        offset += len(text)
    return looks


def test_memory_that_swings_in_each_window_churns() -> None:
    assert examined(*churning(4, 2 * GIB, 70 * GIB)).verdict.cause == "memory_churn"
    assert examined(*churning(4, 60 * GIB, 70 * GIB)).verdict.cause == "healthy"
    assert examined(*churning(1, 2 * GIB, 70 * GIB)).verdict.cause == "healthy"


def test_memory_that_climbs_and_never_falls_leaks() -> None:
    text = "".join(f"step {n * 500} loss 2.1 mem {60 + n:.2f} GiB\r\n" for n in range(12))
    assert examined(look(text)).verdict.cause == "memory_leak"
    steady = "".join(f"step {n * 500} loss 2.1 mem {60 + n % 3:.2f} GiB\r\n" for n in range(12))
    assert examined(look(steady)).verdict.cause == "healthy"


def test_the_allocators_own_counters_tell_pressure() -> None:
    event = '{{"event": "step", "step": {n}, "loss": 2.0, "devices": [{{"device": "cuda:0", "alloc_retries": {r}}}]}}\n'
    rising = "".join(event.format(n=n, r=n) for n in range(1, 9)).encode()
    assert examined(look("", metrics=rising)).verdict.cause == "memory_pressure"
    level = "".join(event.format(n=n, r=2) for n in range(1, 9)).encode()
    assert examined(look("", metrics=level)).verdict.cause == "healthy"


def test_a_run_that_fell_back_to_the_cpu() -> None:
    warning = "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).\r\n"
    assert examined(look(warning + TEXT, devices=(device(),))).verdict.cause == "no_gpu_used"
    assert (
        examined(look(warning + TEXT, devices=(device(used=40 * GIB, util=99, power=380),))).verdict.cause == "healthy"
    )
    assert examined(look(warning + TEXT)).verdict.cause == "healthy"


def test_words_of_failure_that_are_none() -> None:
    echo = 'on_error: [CUDA out of memory, "NCCL error", Killed, "device-side assert triggered"]\r\nooms 0 | nan_grads 0\r\n'
    assert examined(look(echo + TEXT)).verdict.cause == "healthy"
    autotune = "E select_algorithm.py:2134] No valid triton configs. OutOfMemoryError: out of resource: triton_mm Required: 147456 Hardware limit:101376\r\nE select_algorithm.py] Ignoring this choice.\r\n"
    assert examined(look(autotune + TEXT)).verdict.cause == "healthy"


def test_a_jump_of_the_wall_clock_is_no_silence() -> None:
    idle = {"processes": ASLEEP, "host": idle_host(), "devices": (device(used=40 * GIB, own=40 * GIB),)}
    seen = look(TEXT, after_s=100, monotonic_s=50.0)
    jumped = look("", offset=len(TEXT), after_s=9000, monotonic_s=60.0, **idle)  # type: ignore[arg-type]
    assert examined(seen, jumped).verdict.cause == "healthy"
    passed = look("", offset=len(TEXT), after_s=9000, monotonic_s=8950.0, **idle)  # type: ignore[arg-type]
    assert examined(seen, passed).verdict.cause == "hang_dataloader"


def test_while_older_bytes_are_to_be_fetched_nothing_is_a_hang() -> None:
    idle = {"processes": ASLEEP, "host": idle_host(), "devices": (device(used=40 * GIB, own=40 * GIB),)}
    quiet = look("chatter\r\n", offset=len(TEXT), after_s=9000, **idle)  # type: ignore[arg-type]
    behind = quiet.model_copy(update={"log": quiet.log.model_copy(update={"end": 999_999})})
    assert examined(look(TEXT, after_s=100), behind).verdict.cause == "healthy"
    assert examined(look(TEXT, after_s=100), quiet).verdict.cause == "hang_dataloader"


def test_a_loading_bar_that_stands_still_halfway_hangs_earlier_than_a_silent_start() -> None:
    idle = {"devices": (device(used=2 * GIB, own=2 * GIB),), "processes": Processes(alive=2, wrapper_alive=True)}
    bar = "Map (num_proc=8):  60%|██████    | 600/1000 [00:10<00:07, 60.00 examples/s]\r\n"
    assert after(2000, bar, **idle) == "hang_unknown"
    assert after(2000, bar.replace("600/1000", "1000/1000"), **idle) == "starting"
    assert after(2900, "building\r\n", **idle) == "hang_unknown"


def test_the_kernels_log_names_a_lost_device_while_nothing_moves() -> None:
    line = "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    lost = look(TEXT, after_s=100, kernel=(line,))
    assert examined(lost).verdict.cause == "healthy"
    quiet = look("", offset=len(TEXT), after_s=1000, processes=ASLEEP, host=idle_host())
    assert examined(lost, quiet).verdict.cause == "gpu_lost"


def test_ranks_that_wait_again_and_again_hang() -> None:
    line = "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks\r\n"
    assert examined(look(TEXT + line * 6)).verdict.cause == "hang_collective"
    assert examined(look(TEXT + line * 2)).verdict.cause == "healthy"
    assert examined(look(TEXT + line * 6 + "step 21 loss 2.0\r\n")).verdict.cause == "healthy"
