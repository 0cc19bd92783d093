"""Every statement starts from its own tenant's index."""

from __future__ import annotations

import pytest

from app.memory.analysis import queries
from app.store.database import Database
from app.store.planning import EXAMPLES
from app.store.schema import ensure_vector_index
from tests.plans import FORBIDDEN, assert_plan

# Parts of a statement that answer with one row each are joined by a product of one.
SCANS = (FORBIDDEN - {"CartesianProduct"}) | {
    "DirectedRelationshipTypeScan",
    "UndirectedRelationshipTypeScan",
    "DirectedAllRelationshipsScan",
    "UndirectedAllRelationshipsScan",
}


@pytest.mark.parametrize("name", sorted(set(queries.__all__) - {"EXAMPLE_QUERY"}))
async def test_its_cost_does_not_grow_with_others(database: Database, name: str) -> None:
    await ensure_vector_index(database, 384)
    statement = getattr(queries, name)
    await assert_plan(database, statement, {key: EXAMPLES[key] for key in statement.parameters}, SCANS)
