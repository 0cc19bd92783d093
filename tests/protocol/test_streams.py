from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import psutil
import pytest
from mcp import Client

from app.edge.request_id import RequestId
from app.protocol import progress as progress_module
from app.protocol.progress import Reported
from tests.protocol.conftest import LEGACY, MODERN, Gateway, answer, events, open_gateway


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_progress_is_told_to_a_client_that_asked_and_always_rises(gateway: Gateway, era: str) -> None:
    gateway.service.release.set()
    body = gateway.request("tools/call", era=MODERN, name="slow", arguments={}, meta={"progressToken": "t1"})
    response = await gateway.post(body, era=era)
    assert response.headers["content-type"].startswith("text/event-stream")
    *told, last = events(response.text)
    assert last["result"]["structuredContent"] == {"ok": True, "done": True}
    assert {note["method"] for note in told} == {"notifications/progress"}
    assert {note["params"]["progressToken"] for note in told} == {"t1"}
    values = [note["params"]["progress"] for note in told]
    assert values == sorted(set(values))
    assert values[0] == 0
    assert values[-1] == 5
    assert len(values) < 6


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_client_that_did_not_ask_hears_no_progress(gateway: Gateway, era: str) -> None:
    gateway.service.release.set()
    response = await gateway.post(gateway.request("tools/call", era=era, name="slow", arguments={}), era=era)
    assert response.headers["content-type"] == "application/json"
    assert answer(response)["result"]["structuredContent"]["done"] is True


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_the_sdks_client_hears_progress_while_the_call_runs(gateway: Gateway, mode: Any) -> None:
    heard: list[float] = []

    async def hear(done: float, total: float | None, message: str | None) -> None:
        heard.append(done)
        gateway.service.release.set()

    async with Client(gateway.url, mode=mode) as client:
        result = await client.call_tool("slow", {}, progress_callback=hear)
    assert result.is_error is False
    assert heard[0] == 0


async def test_reports_never_fall_and_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    sent: list[float] = []

    async def send(done: float, total: float | None, message: str | None) -> None:
        sent.append(done)

    report = Reported(send)
    for done in (1, 2, 2, 1):
        await report(done, 10)
    clock[0] += 1
    for done in (1, 3, 4):
        await report(done, 10)
    await report(10, 10)
    await report(10, 10)
    assert sent == [1, 3, 10]


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}], ids=["plain", "streaming"])
async def test_a_client_that_hangs_up_cancels_its_call(gateway: Gateway, era: str, meta: dict[str, Any]) -> None:
    body = gateway.request("tools/call", era=MODERN, name="slow", arguments={}, meta=meta)
    call = asyncio.create_task(gateway.post(body, era=era))
    await gateway.service.until("begun", 1)
    call.cancel()
    await gateway.service.until("cancelled", 1)
    assert gateway.service.finished == 0


async def test_a_call_ends_at_its_deadline_even_if_its_handler_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.protocol.dispatch.GRACE", 0.05)
    async with open_gateway() as opened:
        opened.signed_in.seconds = 0.05
        said = (await opened.call("slow"))["result"]["structuredContent"]
        assert (said["reason"], said["retryable"], said["outcome"]) == ("deadline_exceeded", True, "not_applied")
        assert opened.service.cancelled == 1


async def test_a_call_whose_time_is_over_never_begins(gateway: Gateway) -> None:
    gateway.signed_in.seconds = 0.0
    said = (await gateway.call("store", {"name": "late"}))["result"]["structuredContent"]
    assert (said["reason"], said["outcome"]) == ("deadline_exceeded", "not_applied")
    assert gateway.service.written == []


async def test_hundreds_of_calls_and_open_streams_never_disturb_each_other(gateway: Gateway) -> None:
    gateway.signed_in.seconds = 300
    streams = [
        asyncio.create_task(
            gateway.post(
                gateway.request("tools/call", era=MODERN, name="slow", arguments={}, meta={"progressToken": number}),
                era=MODERN if number % 2 else LEGACY,
            )
        )
        for number in range(40)
    ]
    await gateway.service.until("begun", 40)

    async def one(number: int) -> None:
        era = (MODERN, LEGACY, None)[number % 3]
        who = ("ada", "reader")[number % 2]
        match number % 5:
            case 0:
                listed = answer(await gateway.post(gateway.request("tools/list", era=era), era=era, who=who))["result"]
                assert ("store" in {found["name"] for found in listed["tools"]}) is (who == "ada")
            case 1:
                assert "error" in await gateway.call("no_such_tool", era=era, who=who)
            case 2:
                assert (await gateway.call("echo", {"text": number}, era=era, who=who))["result"]["isError"] is True
            case _:
                said = (await gateway.call("echo", {"text": str(number)}, era=era, who=who))["result"]
                assert said["structuredContent"]["said"] == [str(number)]

    await asyncio.gather(*(one(number) for number in range(300)))
    for stream in streams[:10]:
        stream.cancel()
    await gateway.service.until("cancelled", 10)
    await asyncio.gather(*(one(number) for number in range(50)))
    gateway.service.release.set()
    for number, response in enumerate(await asyncio.gather(*streams[10:]), start=10):
        *told, last = events(response.text)
        assert last["result"]["structuredContent"]["done"] is True
        assert {note["params"]["progressToken"] for note in told} == {number}


async def test_a_list_over_http_has_no_stream_to_leave_open(gateway: Gateway) -> None:
    for method in ("GET", "DELETE"):
        response = await gateway.client.request(method, gateway.url)
        assert response.status_code == 405
        assert response.headers["allow"] == "POST"


async def test_memory_stays_flat_over_thousands_of_handshakes(gateway: Gateway) -> None:
    """Without the HTTP server between, whose buffers would hide or feign a leak."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = json.dumps(gateway.request("initialize", era=LEGACY, **params)).encode()
    names = {"host": "localhost", "content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers = [(name.encode(), value.encode()) for name, value in names.items()]
    app = RequestId(gateway.signed_in)

    async def handshake() -> None:
        waiting = [{"type": "http.request", "body": body, "more_body": False}]
        answered = asyncio.Event()
        sent: list[Any] = []

        async def receive() -> Any:
            if waiting:
                return waiting.pop()
            await answered.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                answered.set()

        await app({"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, send)
        assert sent[0]["status"] == 200

    async def handshakes(count: int) -> None:
        for _ in range(count // 10):
            await asyncio.gather(*(handshake() for _ in range(10)))
        gc.collect()

    await handshakes(200)
    process = psutil.Process()
    before = process.memory_info().rss
    await handshakes(2000)
    assert process.memory_info().rss - before < 4 * 1024 * 1024
    assert len(asyncio.all_tasks()) < 60  # what the last ten are winding down, nothing of the first
