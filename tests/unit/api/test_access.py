"""Who may do what; problems for everything; headers; the page's login."""

import stat

import httpx2
import pytest

from supervisor.api.app import create_app
from supervisor.api.auth import CSRF_HEADER, write_token
from supervisor.api.logins import MAX_FAILURES, WINDOW_S, FailedLogins
from supervisor.api.problems import TooManyRequests
from supervisor.client import error_kinds
from supervisor.model.errors import VigilError
from supervisor.model.run import RunState
from supervisor.model.settings import Settings
from tests.fakes import FakeFleet


@pytest.fixture
def fleet():
    fleet = FakeFleet()
    for role in ("viewer", "operator", "admin"):
        fleet.store.add_token(role, role)
    fleet.put("a")
    return fleet


@pytest.fixture
def app(fleet, tmp_path):
    return create_app(fleet, fleet.store, Settings(data_folder=tmp_path))


@pytest.fixture
async def api(app):
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False, client=("10.1.1.1", 5))
    async with httpx2.AsyncClient(transport=transport, base_url="http://vigil") as client:
        yield client


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


async def test_without_a_valid_token_it_is_401(api):
    for headers in ({}, bearer("wrong"), {"Authorization": "Basic abc"}):
        answer = await api.get("/api/v1/runs", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("method", "path", "least"),
    [
        ("GET", "/api/v1/runs", "viewer"),
        ("GET", "/api/v1/nodes/local", "viewer"),
        ("POST", "/api/v1/runs/a:hold", "operator"),
        ("POST", "/api/v1/runs/a:attach", "operator"),
        ("POST", "/api/v1/runs?dry_run=true", "operator"),
        ("DELETE", "/api/v1/nodes/local", "admin"),
        ("GET", "/api/v1/secrets", "viewer"),
        ("PUT", "/api/v1/secrets/HF_TOKEN", "admin"),
        ("DELETE", "/api/v1/secrets/HF_TOKEN", "admin"),
        ("POST", "/api/v1/nodes", "admin"),
    ],
)
async def test_roles(api, method, path, least):
    order = ["viewer", "operator", "admin"]
    for role in order:
        answer = await api.request(method, path, headers=bearer(role))
        assert (answer.status_code == 403) == (order.index(role) < order.index(least)), (role, answer.text)


async def test_every_error_is_a_problem(api):
    for method, path, status, code in [
        ("GET", "/api/v1/nothing", 404, "not_found"),
        ("POST", "/api/v1/nothing", 404, "not_found"),
        ("GET", "/nothing.js", 404, "not_found"),
        ("GET", "/../../etc/passwd", 404, "not_found"),
        ("PUT", "/api/v1/runs", 405, "method_not_allowed"),
        ("PATCH", "/api/v1/runs/a", 405, "method_not_allowed"),
        ("GET", "/api/v1/runs/gone", 404, "not_found"),
    ]:
        answer = await api.request(method, path, headers=bearer("admin"))
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem["status"]) == (status, code, status), path
        assert answer.headers["content-type"] == "application/problem+json"
        assert problem["type"] == f"urn:vigil:problem:{code}"


async def test_an_unforeseen_error_says_nothing_of_the_inside(app, api, fleet):
    def broken():
        raise RuntimeError("secret inside")

    fleet.readiness = broken
    answer = await api.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (500, "error")
    assert "secret" not in answer.text
    assert answer.headers["content-security-policy"]


async def test_the_page_logs_in_by_cookie_and_needs_its_header(api):
    answer = await api.post("/api/v1/login", json={"token": "operator"})
    assert answer.status_code == 200
    assert answer.json() == {"name": "the operator", "role": "operator"}
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert (await api.get("/api/v1/me")).json()["role"] == "operator"
    assert (await api.post("/api/v1/runs/a:hold")).status_code == 403
    assert (await api.post("/api/v1/runs/a:hold", headers={CSRF_HEADER: "1"})).status_code == 202
    assert (await api.post("/api/v1/logout")).status_code == 204
    assert (await api.get("/api/v1/me")).status_code == 401


async def test_failed_logins_are_limited_and_a_program_with_its_token_is_not(api):
    for _ in range(MAX_FAILURES):
        assert (await api.post("/api/v1/login", json={"token": "wrong"})).status_code == 401
    answer = await api.post("/api/v1/login", json={"token": "admin"})
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
    assert 0 < int(answer.headers["retry-after"]) <= WINDOW_S
    assert (await api.get("/api/v1/me", headers=bearer("wrong"))).status_code == 429
    assert (await api.get("/api/v1/me", headers=bearer("admin"))).status_code == 200


def test_failures_are_forgotten_after_the_window():
    now_s = 0.0
    logins = FailedLogins(clock=lambda: now_s)
    for _ in range(MAX_FAILURES):
        logins.count("a")
    with pytest.raises(TooManyRequests):
        logins.refuse("a")
    logins.refuse("b")
    now_s = WINDOW_S + 0.1
    logins.refuse("a")


async def test_every_answer_carries_the_policy(api):
    for path in ("/", "/livez", "/api/v1/runs", "/nothing"):
        answer = await api.get(path)
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"


