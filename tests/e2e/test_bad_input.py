"""What no caller should send, sent to every tool in both eras through the whole gateway.

The calls are generated from the registry: each argument of each tool gets bad values of each kind, of odd texts every
third, so that each tool gets them all; ``make soak`` sends every text to every argument. Whatever comes, the answer is
a result, a refusal that names the rule with nothing applied, or a protocol error; never a fault of ours.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.contract import Tool
from app.memory.tools import TOOLS as MEMORY
from app.protocol.registry import Registry
from app.settings import EmbeddingSettings
from app.store.database import Database
from tests.conftest import Server
from tests.e2e.spoiling import BATCH, arguments_of, base_for, bases, label, spoiled
from tests.gateway import LEGACY, META, MODERN, Gateway, message_of, owner_token, running, settings_for

ERAS = [MODERN, LEGACY]
TOOLS = [tool for tool in Registry(MEMORY) if not tool.operators_only]
"""Those that the caller may use: an operators' tool refuses everyone else before it reads an argument."""
COUNTING = [tool for tool in TOOLS if arguments_of(tool, "integer", "number")]
PROTOCOL_ERRORS = {-32700, -32600, -32602}
FAULTS = {"internal_error", "failed"}

TEXTS = {
    "lucene": 'a AND (b OR NOT "c~2) ^3 +x -y names:z [1 TO 2] {a} /re.*/ && || ! ? * \\',
    "one operator": "AND",
    "star": "*",
    "quotes": "'\"`´’\"'",
    "back-ticks and Cypher": "`) DETACH DELETE (n) //",
    "string end": "'}) MATCH (n) DETACH DELETE n RETURN '",
    "newlines": "first\nsecond\r\nthird\u2028fourth",
    "NUL and controls": "a\x00b\x1b[31m\x7f",
    "200 words": " ".join(f"word{number}" for number in range(200)),
    "emoji": "👩‍👩‍👧 🏳️‍🌈 ☃",
    "right to left": "مرحبا بالعالم \u202eevil\u202c שלום",
    "combining": "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢",
    "half a surrogate pair": "\ud800x",
    "blank": " \t\u3000\u200b",
    "empty": "",
    "placeholder": "${jndi:ldap://x} {{7*7}} %s $tenant",
    "path": "../../etc/passwd",
    "33 KiB": "x" * (33 * 1024),
}


class Caller:
    """A client that may send anything, and judges what comes back."""

    def __init__(self, gateway: Gateway, client: httpx2.AsyncClient) -> None:
        self.gateway = gateway
        self.client = client

    async def said(self, tool: str, arguments: Any, era: str) -> dict[str, Any]:
        """The answer to a call: the structured content of a result, or ``{"error": ...}``."""
        params = {"name": tool, "arguments": arguments} | ({"_meta": META} if era == MODERN else {})
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
        return await self.raw(tool, body.encode(), era)

    async def raw(self, tool: str, body: bytes, era: str) -> dict[str, Any]:
        head = {"Mcp_Method": "tools/call", "Mcp_Name": tool} if era == MODERN else {}
        async with asyncio.timeout(120):
            while True:
                answer = await self.gateway.send(self.client, body, era, **head)
                found = self.judged(answer)
                if not found.get("retryable"):
                    return found
                await asyncio.sleep(found.get("retry_after_ms", 300) / 1000)

    @staticmethod
    def judged(answer: httpx2.Response) -> dict[str, Any]:
        """Hold the answer to what every answer must be."""
        if answer.status_code == 503:  # too busy to read it
            return {"retryable": True}
        assert answer.status_code in {200, 400, 404}, answer.text
        message = message_of(answer)
        if "error" in message:
            assert message["error"]["code"] in PROTOCOL_ERRORS, message
            return {"error": message["error"]}
        result = message["result"]
        said: dict[str, Any] = result["structuredContent"]
        assert result["isError"] is not said["ok"]
        if not said["ok"]:
            assert said["reason"] not in FAULTS, said
            assert said["message"]
            assert said["outcome"] == "not_applied", said
        return said

    async def all(self, calls: Iterable[tuple[str, Any, str]]) -> list[dict[str, Any]]:
        """Many calls, a few at a time, in the order of their answers."""
        few = asyncio.Semaphore(4)

        async def one(tool: str, arguments: Any, era: str) -> dict[str, Any]:
            async with few:
                try:
                    return await self.said(tool, arguments, era)
                except AssertionError as error:
                    raise AssertionError(f"{tool} in {era} with {json.dumps(arguments)[:500]}: {error}") from error

        return await asyncio.gather(*(one(*call) for call in calls))


