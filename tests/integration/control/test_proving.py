"""What one run proved bad, no other one is launched at by Vigil; a person is told, and may say `anyway`."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.control.editing import edit
from supervisor.control.secret import Secrets
from supervisor.control.surroundings import Surroundings
from supervisor.control.watch import Watch
from supervisor.model.begin import UNSAID, Begin
from supervisor.model.errors import NotFound
from supervisor.model.reading import parse_spec
from supervisor.model.run import ENDED, Run, RunState
from supervisor.model.spec import Spec
from supervisor.store.store import Store
from supervisor.store.vault import Vault
from tests.integration.control.model_node import Clock, ModelNode
from tests.integration.control.test_interleavings import SPEC


@pytest.fixture
async def store(tmp_path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "store")
    yield opened
    await opened.close()


async def live(store: Store, clock: Clock, begin: Begin = UNSAID, *, fits: int = 50, **keys: Any) -> Run:
    """A run on a node of its own with nothing in its folder, lived to its end."""
    data = {**SPEC, "env": {"SIZE": "200"}, **keys}
    node = ModelNode(clock, fits=fits)
    record = await store.create_run(parse_spec(data), data, by="test", now=clock(), begin=begin)
    around = Surroundings(
        store=store,
        link=node,  # type: ignore[arg-type]
        run_url=lambda run: run.id,
        secrets=Secrets(store, Vault(Path()), clock),
        now=clock,
    )
    watch = Watch(record.run.id, around)
    for _ in range(200):
        await watch.turn()
        run = (await store.load_run(record.run.id)).run
        if run.state in ENDED:
            return run
    raise AssertionError(f"never ends: {run}")


async def test_an_end_for_a_cause_of_its_own_is_entered_once_for_each_attempt(store: Store) -> None:
    run = await live(store, Clock(), name="first")
    assert run.state is RunState.FINISHED
    assert [attempt.overrides for attempt in run.attempts] == [{}, {"env.SIZE": 100}, {"env.SIZE": 50}]
    entered = await store.proofs()
    assert [(one.name, one.attempt, one.cause) for one in entered] == [
        ("first", 2, "host_alloc_failed"),
        ("first", 1, "host_alloc_failed"),
    ]


async def test_a_bad_point_is_not_launched_by_another_run_and_the_attempt_is_named(store: Store) -> None:
    clock = Clock()
    await live(store, clock, name="first")
    run = await live(store, clock, name="second")
    assert (run.state, run.attempts) == (RunState.FAILED, ())
    assert run.reason is not None
    assert "Attempt 1 of first proved this very point bad: host_alloc_failed" in run.reason
    assert "--anyway" in run.reason


@pytest.mark.parametrize(("size", "told"), [("200", True), ("20", False)])
async def test_an_edit_says_what_other_runs_proved(store: Store, size: str, told: bool) -> None:
    clock = Clock()
    await live(store, clock, name="first")
    run = await live(store, clock, name="second", env={"SIZE": "40"})
    raw = {**run.spec, "env": {"SIZE": size}}

    async def submit(data: dict[str, Any]) -> tuple[Spec, str | None]:
        return parse_spec(data), None

    node: Any = ModelNode(clock, fits=50)
    record = await store.load_run(run.id)
    found = await edit(store, node, record, raw, submit=submit, by="ada", why=None, tag=None, dry_run=True, now=clock())
    assert found.changed == ("env",)
    assert any("of first proved this very point bad" in note for note in found.notes) is told


async def test_anyway_launches_it_and_the_corrections_pass_over_what_was_proved(store: Store) -> None:
    clock = Clock()
    await live(store, clock, name="first")
    run = await live(store, clock, Begin(anyway=True), name="second")
    assert run.state is RunState.FINISHED
    assert [attempt.overrides for attempt in run.attempts] == [{}, {"env.SIZE": 50}], "100 was proved bad by the first"


async def test_where_all_that_the_knobs_lead_to_is_bad_vigil_gives_up(store: Store) -> None:
    clock = Clock()
    knobs = [{"key": "env.SIZE", "step": "halve", "min": 100, "relieves": ["host_memory"]}]
    first = await live(store, clock, name="first", knobs=knobs)
    assert first.state is RunState.FAILED
    run = await live(store, clock, Begin(anyway=True), name="second", knobs=knobs)
    assert run.state is RunState.FAILED
    assert len(run.attempts) == 1


async def test_another_setting_or_node_is_another_point_and_a_forgotten_one_is_free(store: Store) -> None:
    clock = Clock()
    await live(store, clock, name="first")
    assert (await live(store, clock, name="other", command=["train", "--fast"])).attempts
    for one in await store.proofs():
        assert (await store.forget_proof(one.id)).id == one.id
    with pytest.raises(NotFound, match="no line 1"):
        await store.forget_proof(1)
    assert (await live(store, clock, name="second")).attempts


async def test_a_proof_outlives_its_run(store: Store) -> None:
    clock = Clock()
    first = await live(store, clock, name="first")
    await store.delete_run(first.id, "ada", clock())
    assert (await live(store, clock, name="second")).attempts == ()
