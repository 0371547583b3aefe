"""A value goes in and never comes out: not in an answer, not in a refusal."""

from typing import Any

import httpx2
import pytest

from supervisor.api.app import create_app
from supervisor.model.settings import Settings
from tests.fakes import FakeFleet

VALUE = "hush-hush-1234"


@pytest.fixture
def fleet():
    fleet = FakeFleet()
    fleet.store.add_token("admin", "admin")
    return fleet


@pytest.fixture
async def api(fleet, tmp_path):
    transport = httpx2.ASGITransport(create_app(fleet, fleet.store, Settings(data_folder=tmp_path)))
    headers = {"Authorization": "Bearer admin"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://vigil", headers=headers) as client:
        yield client


async def test_set_list_and_forget(api, fleet):
    answer = await api.put("/api/v1/secrets/HF_TOKEN", json={"value": VALUE})
    assert answer.status_code == 200
    assert answer.json()["set_by"] == "the admin"
    assert fleet.secrets.values == {"HF_TOKEN": VALUE}
    listed = await api.get("/api/v1/secrets")
    assert [one["name"] for one in listed.json()["items"]] == ["HF_TOKEN"]
    gone = await api.delete("/api/v1/secrets/HF_TOKEN")
    assert gone.json()["name"] == "HF_TOKEN"
    assert not any(VALUE in one.text for one in (answer, listed, gone))
    assert (await api.delete("/api/v1/secrets/HF_TOKEN")).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        VALUE.encode(),
        f'"{VALUE}"'.encode(),
        f'{{"value": "{VALUE}"'.encode(),
        f'{{"value": ["{VALUE}"]}}'.encode(),
        f'{{"valu": "{VALUE}"}}'.encode(),
        f'{{"value": "{VALUE}", "{VALUE}": 1}}'.encode(),
        f'{{"value": "{VALUE}\\u0000"}}'.encode(),
        f'{{"value": "{VALUE}\\ud800"}}'.encode(),
        b"\xff" + VALUE.encode(),
        f'{{"value": "{VALUE * 2000}"}}'.encode(),
        b'{"value": "short"}',
        b"",
    ],
)
async def test_no_refusal_quotes_a_value(api: Any, fleet: Any, body: bytes) -> None:
    answer = await api.put("/api/v1/secrets/HF_TOKEN", content=body)
    assert answer.status_code == 422
    assert VALUE not in answer.text
    assert "short" not in answer.text
    assert fleet.secrets.values == {}


@pytest.mark.parametrize("name", ["1A", "A-B", "VIGIL_RUN", "A=B", "A" * 129])
async def test_a_name_is_that_of_a_variable(api: Any, fleet: Any, name: str) -> None:
    answer = await api.put(f"/api/v1/secrets/{name}", json={"value": VALUE})
    assert answer.status_code == 422
    assert VALUE not in answer.text
