"""Rules of the partition that no other room's tests hold, through the tools."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from tests.isolation.callers import Caller, Gate


@pytest.fixture
def here() -> str:
    return f"d{secrets.token_hex(8)}"


async def _relate(gate: Gate, caller: Caller, source: str, verb: str, target: str, **more: Any) -> dict[str, Any]:
    ends = {"from_name": source, "from_type": "Person", "to_name": target, "to_type": "Concept", "relation": verb}
    reply = await gate.ask(caller, "graph_relate", {**ends, **more})
    assert not reply.failed, reply.text
    return reply.payload


async def _describe(gate: Gate, caller: Caller, name: str, type_: str, **properties: Any) -> None:
    entity = {"name": name, "type": type_, "properties": properties}
    assert not (await gate.ask(caller, "graph_relate", {"batch": {"entities": [entity]}})).failed


def _writer(tenant: str, layer: str) -> Caller:
    return Caller(f"in_{layer}", tenant, tuple(sorted({"", layer})), (layer,))


async def test_rule_4_copies_of_an_entity_read_as_one(gate: Gate, here: str) -> None:
    await _describe(gate, _writer(here, "b"), "ada lovelace", "Concept", mood="b", hat="b", confidence=0.9)
    await _describe(gate, _writer(here, "a"), "ADA LOVELACE", "Project", mood="a", confidence=0.2)
    await _describe(gate, _writer(here, ""), "Ada Lovelace", "Person", mood="wide", shoe="wide", confidence=0.4)
    await _describe(gate, _writer(here, "a"), "Ada-Lovelace", "Project")

    async def seen(*layers: str) -> dict[str, Any]:
        reply = await gate.ask(Caller("reader", here, layers), "graph_entities", {"id": "Ada Lovelace"})
        found: dict[str, Any] = reply.payload["entities"][0]
        return found

    every = await seen("", "a", "b")
    assert (every["name"], every["type"], every["confidence"], every["times_mentioned"]) == (
        "Ada Lovelace",
        "Person",
        0.9,
        4,
    )
    assert every["properties"] == {"mood": "a", "hat": "b", "shoe": "wide"}
    assert every["aliases"] == ["Ada-Lovelace"]
    assert every["layers"] == ["tenant", "a", "b"]
    layered = await seen("a", "b")
    assert (layered["name"], layered["type"], layered["properties"]["mood"]) == ("ADA LOVELACE", "Project", "a")
    alone = await seen("", "b")
    assert (alone["properties"]["mood"], alone["times_mentioned"], alone["aliases"]) == ("b", 2, [])
    assert every["first_seen"] == (await seen("b"))["first_seen"]
    assert every["last_seen"] == (await seen("a"))["last_seen"]


async def test_rule_5_the_heaviest_copy_of_the_state_gives_validity_and_provenance(gate: Gate, here: str) -> None:
    for layer, weight, year in (("b", 0.8, 2018), ("a", 0.8, 2019), ("", 0.8, 2020)):
        await _relate(
            *(gate, _writer(here, layer), "Ada", "USES", "Tea"),
            weight=weight,
            valid_at=f"{year}-01-01",
            source_session=f"talk {layer}",
            evidence=f"e {layer}",
        )

    async def seen(*layers: str) -> dict[str, Any]:
        arguments = {"entities": ["Ada"], "min_weight": 0}
        edge: dict[str, Any] = (await gate.ask(Caller("reader", here, layers), "graph_query", arguments)).payload[
            "edges"
        ][0]
        return edge

    every = await seen("", "a", "b")
    assert (every["valid_at"][:4], every["source_session"], every["layers"]) == ("2020", "talk ", ["tenant", "a", "b"])
    assert set(every["evidence"].split("\n")) == {"e", "e a", "e b"}
    assert (await seen("a", "b"))["valid_at"][:4] == "2019"
    await _relate(gate, _writer(here, "b"), "Ada", "USES", "Tea", weight=0.95)
    assert (await seen("", "a", "b"))["valid_at"][:4] == "2018"


async def test_rule_6_pages_hold_merged_records_and_lose_none(gate: Gate, here: str) -> None:
    for layer in ("", "a", "b"):
        for number in range(4):
            await _relate(gate, _writer(here, layer), "Ada", "USES", f"thing {number}", weight=0.5)
    reader = Caller("reader", here, ("", "a", "b"))
    listed = await gate.pages(reader, "graph_entities", {"limit": 2})
    ids = [entity["id"] for page in listed for entity in page.payload["entities"]]
    assert sorted(ids) == ["ada", *(f"thing-{number}" for number in range(4))]
    assert {page.payload["total"] for page in listed} == {5}
    around = await gate.pages(reader, "graph_query", {"entities": ["Ada"], "limit": 2, "min_weight": 0})
    assert [len(page.payload["nodes"]) for page in around] == [2, 2, 1]
    stats = (await gate.ask(reader, "graph_stats", {})).payload
    assert (stats["nodes"]["total"], stats["edges"]["total"]) == (5, 4)


async def test_rule_7_names_are_looked_up_in_the_write_layer_and_tenant_wide_alone(gate: Gate, here: str) -> None:
    everywhere = Caller("owner", here, ("", "a", "b"), ("a", "b", ""))
    await _relate(gate, _writer(here, "b"), "Countess", "ALIAS_OF", "Ada Lovelace")
    await _relate(gate, _writer(here, "b"), "Enchantress", "USES", "Tea")
    answer = await _relate(gate, everywhere, "Countess", "USES", "Tea")
    assert sorted(answer["created_entities"]) == ["Countess", "Tea"]
    lost = await gate.ask(
        everywhere, "graph_relate", {"batch": {"relations": [{"from": "Enchantres", "relation": "USES", "to": "Tea"}]}}
    )
    assert lost.failed
    assert "Enchantress" not in lost.text


async def test_rule_19_a_key_means_nothing_to_another_tenant(gate: Gate, here: str) -> None:
    mine, theirs = _writer(here, ""), _writer(f"{here}x", "")
    key = {"idempotency_key": "one key"}
    first = await _relate(gate, theirs, "Ada", "USES", "Tea", **key)
    other = await _relate(gate, mine, "Ada", "USES", "Coffee", **key)
    assert other["created_entities"] == ["Ada", "Coffee"]
    assert await _relate(gate, theirs, "Ada", "USES", "Tea", **key) == first


async def test_rule_18_what_was_sent_shows_only_to_those_who_may_read_its_layer(gate: Gate, here: str) -> None:
    """Also where its id is known: read, claim, complete, fail, retry and cancel say what they say of a made-up one."""
    queued = await gate.ask(
        _writer(here, "b"), "graph_ingest", {"action": "queue", "file_name": "secret.md", "content": "qzx in b"}
    )
    of_b, made_up = queued.payload["id"], "in-000000000000000000000000"
    more = {"complete": {"lease": "le-1"}, "fail": {"lease": "le-1", "reason": "no"}}
    for stranger in (_writer(here, "a"), _writer(f"{here}x", "b")):
        for action in ("read", "claim", "complete", "fail", "retry", "cancel"):
            found, unknown = [
                await gate.ask(stranger, "graph_ingest", {"action": action, "id": id_, **more.get(action, {})})
                for id_ in (of_b, made_up)
            ]
            assert found.failed
            assert found.text == unknown.text, action
        status = (await gate.ask(stranger, "graph_ingest", {"action": "status"})).payload
        assert (status["pending"], status["pending_count"], status["session_cursors"]) == ([], 0, {})
    mine = await gate.ask(_writer(here, "b"), "graph_ingest", {"action": "read", "id": of_b})
    assert mine.payload["text"] == "qzx in b"
