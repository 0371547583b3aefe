"""The run routes over the real ASGI application; behind it a fleet that launches nothing."""

import json

import httpx2
import pytest

from supervisor.api.app import create_app
from supervisor.model.run import LinkView, RunState
from supervisor.model.settings import Settings
from supervisor.model.verdict import Progress
from tests.fakes import NOW, FakeFleet, attempt

SPEC = {"name": "vit-l", "node": "local", "command": "python train.py"}
YAML = "name: vit-l\nnode: local\ncommand: python train.py\n"


@pytest.fixture
def fleet():
    fleet = FakeFleet()
    for role in ("viewer", "operator", "admin"):
        fleet.store.add_token(role, role)
    return fleet


@pytest.fixture
async def api(fleet, tmp_path):
    app = create_app(fleet, fleet.store, Settings(data_folder=tmp_path))
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    headers = {"Authorization": "Bearer admin"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://vigil", headers=headers) as client:
        yield client


async def test_a_run_is_created_and_found_by_id_and_name(api):
    answer = await api.post("/api/v1/runs", json=SPEC)
    assert answer.status_code == 201
    run = answer.json()
    assert answer.headers["location"] == f"/api/v1/runs/{run['id']}"
    for key in (run["id"], "vit-l"):
        assert (await api.get(f"/api/v1/runs/{key}")).json()["id"] == run["id"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("application/yaml", YAML),
        ("application/toml", 'name = "vit-l"\nnode = "local"\ncommand = "python train.py"\n'),
        ("application/json; charset=utf-8", json.dumps(SPEC)),
    ],
)
async def test_a_spec_may_be_json_yaml_or_toml(api, kind, text):
    answer = await api.post("/api/v1/runs", content=text, headers={"Content-Type": kind})
    assert answer.status_code == 201, answer.text


