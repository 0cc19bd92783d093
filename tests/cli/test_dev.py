"""`graphkeep dev`, whole: the tests of this module follow one another on the same two gateways."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from tests.cli.conftest import Place
from tests.conftest import Server
from tests.identity import SECRET_KEY

PATIENCE_SECONDS = 240
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


def client(place: Place, **options: Any) -> httpx2.Client:
    return httpx2.Client(
        verify=ssl.create_default_context(cafile=str(place.authority)), trust_env=False, timeout=60, **options
    )


def call(place: Place, base: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a tool answers; asked again while it says that this may help, as an agent does."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {**HEADERS, "Authorization": f"Bearer {place.token}"}
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        with client(place) as http:
            answer = http.post(f"{base}/mcp", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        text = answer.text
        if answer.headers["content-type"].startswith("text/event-stream"):
            text = next(line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:"))
        result: dict[str, Any] = json.loads(text)["result"]["structuredContent"]
        if result["ok"] or not result["retryable"] or time.monotonic() > until:
            return result
        time.sleep(result.get("retry_after_ms", 500) / 1000)


def test_two_gateways_run_side_by_side_and_say_where(places: tuple[Place, Place]) -> None:
    for place in places:
        assert set(place.ready) == {"mcp", "https", "http", "home", "signin"}
        assert place.ready["home"] == str(place.home)
        assert place.ready["mcp"] == f"https://localhost:{place.https}/mcp"
        assert place.ready["http"] == f"http://localhost:{place.http}"
        with client(place) as http:
            for base in (place.ready["https"], place.ready["http"]):
                published = http.get(f"{base}/.well-known/oauth-protected-resource/mcp").json()
                assert published["resource"] == f"{base}/mcp"
            assert http.post(place.ready["mcp"], json={}).status_code == 401


def test_nothing_listens_beyond_loopback_and_nothing_in_the_home_is_open_to_others(
    places: tuple[Place, Place],
) -> None:
    place = places[0]
    assert place.process is not None
    family = [psutil.Process(place.process.pid), *place.children()]
    assert len(family) >= 3
    for process in family:
        for connection in process.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                assert connection.laddr.ip in {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert place.home.stat().st_mode & 0o077 == 0
    password = next(path.read_text().strip() for path in place.home.rglob("*password*") if path.is_file())
    for process in family:
        assert password not in " ".join(process.cmdline())


def test_a_token_made_beside_the_running_gateway_keeps_and_finds(places: tuple[Place, Place]) -> None:
    for place in places:
        made = place.answer("token", "create", "--user", "owner@graphkeep.internal", "--tenant", "home", "--days", "1")
        place.token = made["token"]
    first, second = places
    relation = {"from_name": "Ada", "from_type": "Person", "relation": "WORKS_ON", "to_name": "Atlas"}
    told = call(first, first.ready["https"], "graph_relate", {**relation, "to_type": "Project"})
    assert told["ok"] is True, told
    found = call(first, first.ready["http"], "graph_query", {"entities": ["Ada"]})
    assert "Atlas" in json.dumps(found)
    elsewhere = call(second, second.ready["https"], "graph_query", {"entities": ["Ada"]})
    assert "Atlas" not in json.dumps(elsewhere)
    with client(second) as http:
        foreign = http.post(second.ready["mcp"], json={}, headers={**HEADERS, "Authorization": f"Bearer {first.token}"})
    assert foreign.status_code == 401


def test_the_sign_in_link_belongs_to_the_https_address_and_opens(places: tuple[Place, Place]) -> None:
    place = places[0]
    link = place.ready["signin"]
    assert link.startswith(place.ready["https"])
    with client(place) as http:
        page = http.get(link)
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]
    assert urlsplit(link).query.removeprefix("token=") not in page.headers.get("set-cookie", "")


def test_the_doctor_finds_a_running_gateway_healthy(places: tuple[Place, Place]) -> None:
    examined = places[0].answer("doctor")
    assert examined["ok"] is True, examined
    checks = {found["check"]: found for found in examined["checks"]}
    assert checks["database"]["ok"]
    assert checks["schema"]["ok"]
    assert checks[f"address {places[0].ready['https']}"]["ok"]
    assert places[0].run("doctor", "--alive").returncode == 0


def test_a_second_start_in_the_same_home_is_refused_and_harms_nothing(places: tuple[Place, Place]) -> None:
    place = places[0]
    ended = place.run("dev", "--json")
    assert ended.returncode == 75
    assert "already runs" in ended.stderr
    assert ended.stdout == ""
    with client(place) as http:
        assert http.get(f"{place.ready['http']}/healthz").status_code == 200


@pytest.mark.parametrize("busy", ["http", "https"])
def test_a_busy_port_is_named_before_anything_starts(places: tuple[Place, Place], tmp_path: Path, busy: str) -> None:
    third = Place(tmp_path / "home", **{busy: getattr(places[0], busy)})
    ended = third.run("dev", "--json")
    assert ended.returncode == 69
    assert str(getattr(places[0], busy)) in ended.stderr
    assert f"GRAPHKEEP_{busy.upper()}_PORT" in ended.stderr
    assert not (third.home / "neo4j").exists()
    assert third.children() == []


def test_a_database_that_dies_is_started_again_with_what_it_held(places: tuple[Place, Place]) -> None:
    place = places[0]
    java = next(process for process in place.children() if "java" in process.name())
    java.kill()
    answer = call(place, place.ready["http"], "graph_query", {"entities": ["Ada"]})
    assert "Atlas" in json.dumps(answer)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything_once_and_in_order(places: tuple[Place, Place], how: signal.Signals) -> None:
    place = places[0] if how is signal.SIGINT else places[1]
    assert place.process is not None
    children = place.children()
    code, said = place.stop(how)
    assert code == 0, said
    assert said.count("Stopping: the gateway, Caddy, the database") == 1
    assert said.rstrip().endswith("Stopped.")
    assert "Traceback" not in said
    assert [process for process in children if process.is_running()] == []
    assert place.children() == []
    for port in (place.http, place.https):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))


def test_ctrl_c_while_it_starts_leaves_nothing_behind(places: tuple[Place, Place]) -> None:
    place = places[1]
    place.launch()
    assert place.process is not None
    assert place.process.stderr is not None
    while "database" not in place.process.stderr.readline():
        assert place.process.poll() is None
    code, said = place.stop()
    assert code == 0, said
    assert "Traceback" not in said
    assert place.children() == []


def test_a_wrong_password_of_an_external_database_is_a_clear_refusal(neo4j_server: Server, tmp_path: Path) -> None:
    external = {"NEO4J_URI": neo4j_server.uri, "NEO4J_PASSWORD": "not the password"}
    ended = Place(tmp_path / "home", extra=external).run("dev", "--json")
    assert ended.returncode == 78
    assert "password" in ended.stderr
    assert "not the password" not in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_an_external_database_is_used_and_no_other_started(neo4j_server: Server, tmp_path: Path) -> None:
    external = {
        "NEO4J_URI": neo4j_server.uri,
        "NEO4J_PASSWORD": neo4j_server.password,
        "GRAPHKEEP_SECRET_KEY": SECRET_KEY,
    }
    place = Place(tmp_path / "home", extra=external)
    place.launch()
    try:
        place.wait_until_ready()
        assert [process.name() for process in place.children() if "java" in process.name()] == []
        assert not (place.home / "neo4j").exists()
    finally:
        code, said = place.stop()
    assert code == 0, said
