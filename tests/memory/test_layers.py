"""Layers: what a write may know, and what a read shows (partition rules 4 to 8)."""

from __future__ import annotations

import orjson
import pytest

from app.memory.service import MemoryService
from tests.memory.conftest import Agent


def agents(service: MemoryService, tenant: str) -> tuple[Agent, Agent, Agent, Agent]:
    """Writers of tenant-wide, of layer a, of layer b, and a reader of all."""
    return (
        Agent(service, tenant, ("",), ""),
        Agent(service, tenant, ("", "a"), "a"),
        Agent(service, tenant, ("", "b"), "b"),
        Agent(service, tenant, ("", "a", "b"), None),
    )


async def test_a_sibling_takes_name_and_type_from_tenant_wide_and_is_not_new(
    service: MemoryService, tenant: str
) -> None:
    wide, in_a, _, every = agents(service, tenant)
    await wide.relate("Ann Lee", "USES", "Vim", weight=0.9)
    answer = await in_a.relate("ANN LEE", "USES", "Emacs", from_type="Object", weight=0.5)
    assert answer["created_entities"] == ["Emacs"]
    assert "keeps its first type" in answer["warnings"][0]
    alone = await Agent(service, tenant, ("a",), None).entity("ann lee")
    assert (alone["name"], alone["type"], alone["properties"], alone["layers"]) == ("Ann Lee", "Person", {}, ["a"])
    merged = await every.entity("ann lee")
    assert (merged["layers"], merged["times_mentioned"], merged["confidence"]) == (["tenant", "a"], 2, 0.9)
    assert merged["edge_count"] == 2


async def test_a_hidden_layers_spelling_type_and_count_never_show(service: MemoryService, tenant: str) -> None:
    wide, in_a, in_b, _ = agents(service, tenant)
    await in_b.relate("ZED Corp", "USES", "secret thing", from_type="Organization", evidence="hidden words here")
    created = await in_a.relate("zed corp", "USES", "Paper", from_type="Person")
    assert created["created_entities"] == ["Paper", "zed corp"] or created["created_entities"] == ["zed corp", "Paper"]
    assert created["warnings"] == []
    shown = await in_a.entity("zed corp")
    assert (shown["name"], shown["type"], shown["times_mentioned"], shown["aliases"]) == ("zed corp", "Person", 1, [])
    for answer in (
        await in_a.query("ZED Corp", max_hops=4, min_weight=0, current_only=False),
        await in_a.entities(),
        await in_a.entities(search="hidden words"),
        await in_a.stats(),
        await in_a.search("secret thing hidden words", min_similarity=0),
        await wide.query("zed corp"),
    ):
        text = orjson.dumps({key: value for key, value in answer.items() if key != "query"}).decode()
        assert "secret" not in text
        assert "ZED" not in text
        assert "Organization" not in text
    assert (await in_a.stats())["nodes"]["total"] == 2
    assert not (await wide.entities(id="zed corp"))["found"]


async def test_copies_of_a_relation_are_one_with_the_heaviest_copys_weight(service: MemoryService, tenant: str) -> None:
    wide, in_a, in_b, every = agents(service, tenant)
    await wide.relate("Ann", "USES", "Vim", weight=0.4, evidence="one")
    answer = await in_a.relate("Ann", "USES", "Vim", weight=0.8, evidence="two")
    assert (answer["action"], answer["edge"]["weight"]) == ("strengthened", 0.8)
    await in_b.relate("Ann", "USES", "Vim", weight=0.6, evidence="three")
    edges = (await every.query("Ann"))["edges"]
    assert [(edge["weight"], edge["layers"]) for edge in edges] == [(0.8, ["tenant", "a", "b"])]
    assert set(edges[0]["evidence"].split("\n")) == {"one", "two", "three"}
    assert (await every.stats())["edges"]["total"] == 1
    assert (await every.entity("Ann"))["edge_count"] == 1
    assert (await wide.query("Ann"))["edges"][0]["weight"] == 0.4


async def test_a_relation_is_current_if_a_copy_is(service: MemoryService, tenant: str) -> None:
    wide, in_a, _, every = agents(service, tenant)
    await wide.relate("Ann", "WORKS_AT", "Acme", valid_at="2020-01-01", weight=0.9)
    await in_a.relate("Ann", "WORKS_AT", "Acme", valid_at="2020-01-01", weight=0.4)
    await wide.relate("Ann", "WORKS_AT", "Globex", valid_at="2022-01-01", weight=0.9)
    edges = await every.edges("Ann", current_only=False)
    assert edges["ann", "WORKS_AT", "acme"]["invalid_at"] is None
    assert edges["ann", "WORKS_AT", "acme"]["weight"] == pytest.approx(0.4)
    assert ("ann", "WORKS_AT", "acme") not in await wide.edges("Ann")


async def test_supersession_stays_inside_the_write_layer(service: MemoryService, tenant: str) -> None:
    wide, in_a, _, every = agents(service, tenant)
    await wide.relate("Ann", "WORKS_AT", "Acme", valid_at="2020-01-01")
    await in_a.relate("Ann", "WORKS_AT", "Globex", valid_at="2022-01-01")
    assert set(await every.edges("Ann")) == {("ann", "WORKS_AT", "acme"), ("ann", "WORKS_AT", "globex")}


async def test_limits_count_merged_records(service: MemoryService, tenant: str) -> None:
    wide, in_a, _, every = agents(service, tenant)
    for number in range(4):
        await wide.relate("Ann", "USES", f"thing {number}")
        await in_a.relate("Ann", "USES", f"thing {number}")
    assert len((await every.query("Ann", limit=3))["nodes"]) == 3
    page = await every.entities(limit=3)
    assert (len(page["entities"]), page["total"], page["total_entities"]) == (3, 5, 5)


async def test_an_empty_remainder_reads_nothing(service: MemoryService, tenant: str) -> None:
    await agents(service, tenant)[0].relate("Ann", "USES", "Vim")
    nothing = Agent(service, tenant, (), None)
    assert not (await nothing.query("Ann"))["found"]
    assert (await nothing.entities())["total"] == 0
    assert (await nothing.stats())["nodes"]["total"] == 0
    assert (await nothing.search("Vim"))["seeds"] == []


async def test_another_tenants_entity_is_as_unknown_as_a_random_one(service: MemoryService, tenant: str) -> None:
    await agents(service, tenant)[0].relate("Charlie", "USES", "Vim")
    other = Agent(service, f"{tenant}x", ("",), "")
    assert await other.query("Charlie") == (await other.query("Nobody")) | {"not_found": ["Charlie"]}
    assert await other.entities(id="charlie") == await other.entities(id="nobody")
