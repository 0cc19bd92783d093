"""A record that is deleted while a statement waits for its lock: nothing of it is found, used up or returned.

The database goes on with a node that another transaction deleted: writes to it do nothing and its properties read as
null, so that "not used yet" holds for what is gone. Every statement that takes a lock first asks whether it has it.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

import app.main  # noqa: F401  (every room registers its statements)
from app.store import undo
from app.store.control import (
    authorizations,
    exporting,
    invitations,
    links,
    passkeys,
    queue_statements,
    recovery,
    refresh,
    runs,
    service_accounts,
    shown,
)
from app.store.database import Database
from app.store.statement import REGISTERED, Statement, statement
from tests.identity import fresh_name
from tests.store.meeting import met, patient

_LATE: Final = 9e12
_LOCKS: Final = re.compile(r"SET (\w)\.(?:locked = true|renewed = \$now|asked_at = \$at)")

DELETE = statement(
    "test.delete_record",
    """
    MATCH (n:_PendingAuthorization|_Code|_Export|_Tenant|_Invitation|_SignInLink|_User|_Passkey|_IngestItem
      |_RecoveryCode|_RefreshToken|_Run|_ServiceAccount|_ShownOnce|_Undo {id: $id})
    DELETE n RETURN count(*) AS deleted
    """,
    writes=True,
    control=True,
)

CASES: Final[dict[Statement, tuple[str, dict[str, Any]]]] = {
    authorizations.TAKE_PENDING: ("_PendingAuthorization", {}),
    authorizations.USE_CODE: ("_Code", {}),
    exporting.BEAT: ("_Export", {"state": "running", "turn": 1}),
    exporting.END: ("_Export", {"state": "running", "turn": 1}),
    exporting.TAKE: ("_Export", {"state": "running", "turn": 1, "beat": 0}),
    invitations.ADD: ("_Tenant", {}),
    invitations.TAKE: ("_Invitation", {}),
    invitations.WITHDRAW: ("_Invitation", {}),
    links.TAKE: ("_SignInLink", {}),
    passkeys.ADD: ("_User", {}),
    passkeys.USED: ("_Passkey", {"sign_count": 0}),
    queue_statements.ACCEPTED: ("_IngestItem", {}),
    queue_statements.TAKE: ("_IngestItem", {"state": "pending"}),
    queue_statements.CLAIM: ("_IngestItem", {"state": "pending"}),
    queue_statements.CLAIM_CONVERSION: ("_IngestItem", {"state": "received"}),
    queue_statements.GIVEN_UP: ("_IngestItem", {"state": "claimed", "claims": 9}),
    recovery.REPLACE: ("_User", {}),
    recovery.USE: ("_RecoveryCode", {}),
    refresh.ROTATE: ("_RefreshToken", {}),
    runs.LOCK: ("_Run", {}),
    service_accounts.RENEW: ("_ServiceAccount", {}),
    undo.FIND: ("_Undo", {"layers": []}),
    shown.TAKE: ("_ShownOnce", {"sealed": "sealed"}),
}
"""The label of the record that a statement locks, and what it has beyond what every record here has."""


def fields_of(name: str) -> dict[str, Any]:
    """What makes a record be found: all that names something is ``name``, and it is valid for long."""
    names = dict.fromkeys(("id", "key", "digest", "tenant", "user", "client", "issuer", "layer", "sort"), name)
    return {**names, "expires_at": _LATE, "kept_until": _LATE, "due": 0, "created_at": 0}


def parameters_of(asked: Statement, name: str) -> dict[str, Any]:
    """The parameters that find it."""
    every: dict[str, Any] = {
        **dict.fromkeys(("id", "key", "digest", "of", "owner", "user", "client", "issuer", "successor"), name),
        **dict.fromkeys(("lease", "answer", "state", "kind", "reason", "grant", "secret"), "new"),
        **{key: [name] for key in ("ids", "writable", "codes", "may")},
        **dict.fromkeys(("now", "at", "fresh", "turn", "limit", "claims"), 1),
        **dict.fromkeys(("until", "expires_at", "most"), 2),
        "after": name[:-1],
        "record": {},
        "count": 0,
        "backed_up": False,
    }
    return {parameter: every[parameter] for parameter in asked.parameters}


async def recorded(database: Database, asked: Statement) -> str:
    """The id of a new record that the statement finds."""
    name, (label, more) = fresh_name("deleted"), CASES[asked]
    async with database.driver.session(database=database.name) as session:
        made = await session.run(
            "CREATE (n:$($label)) SET n = $fields", label=label, fields={**fields_of(name), **more}
        )
        await made.consume()
    return name


@pytest.mark.parametrize("asked", CASES, ids=lambda asked: asked.name)
async def test_what_is_deleted_while_its_lock_is_waited_for_is_not_found(database: Database, asked: Statement) -> None:
    found, gone = await recorded(database, asked), await recorded(database, asked)
    control = patient(database)

    async def ask(name: str) -> list[dict[str, Any]]:
        rows = await control.write(lambda writing: writing.run(asked, **parameters_of(asked, name)))
        return [dict(row) for row in rows]

    try:
        assert await ask(found)  # so the record is one that the statement finds
        assert await met(database, lambda writing: writing.run(DELETE, id=gone), ask(gone), asked) in ([], [NONE_MADE])
    finally:
        await control.write(lambda writing: writing.run(DELETE, id=found))


NONE_MADE: Final = {"made": 0}
"""What a statement says that counts instead of naming what it did."""


def test_every_statement_that_takes_a_lock_is_looked_at() -> None:
    # What only deletes what it has locked finds less to delete.
    locking = {
        each
        for each in REGISTERED.values()
        if each.control
        and "DELETE i" not in each.text
        and _LOCKS.search(each.text)
        and "MERGE" not in each.text.split("SET ")[0]
    }
    assert {each.name for each in locking} == {each.name for each in CASES}
