"""Every statement that changes what is remembered starts from an index of its own tenant."""

from __future__ import annotations

import pytest

from app.memory.changing import queries as changing
from app.memory.fading import queries as fading
from app.memory.queries import EVIDENCE, LOCK_COPIES, SEARCHED
from app.memory.removing import queries as removing
from app.store.database import Database
from app.store.planning import EXAMPLES
from app.store.statement import Statement
from tests.memory.test_reading import SCANS
from tests.plans import assert_plan

STATEMENTS = [
    EVIDENCE,
    LOCK_COPIES,
    SEARCHED,
    *(
        statement
        for module in (changing, fading, removing)
        for statement in vars(module).values()
        if isinstance(statement, Statement)
    ),
]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
async def test_no_changing_statement_looks_at_everybodys_data(database: Database, statement: Statement) -> None:
    parameters = {name: EXAMPLES[name] for name in statement.parameters}
    await assert_plan(database, statement, parameters, SCANS)


@pytest.mark.parametrize(
    "statement", [removing.FITTING_OF_THESE, removing.STILL_FITTING], ids=lambda statement: statement.name
)
async def test_what_is_given_to_be_judged_is_found_by_its_id(database: Database, statement: Statement) -> None:
    """Looked for among all that was not seen lately, each of them took as long as everything."""
    parameters = {name: EXAMPLES[name] for name in statement.parameters}
    await assert_plan(database, statement, parameters, {"NodeIndexSeek"})
