from typing import Any

from supervisor.model.causes import catalogue
from supervisor.model.code import Code
from supervisor.model.run import Receipt
from supervisor.remedy.configuration import configuration_of
from supervisor.remedy.ledger import BAD_CAUSES, ledger_of, point
from tests.unit.remedy.made import attempt, corrected, spec

CHUNK = "config.attention.sdpa_chunk"


def candidate(overrides: dict[str, Any] | None = None, code: Code | None = None, **changes: Any) -> Any:
    of = spec(**changes)
    return point(configuration_of(of, overrides=overrides), code, resume=of.resume)


def test_only_causes_of_the_runs_own_prove_a_point_bad() -> None:
    for cause, bad in {"gpu_oom": True, "host_oom": True, "nccl_timeout": False, "killed_unproven": False}.items():
        ledger = ledger_of([attempt(spec(), cause=cause)])
        assert (ledger.bad(candidate()) is not None) is bad, cause
        assert ledger.bad(candidate({CHUNK: 64})) is None
    assert set(catalogue()) >= BAD_CAUSES


def test_a_living_attempt_proves_nothing() -> None:
    assert ledger_of([attempt(spec())]).entries == ()


def test_where_the_checkpoint_lies_is_no_part_of_the_point() -> None:
    values = {"attention": {"sdpa_chunk": 128}, "lr": 1e-4, "resume": ""}
    launched = {"config": {**values, "resume": "/out/8"}, "env": {"RESUME": "/out/8"}}
    for resume, changed in (({"config": "resume"}, "config"), ({"env": "RESUME"}, "env"), ("--r {checkpoint}", None)):
        of = spec(resume=resume, config={"format": "toml", "values": values})
        made = attempt(of, cause="gpu_oom", command="python train.py --r /out/8")
        made = made.model_copy(update={changed: launched[changed]} if changed else {})
        assert ledger_of([made], resume=of.resume).bad(point(configuration_of(of), resume=of.resume))


def test_other_code_is_another_point_and_unknown_code_is_not() -> None:
    ledger = ledger_of([attempt(spec(), cause="gpu_oom", code=Code(head="aa"))])
    assert ledger.bad(candidate(code=Code(head="aa")))
    assert ledger.bad(candidate(code=Code()))
    assert ledger.bad(candidate(code=Code(head="bb"))) is None
    assert ledger.bad(candidate(code=Code(head="aa", dirty="1"))) is None


def test_an_edited_file_is_another_point() -> None:
    of = spec(config={"file": "a.yaml"}, knobs=[])
    ledger = ledger_of([attempt(of, cause="gpu_oom", file_text="n: 8\n")])
    assert ledger.bad(point(configuration_of(of, file_text="n: 8\n")))
    assert ledger.bad(point(configuration_of(of, file_text="n: 4\n"))) is None
    assert ledger.bad(point(configuration_of(of)))  # not read: the turned keys decide


def test_values_count_as_the_program_gets_them() -> None:
    ledger = ledger_of([attempt(spec(), cause="gpu_oom", overrides={"args.--batch": "3", "env.X": 1})])
    assert ledger.bad(candidate({"args.--batch": 3, "env.X": "1"}))
    assert ledger.bad(candidate({"args.--batch": 3, "env.X": "2"})) is None


def test_good_is_what_got_through_and_bad_wins() -> None:
    good = attempt(spec(), 1, cause="nccl_timeout")
    assert ledger_of([good]).good(candidate())
    bad = attempt(spec(), 2, cause="gpu_oom_late")
    assert ledger_of([good, bad]).good(candidate()) is None
    assert ledger_of([good, bad]).bad(candidate())
    assert ledger_of([attempt(spec(), cause="import_error", last_step=None)]).good(candidate()) is None


def test_a_correction_that_did_not_help_is_remembered() -> None:
    first = attempt(spec(), 1, cause="gpu_oom", last_step=9)
    turned = corrected(CHUNK, 128, 64)
    same_place = attempt(spec(), 2, cause="gpu_oom", last_step=9, overrides={CHUNK: 64}, correction=turned)
    further = same_place.model_copy(update={"last_step": 40})
    told = further.model_copy(update={"receipt": Receipt(helped=False)})
    assert ledger_of([first, same_place]).unhelpful("gpu_oom", {CHUNK: 64})
    assert ledger_of([first, same_place]).unhelpful("gpu_oom", {CHUNK: 32}) is None
    assert ledger_of([first, same_place]).unhelpful("host_oom", {CHUNK: 64}) is None
    assert ledger_of([first, further]).unhelpful("gpu_oom", {CHUNK: 64}) is None
    assert ledger_of([first, told]).unhelpful("gpu_oom", {CHUNK: 64})


def test_an_end_that_the_store_does_not_know_yet_is_entered_once() -> None:
    living = attempt(spec(), 1)
    ledger = ledger_of([living]).with_end(living, "gpu_oom").with_end(living, "gpu_oom")
    assert len(ledger.entries) == 1
    assert ledger.bad(candidate())


def test_other_versions_or_devices_are_another_point_and_unknown_ones_are_not():
    known = {"versions": {"torch": "2.4", "driver": "550"}, "devices": ("H200", "H200")}
    ledger = ledger_of([attempt(spec(), cause="gpu_oom", **known)])
    configuration = configuration_of(spec())
    assert ledger.bad(point(configuration))
    assert ledger.bad(point(configuration, versions={"torch": "2.4"}, devices=("H200", "H200")))
    assert ledger.bad(point(configuration, versions={"torch": "2.5"})) is None
    assert ledger.bad(point(configuration, versions={"transformers": "4.44"}))
    assert ledger.bad(point(configuration, devices=("H200",))) is None


def test_the_same_content_in_another_commit_is_the_same_point():
    tried = Code(head="a", tree="t1", dirty="x", files={"train.py": "2"})
    committed = Code(head="b", tree="t2", since="a", moved={"train.py": ("1", "2")})
    ledger = ledger_of([attempt(spec(), cause="gpu_oom", code=tried)])
    assert ledger.bad(point(configuration_of(spec()), committed))
    assert (
        ledger.bad(point(configuration_of(spec()), committed.model_copy(update={"moved": {"train.py": ("1", "3")}})))
        is None
    )
