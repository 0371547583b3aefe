"""What a launch is confided, and what is said where something is lacking."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from supervisor.control.secret import NOTHING, Secrets, refuse_turning
from supervisor.model.errors import InvalidInput
from supervisor.model.spec import Spec
from supervisor.probe.delivery import packed
from supervisor.store.store import Store
from supervisor.store.vault import KEY_FILE, Vault

NOW = datetime(2026, 5, 1, tzinfo=UTC)
VALUE = "hf_Geheim-1234"


@pytest.fixture
async def secrets(tmp_path: Path) -> AsyncIterator[Secrets]:
    store = await Store.open(tmp_path)
    yield Secrets(store, Vault(tmp_path), lambda: NOW)
    await store.close()


def spec(*names: str) -> Spec:
    return Spec(name="vit", node="box", command="x", secrets=names)


async def test_a_parcel_holds_what_is_set_at_that_moment(secrets: Secrets) -> None:
    assert await secrets.parcel(spec()) == NOTHING
    await secrets.put("A", VALUE, by="ada")
    await secrets.put("A", "another-" + VALUE, by="ada")
    await secrets.put("B", VALUE, by="ada")
    assert await secrets.parcel(spec("A", "B")) == (packed({"A": "another-" + VALUE, "B": VALUE}), None)
    await secrets.require(("A", "B"))


async def test_what_is_lacking_is_named_with_what_to_do(secrets: Secrets, tmp_path: Path) -> None:
    await secrets.put("A", VALUE, by="ada")
    parcel = await secrets.parcel(spec("A", "B", "C"))
    assert parcel.data == b""
    assert parcel.lacking == (
        "the secrets B, C are not set. vigil secret set B && vigil secret set C && vigil start vit"
    )
    with pytest.raises(InvalidInput) as caught:
        await secrets.require(("A", "B"))
    assert [fault["remedy"] for fault in caught.value.faults] == ["vigil secret set B"]
    (tmp_path / KEY_FILE).unlink()
    assert "is not there" in ((await secrets.parcel(spec("A"))).lacking or "")
    await secrets.remove("A", by="ada")
    await secrets.put("A", VALUE, by="ada")
    assert (await secrets.parcel(spec("A"))).lacking is None, "with none left a new key is made"


async def test_too_many_are_too_large(secrets: Secrets) -> None:
    names = [f"A{number}" for number in range(7)]
    for name in names:
        await secrets.put(name, "x" * 16_000, by="ada")
    assert "can be handed over" in ((await secrets.parcel(spec(*names))).lacking or "")


def test_a_secret_is_not_turned_like_a_knob() -> None:
    refuse_turning(spec("A"), {"env.B": "x", "args.--A": 1})
    with pytest.raises(InvalidInput, match="A is a secret"):
        refuse_turning(spec("A"), {"env.A": VALUE})