async def test_the_pages_files_are_asked_for_again_each_time(api):
    page = await api.get("/")
    assert page.headers["content-type"].startswith("text/html")
    script = await api.get("/app.js")
    assert "javascript" in script.headers["content-type"]
    assert script.headers["cache-control"] == "no-cache"
    again = await api.get("/app.js", headers={"If-None-Match": script.headers["etag"]})
    assert again.status_code == 304
    assert "max-age" in (await api.get("/vendor/uPlot.min.css")).headers["cache-control"]


async def test_health(api, fleet):
    assert (await api.get("/livez")).json()["status"] == "ok"
    assert (await api.get("/readyz")).status_code == 200
    fleet.ready = False
    answer = await api.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]) == (503, {"fleet": False})
    assert (await api.get("/livez")).status_code == 200


async def test_a_name_that_was_used_again_has_one_sample(fleet, api):
    fleet.put("again", state=RunState.FAILED, restarts=3)
    fleet.put("again", restarts=1)
    lines = (await api.get("/metrics", headers=bearer("viewer"))).text.splitlines()
    assert [line for line in lines if line.startswith('vigil_run_restarts_total{node="local",run="again"}')] == [
        'vigil_run_restarts_total{node="local",run="again"} 1.0'
    ]
    assert 'vigil_runs{state="failed"} 1.0' in lines


def test_every_error_can_be_made_again_from_its_problem():
    for kind in error_kinds().values():
        made = kind("what", remedy="how", faults=[])
        assert (made.detail, made.remedy) == ("what", "how")


async def test_metrics_with_a_token_or_from_this_machine(app, api):
    assert (await api.get("/metrics")).status_code == 401
    text = (await api.get("/metrics", headers=bearer("viewer"))).text
    assert 'vigil_runs{state="running"} 1.0' in text
    assert 'vigil_node_up{node="local"} 1.0' in text
    assert 'vigil_http_requests_total{method="GET",route="/metrics",status="401"}' in text
    local = httpx2.ASGITransport(app, client=("127.0.0.1", 5))
    async with httpx2.AsyncClient(transport=local, base_url="http://127.0.0.1:8722") as client:
        assert (await client.get("/metrics")).status_code == 200
        assert (await client.get("/metrics", headers={"Host": "rebound.example"})).status_code == 401
        assert (await client.get("/metrics", headers={"X-Forwarded-For": "10.0.0.1"})).status_code == 401


async def test_nodes(api):
    body = {
        "name": "gpubox",
        "ssh": {"host": "gpubox", "port": 22, "user": "root"},
        "container": {"kind": "pct", "id": "200"},
    }
    answer = await api.post("/api/v1/nodes", json=body, headers=bearer("admin"))
    assert answer.status_code == 201, answer.text
    node = answer.json()
    assert answer.headers["location"] == "/api/v1/nodes/gpubox"
    assert (node["shown"], node["link"]["ok"], node["versions"]) == ("gpubox / ct 200", True, {"tmux": "3.5a"})
    assert {"gpus", "limits", "missing", "ssh", "container", "user", "python"} <= node.keys()
    assert (await api.post("/api/v1/nodes", json=body, headers=bearer("admin"))).status_code == 409
    names = [one["name"] for one in (await api.get("/api/v1/nodes", headers=bearer("viewer"))).json()["items"]]
    assert names == ["local", "gpubox"]
    rows = (await api.post("/api/v1/nodes/gpubox:check", headers=bearer("viewer"))).json()["rows"]
    assert rows[1] == {"what": "tmux", "ok": False, "found": "none", "mend": "apt install tmux", "needed": True}
    key = await api.post("/api/v1/nodes:host-key", json=body, headers=bearer("admin"))
    assert key.json()["fingerprint"] == "SHA256:fake"
    own = await api.post("/api/v1/nodes:key", json=body, headers=bearer("admin"))
    assert own.json() == {"line": "ssh-ed25519 AAAAown vigil@fake", "accepted": True}
    gone = await api.delete("/api/v1/nodes/gpubox", headers=bearer("admin"))
    assert (gone.status_code, gone.json()["removed"]) == (200, ["/root/.cache/vigil"])
    assert (await api.get("/api/v1/nodes/gpubox", headers=bearer("viewer"))).status_code == 404


def test_openapi_names_every_operation_after_its_function(app):
    document = app.openapi()
    operations = {
        operation["operationId"]: (method, path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert operations["create_run"] == ("post", "/api/v1/runs")
    assert operations["read_log"] == ("get", "/api/v1/runs/{key}/log")
    assert len(operations) == sum(len(methods) for methods in document["paths"].values())
    schemas = document["components"]["schemas"]
    assert {"Spec", "Problem", "RestartBody", "NodeSpec", "Run"} <= schemas.keys()
    assert set(references(document)) <= {f"#/components/schemas/{name}" for name in schemas}


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_the_first_token_is_readable_by_its_owner_only(tmp_path):
    path = write_token(tmp_path, "vigil_abc")
    assert path.read_text() == "vigil_abc\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_token(tmp_path, "vigil_def")
    assert path.read_text() == "vigil_def\n"


def test_the_codes_of_problems_are_unique():
    def tree(kind):
        yield kind
        for below in kind.__subclasses__():
            yield from tree(below)

    codes = {}
    for kind in tree(VigilError):
        assert codes.setdefault(kind.code, kind) is kind or issubclass(kind, codes[kind.code]), kind
