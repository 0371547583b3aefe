# ruff: noqa: E501 - messages stand here as they are printed
import pytest

from supervisor.diagnosis.figures import figures_of, oom_figures
from supervisor.diagnosis.memory import kind_of_oom, unaccounted_bytes
from supervisor.diagnosis.sensors import Sensors
from supervisor.diagnosis.state import Counter, Hit, State
from supervisor.model.observation import Observation

GIB = 1 << 30
HEAD = (
    "CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of 79.10 GiB of which {free} is free. "
)
OWN = "Including non-PyTorch memory, this process has {own} memory in use. Of the allocated memory {allocated} is allocated by PyTorch, {pools}and {rest} is reserved by PyTorch but unallocated."


def message(asked="2.00 GiB", free="1.00 GiB", own="78.00 GiB", allocated="76.00 GiB", rest="1.00 GiB", pools="", others=""):  # type: ignore[no-untyped-def] # fmt: skip
    return (
        HEAD.format(asked=asked, free=free) + others + OWN.format(own=own, allocated=allocated, pools=pools, rest=rest)
    )


def kind(text: str, state: State | None = None, **fields: object) -> str:
    hit = Hit(id="torch-oom", role="root", cause="gpu_oom", order=1, line=1, text=text, figures=oom_figures(text))
    for name, value in fields.items():
        setattr(hit, name, value)
    return kind_of_oom(hit, state or State(), Sensors(Observation(at_unix_s=0.0))).cause


def long_run() -> State:
    return State(counters={"step": Counter(value=48_000, first=1, events=500)}, progress_events=500)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (message(), "gpu_oom"),
        (message(asked="96.00 GiB"), "gpu_oom_single"),
        (message(asked="6.00 GiB", free="70.00 GiB", own="4.50 GiB", allocated="4.00 GiB", rest="0 bytes").replace("Of the", "6.99 GiB allowed; Of the"), "gpu_oom_cap"),
        (message(asked="2.00 GiB", free="3.00 GiB", own="70.00 GiB", allocated="60.00 GiB"), "gpu_oom_fragmented"),
        (message(asked="2.00 GiB", allocated="60.00 GiB", rest="16.00 GiB"), "gpu_oom_fragmented"),
        (message(own="20.00 GiB", allocated="19.00 GiB"), "gpu_oom_foreign"),
        (message(own="60.00 GiB", allocated="58.00 GiB", others="Process 4711 has 18.00 GiB memory in use. "), "gpu_oom_foreign"),
        (message(own="76.00 GiB", others="Process 11 has 414.00 MiB memory in use. Process 12 has 414.00 MiB memory in use. "), "gpu_oom"),
        (message(pools="with 40.00 GiB allocated in private pools (e.g., CUDA Graphs), "), "gpu_oom_graph"),
        ("MPS backend out of memory (MPS allocated: 8.00 GB, other allocations: 1.00 GB, max allowed: 9.07 GB). Tried to allocate 256.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0", "gpu_oom_cap"),
        ("CUDA out of memory. Tried to allocate 1024.00 KiB (GPU 0; 11.17 GiB total capacity; 10.89 GiB already allocated; 832.00 KiB free; 43.66 MiB cached)", "gpu_oom"),
    ],
)  # fmt: skip
def test_the_arithmetic_names_the_kind(text: str, cause: str) -> None:
    assert kind(text) == cause


IN_CONTAINER = "Process 12345 has {own} memory in use. Of the allocated memory {allocated} is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated."


@pytest.mark.parametrize(
    ("others", "own", "allocated", "cause"),
    [
        ("", "78.00 GiB", "76.00 GiB", "gpu_oom"),
        ("Process 7 has 414.00 MiB memory in use. ", "77.60 GiB", "76.00 GiB", "gpu_oom"),
        ("Process 7 has 50.00 GiB memory in use. ", "28.00 GiB", "26.00 GiB", "gpu_oom_foreign"),
        ("", "50.00 GiB", "27.00 GiB", "gpu_oom_foreign"),
    ],
)
def test_in_a_container_the_own_process_is_listed_like_a_stranger(
    others: str, own: str, allocated: str, cause: str
) -> None:
    text = HEAD.format(asked="2.00 GiB", free="1.00 GiB") + others + IN_CONTAINER.format(own=own, allocated=allocated)
    assert kind(text) == cause


def test_the_circumstances_name_the_kind_where_the_figures_agree() -> None:
    assert kind(message(), evaluating=True) == "gpu_oom_eval"
    assert kind(message(asked="9.00 GiB", free="5.00 GiB", own="74.00 GiB"), long_run(), steps=500) == "gpu_oom_late"


def test_every_generation_is_read() -> None:
    old = oom_figures(
        "Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB total capacity; 2.81 GiB already allocated; 25.44 MiB free; 2.93 GiB reserved in total by PyTorch)"
    )
    assert {name: round(value / (1 << 20)) for name, value in old.items()} == {
        "asked_bytes": 20, "total_bytes": 8120, "free_bytes": 25, "allocated_bytes": 2877, "reserved_bytes": 3000,
    }  # fmt: skip
    assert unaccounted_bytes(old) == pytest.approx(4.975 * GIB, rel=0.01)
    assert oom_figures("RESOURCE_EXHAUSTED: Out of memory allocating 1073741824 bytes.") == {"asked_bytes": GIB}
    misspelt = oom_figures("GPU 0 has a total capacty of 23.69 GiB of which 0 bytes is free.")
    assert misspelt == {"total_bytes": pytest.approx(23.69 * GIB), "free_bytes": 0.0}
    assert figures_of("host", "you tried to allocate 116813856768 bytes. Error code 12") == {
        "asked_bytes": 116813856768
    }


def test_a_message_without_figures_has_none() -> None:
    assert oom_figures("RuntimeError: CUDA error: out of memory") == {}
    assert figures_of(None, "anything") == {}