async def test_an_unknown_key_is_a_problem_that_names_the_nearest(api, fleet):
    answer = await api.post("/api/v1/runs", json=SPEC | {"workdri": "~"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == "urn:vigil:problem:invalid_input"
    assert problem["instance"] == "/api/v1/runs"
    fault = problem["errors"][0]
    assert (fault["place"], fault["value"], fault["remedy"]) == ("workdri", "'~'", "did you mean 'workdir'?")
    assert not fleet.known


@pytest.mark.parametrize(
    ("content", "kind", "status", "code"),
    [
        (b"[1, 2]", "application/json", 422, "invalid_input"),
        (b"{not json", "application/json", 422, "invalid_input"),
        (b"a: b: c", "application/yaml", 422, "invalid_input"),
        (b"\xff\xfe", "application/json", 422, "invalid_input"),
        (b"name=x", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
        (b"", "application/json", 422, "invalid_input"),
        (b"name: x\n" + b"a" * 10_000_000, "application/yaml", 413, "too_large"),
    ],
)
async def test_a_bad_body_is_a_problem(api, fleet, content, kind, status, code):
    answer = await api.post("/api/v1/runs", content=content, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert not fleet.known


async def test_a_body_without_length_is_counted_as_it_comes(api):
    async def much():
        for _ in range(40):
            yield b"a" * 100_000

    answer = await api.post("/api/v1/runs", content=much(), headers={"Content-Type": "application/yaml"})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def test_aliases_that_stand_for_millions_are_refused(api):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 9)]
    answer = await api.post("/api/v1/runs", content="\n".join(lines), headers={"Content-Type": "application/yaml"})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def test_a_dry_run_creates_nothing(api, fleet):
    answer = await api.post("/api/v1/runs?dry_run=true", json=SPEC)
    assert answer.status_code == 200
    assert answer.json() == {"lines": ["would launch vit-l"], "consent": {"name": "vit-l"}}
    assert not fleet.known


async def test_the_same_idempotency_key_creates_once(api, fleet):
    headers = {"Idempotency-Key": "k1"}
    first = await api.post("/api/v1/runs", json=SPEC, headers=headers)
    again = await api.post("/api/v1/runs", json=SPEC, headers=headers)
    assert first.json() == again.json()
    assert again.status_code == 201
    assert len(fleet.known) == 1
    other = await api.post("/api/v1/runs", json=SPEC | {"name": "other"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


async def test_a_refused_request_does_not_spend_its_key(api):
    headers = {"Idempotency-Key": "k2"}
    assert (await api.post("/api/v1/runs", json=SPEC | {"node": "gone"}, headers=headers)).status_code == 404
    assert (await api.post("/api/v1/runs", json=SPEC, headers=headers)).status_code == 201


async def test_a_run_that_did_not_change_is_304(api, fleet):
    run = fleet.put("a", progress=Progress(step=1, loss=2.0))
    first = await api.get("/api/v1/runs/a")
    etag = first.headers["etag"]
    fleet.change(run.id, link=LinkView(ok=True, last_seen=NOW.replace(minute=5)))
    fleet.known[run.id] = fleet.known[run.id].model_copy(update={"version": run.version})
    same = await api.get("/api/v1/runs/a", headers={"If-None-Match": etag})
    assert (same.status_code, same.content) == (304, b"")
    fleet.change(run.id, progress=Progress(step=2, loss=1.9))
    assert (await api.get("/api/v1/runs/a", headers={"If-None-Match": etag})).json()["progress"]["step"] == 2


async def test_a_lost_link_is_a_change(api, fleet):
    run = fleet.put("a")
    etag = (await api.get("/api/v1/runs/a")).headers["etag"]
    lost = run.model_copy(update={"link": LinkView(ok=False, last_seen=NOW, error="no answer")})
    fleet.known[run.id] = lost
    answer = await api.get("/api/v1/runs/a", headers={"If-None-Match": etag})
    assert answer.json()["link"] == {"ok": False, "last_seen": "2026-03-01T12:00:00.000Z", "error": "no answer"}


async def test_a_loss_that_is_no_number_is_null(api, fleet):
    fleet.put("a", progress=Progress(step=1, loss=float("nan")), spec={"x": float("inf")})
    answer = await api.get("/api/v1/runs/a")
    assert json.loads(answer.content, parse_constant=pytest.fail)["progress"]["loss"] is None


async def test_the_list_goes_on_by_cursor_and_filters(api, fleet):
    for n in range(5):
        fleet.put(f"run-{n}", state=RunState.FAILED if n == 2 else RunState.RUNNING)
    page = (await api.get("/api/v1/runs?limit=2")).json()
    names = [run["name"] for run in page["items"]]
    while page["next_cursor"]:
        page = (await api.get("/api/v1/runs", params={"limit": 2, "cursor": page["next_cursor"]})).json()
        names += [run["name"] for run in page["items"]]
    assert names == ["run-4", "run-3", "run-2", "run-1", "run-0"]
    failed = (await api.get("/api/v1/runs?state=failed")).json()
    assert [run["name"] for run in failed["items"]] == ["run-2"]
    answer = await api.get("/api/v1/runs")
    etag = {"If-None-Match": answer.headers["etag"]}
    assert (await api.get("/api/v1/runs", headers=etag)).status_code == 304


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "state=happy"])
async def test_a_bad_query_is_a_problem(api, query):
    answer = await api.get(f"/api/v1/runs?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["place"] == f"query.{query.split('=')[0]}"


@pytest.mark.parametrize("path", ["runs/a/log?since", "runs/a/log?tail", "runs/a/events?after", "events?after"])
async def test_a_number_beyond_the_store_is_a_problem(api, fleet, path):
    fleet.put("a")
    assert (await api.get(f"/api/v1/{path}={2**63}")).status_code == 422


@pytest.mark.parametrize("until", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
async def test_a_moment_outside_of_the_calendar_is_a_problem(api, fleet, until):
    fleet.put("a")
    answer = await api.post("/api/v1/runs/a:hold", json={"until": until})
    assert (answer.status_code, answer.json()["errors"][0]["place"]) == (422, "until")


async def test_what_a_person_may_ask(api, fleet):
    fleet.put("a")
    body = {"set": {"config.lr": 0.1}, "why": "slower", "at": "checkpoint"}
    answer = await api.post("/api/v1/runs/a:restart", json=body)
    assert (answer.status_code, answer.json()["state"]) == (202, "restarting")
    assert fleet.calls[-1] | {"until": None} == {
        "call": "restart",
        "by": "the admin",
        "why": "slower",
        "overrides": {"config.lr": 0.1},
        "at": "checkpoint",
        "until": None,
        "run": "a",
    }
    answer = await api.post("/api/v1/runs/a:hold", json={"why": "looking", "until": "2026-03-02T00:00:00+02:00"})
    assert answer.json()["hold"] == {
        "by": "the admin",
        "why": "looking",
        "until": "2026-03-01T22:00:00.000Z",
        "scope": "run",
    }
    assert (await api.post("/api/v1/runs/a:release")).json()["hold"] is None
    assert (await api.post("/api/v1/runs/a:promote", json={"cause": "gpu_oom", "to": "alert"})).status_code == 202
    assert (await api.post("/api/v1/runs/a:stop")).json()["state"] == "stopping"


async def test_a_call_that_the_state_does_not_allow_is_409(api, fleet):
    fleet.put("a")
    answer = await api.post("/api/v1/runs/a:start")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert (await api.delete("/api/v1/runs/a")).status_code == 409
    fleet.change("a", state=RunState.FAILED)
    assert (await api.delete("/api/v1/runs/a")).status_code == 202
    assert (await api.get("/api/v1/runs/a")).status_code == 404


async def test_a_misspelt_key_of_a_call_is_named(api, fleet):
    fleet.put("a")
    answer = await api.post("/api/v1/runs/a:restart", json={"sett": {}})
    assert answer.json()["errors"][0]["remedy"] == "did you mean 'set'?"
    assert not fleet.calls


async def test_the_log_names_where_to_go_on_and_what_is_lost(api, fleet):
    run = fleet.put("a", attempts=(attempt(1, state="ended"), attempt(2)))
    fleet.store.logs = {(run.id, 1): b"one\n", (run.id, 2): bytes(range(256)) * 8}
    fleet.store.gaps = {(run.id, 2): (100, 28)}
    first = await api.get("/api/v1/runs/a/log?attempt=1")
    assert (first.content, first.headers["x-next-offset"], first.headers["x-attempt"]) == (b"one\n", "4", "1")
    assert "x-gap-bytes" not in first.headers
    after = await api.get("/api/v1/runs/a/log?since=100&limit=2")
    assert (after.content, after.headers["x-next-offset"], after.headers["x-gap-bytes"]) == (b"\x80\x81", "130", "28")
    assert (await api.get("/api/v1/runs/a/log?attempt=9")).status_code == 404
    assert (await api.get("/api/v1/runs/a/log?since=-1")).status_code == 422


async def test_the_tail_of_a_log_goes_on_like_any_other_read(api, fleet):
    run = fleet.put("a", attempts=(attempt(1),))
    fleet.store.logs = {(run.id, 1): b"one\ntwo\nthree\n"}
    answer = await api.get("/api/v1/runs/a/log?tail=6")
    assert (answer.content, answer.headers["x-next-offset"]) == (b"three\n", "14")
    assert (await api.get("/api/v1/runs/a/log?tail=1000")).content == b"one\ntwo\nthree\n"
    assert (await api.get("/api/v1/runs/a/log?tail=0")).status_code == 422


async def test_a_run_without_an_attempt_has_an_empty_log(api, fleet):
    fleet.put("a")
    answer = await api.get("/api/v1/runs/a/log?since=7")
    assert (answer.status_code, answer.content, answer.headers["x-next-offset"]) == (200, b"", "7")


async def test_screen_attach_and_events(api, fleet):
    await api.post("/api/v1/runs", json=SPEC)
    assert (await api.get("/api/v1/runs/vit-l/screen")).json() == {
        "columns": 80,
        "rows": 2,
        "at": "2026-03-01T12:00:00.000Z",
        "ansi": "\x1b[1mhello\x1b[0m\n",
    }
    assert (await api.post("/api/v1/runs/vit-l:attach")).json()["argv"][-1] == "read-only"
    events = (await api.get("/api/v1/runs/vit-l/events?after=0&wait_s=5")).json()
    assert [event["type"] for event in events["items"]] == ["run.created"]
    assert (await api.get(f"/api/v1/runs/vit-l/events?after={events['next_after']}")).json()["items"] == []


async def test_series_pass_their_query_on_and_need_a_zone(api, fleet):
    fleet.put("a")
    answer = await api.get("/api/v1/runs/a/series?from=2026-03-01T00:00:00Z&step_s=60&names=loss,gpu_memory_used_bytes")
    assert answer.json() == {
        "t": [1.5],
        "series": [{"name": "loss", "labels": {}, "last": [None], "min": [2], "max": [3]}],
    }
    assert fleet.store.asked["names"] == ["loss", "gpu_memory_used_bytes"]
    assert fleet.store.asked["step_s"] == 60
    assert fleet.store.asked["since"].isoformat() == "2026-03-01T00:00:00+00:00"
    bad = await api.get("/api/v1/runs/a/series?to=2026-03-01T00:00:00")
    assert bad.json()["errors"][0]["place"] == "query.to"


async def test_a_session_is_adopted_and_its_spec_accepted(api, fleet):
    await api.post("/api/v1/nodes", json={"name": "box"})
    dry = await api.post("/api/v1/nodes/box:adopt?dry_run=true", json={"tmux": "llm"})
    assert (dry.status_code, dry.json()["run"], dry.json()["spec"]["name"]) == (200, None, "llm")
    made = await api.post("/api/v1/nodes/box:adopt", json={"tmux": "llm"})
    assert made.status_code == 201
    assert made.headers["location"] == f"/api/v1/runs/{made.json()['run']['id']}"
    accepted = await api.post("/api/v1/runs/llm:accept", json={**SPEC, "name": "llm"})
    assert accepted.status_code == 202
    assert (await api.post("/api/v1/nodes/none:adopt", json={"tmux": "llm"})).status_code == 404
    assert (await api.post("/api/v1/nodes/box:adopt", json={"tmux": "x", "socket_name": "a/b"})).status_code == 422
