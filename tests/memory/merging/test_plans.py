"""How changes find their records: by index, whatever else the database holds, and however many relations a hub has."""

from __future__ import annotations

import pytest

from app.memory.changing.queries import ADJUST
from app.memory.merging.queries import LOOK, LOOK_APART
from app.memory.queries import LOCK, WRITE
from app.memory.removing.queries import ENDS, REMOVE
from app.store.database import Database
from app.store.images import READ_IMAGES, WRITE_IMAGES
from app.store.planning import EXAMPLES
from app.store.statement import Statement
from tests.plans import operators

SCANS = frozenset({"AllNodesScan", "NodeByLabelScan", "DirectedAllRelationshipsScan", "UndirectedAllRelationshipsScan"})


@pytest.mark.parametrize("found", [LOOK, LOOK_APART, READ_IMAGES, WRITE_IMAGES], ids=lambda found: str(found.name))
async def test_statements_start_from_an_index(database: Database, found: Statement) -> None:
    used = await operators(database, found, {name: EXAMPLES[name] for name in found.parameters})
    assert not SCANS.intersection(used)


@pytest.mark.parametrize(
    "found",
    [READ_IMAGES, WRITE_IMAGES, ADJUST, LOCK, WRITE, LOOK_APART, ENDS, REMOVE],
    ids=lambda found: str(found.name),
)
async def test_a_relation_is_read_between_its_two_ends(database: Database, found: Statement) -> None:
    """Otherwise each of a hub's relations would be looked at for each of them."""
    used = await operators(database, found, {name: EXAMPLES[name] for name in found.parameters})
    assert "Expand(Into)" in used
    assert "NodeHashJoin" not in used
