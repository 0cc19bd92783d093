"""Every statement of the room starts from an index of its own tenant, and its cost does not depend on others."""

from __future__ import annotations

import pytest
from neo4j import AsyncGraphDatabase

from app.graph import queries
from app.store.partition import partition_token

PARAMETERS = {
    "graph.find_by_text": {"terms": ["a"], "whole": 2000, "types": [], "grams": ["a", "b"]},
    "graph.find_nearest": {"vector": [0.1] * 384, "recipe": "r", "types": [], "few": 500, "nearest": 100},
    "graph.read_candidates": {
        "ids": ["a", "b"], "types": [], "named": ["a"], "frequent": [], "vector": None, "recipe": None,
    },
    "graph.outline_candidates": {"ids": ["a", "b"], "frequent": ["a"]},
    "graph.find_names": {"asked": [{"id": "a", "fuzzy": "+names:a"}], "near": 10},
}  # fmt: skip


def operators(plan):
    yield plan["operatorType"].split("@")[0]
    for child in plan.get("children", []):
        yield from operators(child)


@pytest.mark.usefixtures("vector_index")
@pytest.mark.parametrize("statement", [queries.TEXT, queries.NEAREST, queries.DETAILS, queries.OUTLINES, queries.NAMES])
async def test_no_statement_reads_more_than_its_partition(neo4j_server, database, statement):
    assert database is not None
    bound = {"tenant": "t", "layers": ["", "a"], "partitions": [partition_token("t", "")]}
    text = statement.text.replace("CYPHER 25", "CYPHER 25 EXPLAIN", 1)
    async with AsyncGraphDatabase.driver(
        neo4j_server.uri, auth=(neo4j_server.user, neo4j_server.password), notifications_min_severity="OFF"
    ) as driver:
        found = await driver.execute_query(text, bound | PARAMETERS[statement.name])
    plan = set(operators(found.summary.plan))
    assert not plan & {"NodeByLabelScan", "AllNodesScan", "Expand(All)", "NodeIndexScan"}
    assert plan & {"NodeUniqueIndexSeek", "NodeIndexSeek", "NodeUniqueIndexSeek(Locking)"}
