"""The door for an operator's query holds even without the guard before it."""

from __future__ import annotations

import pytest

from app.context import Deadline
from app.errors import InvalidInput
from app.store.asking import ask
from app.store.database import Database
from app.store.execution import Trace


@pytest.mark.parametrize(
    "query", ["CREATE (n:Unwritten)", "MATCH (n:Entity) SET n.unwritten = 1", "CREATE INDEX FOR (n:X) ON n.y"]
)
@pytest.mark.shows("graph_cypher", 3)
async def test_its_transaction_only_reads(database: Database, query: str) -> None:
    with pytest.raises(InvalidInput, match="database refuses"):
        await ask(
            *(database.driver, database.name, query, {}, Deadline.after(60), Trace("test")), rows=1, characters=1000
        )
