from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference, TextResourceContents

from tests.protocol.conftest import LEGACY, MODERN
from tests.protocol.fixture_tools import TOOLS

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.protocol.local_server"]


@asynccontextmanager
async def process() -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(*COMMAND, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


async def say(started: asyncio.subprocess.Process, line: bytes) -> dict[str, Any]:
    assert started.stdin is not None
    assert started.stdout is not None
    started.stdin.write(line + b"\n")
    await started.stdin.drain()
    async with asyncio.timeout(90):
        return json.loads(await started.stdout.readline())  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_a_local_client_lists_calls_and_is_limited_in_either_era(mode: Any) -> None:
    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], cwd=ROOT)
    async with Client(parameters, mode=mode) as client:
        listed = await client.list_tools()
        assert {found.name for found in listed.tools} == {found.name for found in TOOLS} - {"repair"}
        result = await client.call_tool("echo", {"text": "grüße"})
        assert result.structured_content["said"] == ["grüße"]
        refused = await client.call_tool("echo", {"text": "too many"})
        assert refused.is_error is True
        assert refused.structured_content["retry_after_ms"] == 1000
        wrong = await client.call_tool("echo", {"text": "x", "times": "2"})
        assert wrong.structured_content["field"] == "times"


async def test_what_reads_the_database_without_a_tool_passes_the_same_rules_and_limits() -> None:
    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], cwd=ROOT)
    who = ResourceTemplateReference(uri="graphkeep://who/{id}")
    async with Client(parameters, mode="legacy") as client:
        (content,) = (await client.read_resource("graphkeep://time")).contents
        assert isinstance(content, TextResourceContents)
        assert content.text == "10 seconds", "the deadline that the limits gave"
        assert (await client.complete(who, {"name": "id", "value": "a"})).completion.values == []
        for again in (client.read_resource("graphkeep://time"), client.complete(who, {"name": "id", "value": "a"})):
            with pytest.raises(MCPError) as refused:
                await again
            assert refused.value.data["retry_after_ms"] == 1000


async def test_a_malformed_line_is_answered_and_the_next_one_served() -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    ping["params"] = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    async with process() as started:
        assert (await say(started, b"{"))["error"]["code"] == -32700
        assert (await say(started, b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}'))["error"][
            "code"
        ] == -32700
        assert (await say(started, b'{"a":' * 40 + b"1" + b"}" * 40))["error"]["code"] == -32600
        assert (await say(started, b"\n" + json.dumps(ping).encode()))["result"]["protocolVersion"] == LEGACY


async def test_the_server_ends_when_its_client_does() -> None:
    async with process() as started:
        assert started.stdin is not None
        await say(started, b"{")
        started.stdin.close()
        async with asyncio.timeout(90):
            assert await started.wait() == 0
        assert started.stderr is not None
        assert b"a stray print" in await started.stderr.read()
