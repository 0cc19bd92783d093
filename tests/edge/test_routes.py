"""Paths, methods, probes and metrics."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from app.edge.health import Finding, Health
from app.edge.methods import PostOnly
from app.edge.routes import Routes
from tests.edge.conftest import Serve, body_of


async def answers(scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse({"path": scope["path"]})(scope, receive, send)


async def test_mcp_takes_post_only_and_says_so(serve: Serve) -> None:
    async with serve(Routes({"/mcp": PostOnly(answers)})) as server, server.client() as client:
        for method in ("GET", "DELETE", "HEAD", "PUT", "OPTIONS"):
            answer = await client.request(method, "/mcp")
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert (await client.post("/mcp")).status_code == 200


async def test_a_trailing_slash_is_the_same_endpoint_and_never_a_redirect(serve: Serve) -> None:
    async with serve(Routes({"/mcp": PostOnly(answers)})) as server, server.client() as client:
        assert body_of(await client.post("/mcp/")) == {"path": "/mcp"}


async def test_an_unknown_path_is_a_404_with_the_request_id_for_programs_and_people(serve: Serve) -> None:
    async with serve(Routes({})) as server, server.client() as client:
        answer = await client.get("/nothing", headers={"Accept": "application/json"})
        page = await client.get("/<script>", headers={"Accept": "text/html"})
    assert (answer.status_code, body_of(answer)["reason"]) == (404, "not_found")
    assert body_of(answer)["request_id"] == answer.headers["x-request-id"]
    assert page.status_code == 404
    assert "/mcp" in page.text
    assert "<script>" not in page.text


async def test_readiness_names_what_is_missing_and_only_what_is_required_counts(serve: Serve) -> None:
    found = {
        "database": Finding(False, "the database does not answer"),
        "model": Finding(False, "none", required=False),
    }

    def check(name: str) -> object:
        async def finding() -> Finding:
            return found[name]

        return finding

    stopping = False
    health = Health({name: check(name) for name in found}, stopping=lambda: stopping)  # type: ignore[misc]
    async with serve(Routes({"/healthz": health, "/readyz": health})) as server, server.client() as client:
        by_address = {"Host": "10.0.0.7:8080"}  # an orchestrator asks by address
        assert (await client.get("/healthz", headers=by_address)).status_code == 200
        missing = await client.get("/readyz", headers=by_address)
        assert missing.status_code == 503
        assert body_of(missing)["checks"]["database"] == {"ok": False, "reason": "the database does not answer"}
        found["database"] = Finding(True, "connected")
        assert (await client.get("/readyz")).status_code == 200
        stopping = True
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.post("/readyz")).status_code == 405


async def test_metrics_count_requests_under_bounded_labels_and_have_no_public_path(serve: Serve) -> None:
    async with serve(Routes({"/mcp": PostOnly(answers)})) as server, server.client() as client:
        await client.post("/mcp")
        for number in range(5):
            await client.request("PROPFIND", f"/no-such-{number}")
        assert (await client.get("/metrics")).status_code == 404
        registry = server.instruments.metrics.registry
    counted = {
        tuple(sample.labels.values()): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "graphkeep_requests_total"
    }
    assert counted[("mcp", "POST", "200")] == 1
    assert {key for key in counted if key[0] == "other"} == {("other", "GET", "404"), ("other", "other", "404")}
    assert not any("no-such" in part for key in counted for part in key)