@pytest_asyncio.fixture(scope="module")
async def caller(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Caller]:
    chosen = settings_for(neo4j_server, tmp_path_factory.mktemp("gk"), embedding=EmbeddingSettings(embedding="offline"))
    async with running(chosen, await owner_token(chosen, database)) as gateway, gateway.client() as client:
        made = Caller(gateway, client)
        kept = await made.said("graph_relate", {"batch": BATCH}, MODERN)
        assert kept["ok"], kept
        yield made


def odd_calls(tool: Tool, *, share: int) -> list[tuple[str, dict[str, Any], str]]:
    """Each argument with every ``share``-th odd text, from another one on each time: a tool gets them all."""
    places = [path for path, _ in arguments_of(tool, "string")]
    step = min(share, len(places))
    return [
        (tool.name, spoiled(base_for(tool, path), path, text), ERAS[(place + number) % 2])
        for place, path in enumerate(places)
        for number, text in enumerate(TEXTS.values())
        if (place + number) % step == 0
    ]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
async def test_any_text_in_any_argument_is_taken_or_refused(caller: Caller, tool: Tool) -> None:
    calls = odd_calls(tool, share=3)
    assert len(calls) >= len(TEXTS)
    await caller.all(calls)


@pytest.mark.soak
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
async def test_every_text_in_every_argument_is_taken_or_refused(caller: Caller, tool: Tool) -> None:
    await caller.all(odd_calls(tool, share=1))


@pytest.mark.parametrize("kind", sorted(TEXTS.keys() - {"half a surrogate pair", "blank", "empty", "33 KiB"}))
async def test_an_odd_name_is_a_name_and_an_odd_question_a_question(caller: Caller, kind: str) -> None:
    text = TEXTS[kind][:400].strip()
    relation = {"from_type": "Concept", "relation": "RELATED_TO", "to_name": "Oddities", "to_type": "Concept"}
    kept = await caller.said("graph_relate", {"from_name": text, **relation, "evidence": text}, MODERN)
    assert kept["ok"], kept
    for era in ERAS:
        found = await caller.said("graph_query", {"entities": [text], "max_hops": 1}, era)
        assert found["ok"], found
        assert "Oddities" in {node["name"] for node in found["nodes"]}, found
        searched = await caller.said("graph_search", {"query": TEXTS[kind]}, era)
        assert searched["ok"], searched
    total = await caller.said("graph_entities", {"id": "Atlas"}, MODERN)
    assert total["found"], "nothing that was typed may delete"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
