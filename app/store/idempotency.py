"""Remembered answers of writes, so that the same call applies once (partition rule 19)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import orjson

from app.context import Scope
from app.contract import Json
from app.errors import Conflict
from app.store.execution import Run
from app.store.statement import statement

__all__ = ["Idempotency", "claim", "record"]


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A caller's key for one write; ``arguments_digest`` is a hash of the arguments without the key."""

    key: str
    tool: str
    arguments_digest: str


# The MERGE takes the index entry's lock, so a second caller with the same key waits here until the first has
# committed, and then finds its answer.
CLAIM: Final = statement(
    "idempotency.claim_key",
    """
    MERGE (i:_Idempotency {tenant: $owner, subject: $subject, tool: $tool, key: $key})
    ON CREATE SET i.created_at = datetime(), i.arguments = $arguments, i.layers = $digest
    WITH i, i.created_at < datetime() - duration('PT24H') AS expired
    SET i.arguments = CASE WHEN expired THEN $arguments ELSE i.arguments END,
        i.layers = CASE WHEN expired THEN $digest ELSE i.layers END,
        i.answer = CASE WHEN expired THEN null ELSE i.answer END,
        i.created_at = CASE WHEN expired THEN datetime() ELSE i.created_at END
    RETURN i.arguments AS arguments, i.layers AS layers, i.answer AS answer
    """,
    writes=True,
    control=True,
)

RECORD: Final = statement(
    "idempotency.record_answer",
    """
    MATCH (i:_Idempotency {tenant: $owner, subject: $subject, tool: $tool, key: $key})
    SET i.answer = $answer
    """,
    writes=True,
    control=True,
)


async def claim(run: Run, scope: Scope, idempotency: Idempotency) -> Json | None:
    """Take the key in the write's own transaction; the first answer if there was one.

    Raises:
        Conflict: the key was used with other arguments or other layers.
    """
    own = {"arguments": idempotency.arguments_digest, "digest": _layers_digest(scope)}
    found = (await run(CLAIM, {**_key(scope, idempotency), **own}))[0]
    while found["arguments"] is None:  # it was forgotten while this waited for its lock
        found = (await run(CLAIM, {**_key(scope, idempotency), **own}))[0]
    if found["arguments"] != idempotency.arguments_digest:
        raise Conflict("this idempotency_key was used with other arguments; use a new key for another call")
    if found["layers"] != _layers_digest(scope):
        raise Conflict("this idempotency_key was used with other layers; use a new key for another call")
    return _answer(found["answer"])


async def record(run: Run, scope: Scope, idempotency: Idempotency, answer: Json) -> None:
    """Store the answer beside the key, in the same transaction."""
    await run(RECORD, {**_key(scope, idempotency), "answer": orjson.dumps(answer).decode()})


def _answer(text: str | None) -> Json | None:
    if text is None:
        return None
    answer: Json = orjson.loads(text)
    return answer


def _key(scope: Scope, idempotency: Idempotency) -> dict[str, Any]:
    return {"owner": scope.tenant, "subject": scope.subject, "tool": idempotency.tool, "key": idempotency.key}


def _layers_digest(scope: Scope) -> str:
    body = orjson.dumps([sorted(scope.layers), sorted(scope.writable), scope.write_layer])
    return hashlib.sha256(body).hexdigest()