async def test_ten_thousand_elements_are_refused_by_their_number(caller: Caller, tool: Tool, era: str) -> None:
    for path, schema in arguments_of(tool, "array"):
        item: Any = {"name": "x", "type": "Concept"} if schema.get("items", {}).get("type") == "object" else "x"
        said = await caller.said(tool.name, spoiled(base_for(tool, path), path, [item] * 10_000), era)
        assert said["reason"] == "invalid_input", (label(path), said)
        assert "at most" in said["message"], said
        assert str(path[0]) in said["message"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
async def test_a_hundred_levels_are_no_request(caller: Caller, tool: Tool, era: str) -> None:
    deep: Any = "x"
    for level in range(100):
        deep = [deep] if level % 2 else {"a": deep}
    for name in tool.input.model_fields:
        said = await caller.said(tool.name, {**tool.example, name: deep}, era)
        assert said["error"]["code"] == -32600, said
        assert "16" in said["error"]["message"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
async def test_numbers_in_quotes_and_other_kinds_are_refused_with_the_rule(
    caller: Caller, tool: Tool, era: str
) -> None:
    for path, schema in arguments_of(tool, "integer", "number"):
        base = base_for(tool, path)
        quoted = await caller.said(tool.name, spoiled(base, path, "5"), era)
        assert quoted["reason"] == "invalid_input", (label(path), quoted)
        assert str(path[-1]) in quoted["message"]
        assert "quotes" in quoted["message"]
        others: list[Any] = [True, [], {}, "", "NaN", 10**30, -(10**30)]
        for value in others:
            said = await caller.said(tool.name, spoiled(base, path, value), era)
            clamped = type(value) is int and schema["type"] == "number"
            assert said.get("reason") == "invalid_input" or clamped, (label(path), said)
    for path, _ in arguments_of(tool, "string", "array", "object", "boolean"):
        said = await caller.said(tool.name, spoiled(base_for(tool, path), path, 5), era)
        assert said["reason"] == "invalid_input", (label(path), said)
        assert "Nothing was applied" in said["message"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", COUNTING, ids=lambda tool: tool.name)
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "0x10", "١"])
async def test_what_is_no_number_of_json_is_no_json(caller: Caller, tool: Tool, era: str, number: str) -> None:
    for path, _ in arguments_of(tool, "integer", "number"):
        arguments = json.dumps(spoiled(base_for(tool, path), path, "@")).replace('"@"', number)
        meta = f', "_meta": {json.dumps(META)}' if era == MODERN else ""
        params = f'{{"name": "{tool.name}", "arguments": {arguments}{meta}}}'
        body = f'{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {params}}}'
        said = await caller.raw(tool.name, body.encode(), era)
        refused = said.get("error", {}).get("code") == -32700 or said.get("reason") == "invalid_input"
        assert refused, (label(path), said)


GOOD_DATES = ["2026-03-01", "2026-03-01T09:30Z", "2026-03-01 09:30:15", "2026-03-01T09:30:15.123456+05:30"]
BAD_DATES = [
    *("", "now", "yesterday", "1 March 2026", "01/03/2026", "2026-13-01", "2026-02-30", "2026-03-01T25:00Z", "2026"),
    *("2026-W10-1", "20260301", "1772357400", "2026-03-01T09:30:00Z; DROP", "0000-01-01", "+12026-01-01", "P1Y"),
    *("2026-03-01T09:30:00+99:00", "2026-03-01T09:30:60.000Z ", "２０２６-03-01", "٢٠٢٦-٠٣-٠١"),
]
BAD_MOMENTS: list[Any] = [*BAD_DATES, 1772357400, 1.5, True, [], {}]


@pytest.mark.parametrize("era", ERAS)
async def test_dates_are_read_in_their_forms_and_refused_in_others(caller: Caller, era: str) -> None:
    tool = next(tool for tool in TOOLS if "batch" in tool.input.model_fields)
    relation = {"from_name": "Ada", "from_type": "Person", "relation": "KNOWS", "to_name": "Eve", "to_type": "Person"}
    batch = copy.deepcopy(BATCH)
    for date in GOOD_DATES:
        single = await caller.said(tool.name, {**relation, "valid_at": date}, era)
        assert single["ok"], (date, single)
        many = await caller.said(tool.name, {"batch": spoiled(batch, ("relations", 0), _dated(date))}, era)
        assert many["ok"], (date, many)
    for moment in BAD_MOMENTS:
        single = await caller.said(tool.name, {**relation, "valid_at": moment}, era)
        assert (single["reason"], "valid_at" in single["message"]) == ("invalid_input", True), (moment, single)
        assert "2026-03-01" in single["message"]
        many = await caller.said(tool.name, {"batch": spoiled(batch, ("relations", 0), _dated(moment))}, era)
        assert (many["reason"], "batch.relations[0].valid_at" in many["message"]) == ("invalid_input", True), moment


def _dated(moment: Any) -> dict[str, Any]:
    return {"from": "a", "to": "b", "relation": "WORKS_ON", "valid_at": moment}


BAD_TYPES = [
    *("A`) DETACH DELETE n //", "WORKS ON", "A\n", "\nA", "1A", "_A", "Ä", "A" * 65, "a-b", "A:B", "A|B", "A.B", "$A"),
    *("A\x00", "A\u200b", "🙂", "人", " A", "A ", "A'", 'A"', "A{", "A)", "`A`"),
]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("bad", BAD_TYPES, ids=ascii)
async def test_types_other_than_letters_digits_and_underscore_are_refused_with_the_rule(
    caller: Caller, era: str, bad: str
) -> None:
    single: dict[str, Any] = {
        "from_name": "X",
        "from_type": "Person",
        "relation": "KNOWS",
        "to_name": "Y",
        "to_type": "Person",
    }
    calls: list[dict[str, Any]] = [{**single, name: bad} for name in ("from_type", "to_type", "relation")]
    calls += [
        {"batch": spoiled(BATCH, ("entities", 0, "type"), bad)},
        {"batch": spoiled(BATCH, ("relations", 0, "relation"), bad)},
    ]
    for said in await caller.all(("graph_relate", arguments, era) for arguments in calls):
        assert said["reason"] == "invalid_input", said
        assert "only letters (a-z), digits and underscore" in said["message"], said
        assert "Nothing was applied" in said["message"]
    assert not (await caller.said("graph_entities", {"id": "X"}, era))["found"]


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_refused_leaves_nothing_behind(caller: Caller, era: str) -> None:
    before = await caller.said("graph_stats", {}, era)
    fine: dict[str, Any] = {"name": "Left behind", "type": "Concept"}
    good: dict[str, Any] = {"from": "Left behind", "to": "Ada", "relation": "RELATED_TO"}
    batches: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [
        ([fine, {"name": "Bad", "type": "no type"}], [good]),
        ([fine], [good, {"from": "Left behind", "to": "nobody knows this", "relation": "KNOWS"}]),
        ([fine, {"name": "B", "type": "Concept", "properties": {"tenant": "other"}}], [good]),
        ([fine, {"name": " ", "type": "Concept"}], [good]),
        ([fine], [good, {"from": "Left behind", "to": "Ada", "relation": "KNOWS", "weight": "0.5"}]),
    ]
    for entities, relations in batches:
        said = await caller.said("graph_relate", {"batch": {"entities": entities, "relations": relations}}, era)
        assert said["reason"] == "invalid_input", said
    after = await caller.said("graph_stats", {}, era)
    assert (after["nodes"], after["edges"]) == (before["nodes"], before["edges"])


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_no_call_is_a_protocol_error(caller: Caller, era: str) -> None:
    for body in (b"", b"{", b"[]", b"null", b'"x"', b'{"jsonrpc": "2.0"}', b"\xff\xfe", b'{"a": 1' + b"}" * 3):
        said = await caller.raw("graph_stats", body, era)
        assert said["error"]["code"] in {-32700, -32600}
    for tool in ("no_such_tool", "graph_stats`", "GRAPH_STATS", "graph_stats\n", "x" * 200):
        if era == MODERN and not tool.isprintable():
            continue  # its name cannot stand in a header
        said = await caller.said(tool, {}, era)
        assert said["error"]["code"] == -32602, (tool, said)
    said = await caller.said("graph_stats", ["no", "object"], era)
    assert said["error"]["code"] == -32602


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, Any], str]:
    """A tool, some of its arguments set to anything, an era."""
    tool = draw(st.sampled_from(TOOLS))
    base = draw(st.sampled_from([{}, *bases(tool)]))
    places = [path for path, _ in arguments_of(tool)]
    made = dict(base)
    for path in draw(st.lists(st.sampled_from(places), max_size=3, unique=True)):
        try:
            made = spoiled(made, path, draw(JSON))
        except (TypeError, KeyError, AttributeError, IndexError):
            continue  # an earlier one replaced what this one lies in
    return tool.name, made, draw(st.sampled_from(ERAS))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(call=calls())
async def test_any_json_is_answered(caller: Caller, call: tuple[str, dict[str, Any], str]) -> None:
    await caller.said(*call)


async def test_after_all_that_it_is_well(caller: Caller) -> None:
    ready = (await caller.client.get("/readyz")).json()
    assert ready["checks"]["database"]["ok"]
    found = await caller.said("graph_query", {"entities": ["Ada"], "max_hops": 1}, MODERN)
    assert "Atlas" in {node["name"] for node in found["nodes"]}
