"""Exports that go on after the call that began them: what they are, how far, and what became of them.

The process that writes one beats; one without a heartbeat has ended with its process, and whoever asks is told so.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from app.contract import Json
from app.errors import Overloaded
from app.store.control.standing import lock_tenant, require_active
from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["BEAT_SECONDS", "MOST_OF_TENANT", "ExportJob", "ExportJobs", "begin_in", "new_export_id"]

BEAT_SECONDS: Final = 10.0
_ENDED_SECONDS: Final = 60.0
"""A job without a heartbeat for so long has ended with its process."""
_KEPT_SECONDS: Final = 24 * 3600.0
"""How long what became of a job is known, as of an idempotency key."""

MOST_OF_TENANT: Final = 2
"""Jobs of one tenant under way at once."""

RUNNING: Final = statement(
    "exporting.count_running",
    "MATCH (e:_Export {tenant: $of, state: 'running'}) WHERE e.beat > $fresh RETURN count(e) AS running",
    control=True,
)
FORGET: Final = statement(
    "exporting.forget_old",
    "MATCH (e:_Export {tenant: $of}) WHERE e.beat < $before DELETE e RETURN count(*) AS forgotten",
    writes=True,
    control=True,
)
BEGIN: Final = statement(
    "exporting.begin",
    """
    CREATE (e:_Export {id: $id, tenant: $of, subject: $subject, layers: $layers, state: 'running', answer: $answer,
      beat: $now})
    RETURN e.id AS id
    """,
    writes=True,
    control=True,
)
# Of a beat and the end that meet, the one that waited for the lock looks again.
BEAT: Final = statement(
    "exporting.beat",
    """
    MATCH (e:_Export {id: $id})
    SET e.locked = true REMOVE e.locked
    WITH e WHERE e.state = 'running'
    SET e.beat = $now, e.answer = $answer
    RETURN e.id AS id
    """,
    writes=True,
    control=True,
)
END: Final = statement(
    "exporting.end",
    """
    MATCH (e:_Export {id: $id})
    SET e.locked = true REMOVE e.locked
    WITH e WHERE e.state = 'running'
    SET e.state = $state, e.beat = $now, e.answer = coalesce($answer, e.answer), e.kind = $kind, e.reason = $reason
    RETURN e.id AS id
    """,
    writes=True,
    control=True,
)
FIND: Final = statement(
    "exporting.find",
    """
    MATCH (e:_Export {id: $id}) WHERE e.tenant = $of AND e.subject = $subject
    RETURN e.layers AS layers, e.state AS state, e.answer AS answer, e.beat AS beat, e.kind AS kind, e.reason AS reason
    """,
    control=True,
)


@dataclass(frozen=True, slots=True)
class ExportJob:
    """One export as it stands. ``answer`` is what its caller is told, of a running one how far it is."""

    layers: frozenset[str]
    state: str
    """running, done or failed; ``lost`` when the process that wrote it is gone."""
    answer: Json
    kind: str | None
    """Of a failed one: the error's reason, and in ``reason`` its words."""
    reason: str | None


def new_export_id() -> str:
    """An id that no job has."""
    return f"ex-{secrets.token_hex(12)}"


async def begin_in(
    writing: Writing, id_: str, *, tenant: str, subject: str, layers: Collection[str], answer: Mapping[str, Any]
) -> None:
    """Note a job, in a control transaction, unless its tenant has as many as it may; those of yesterday are forgotten.

    Raises:
        Overloaded: it has.
    """
    now = time.time()
    await lock_tenant(writing, tenant)
    await writing.run(FORGET, of=tenant, before=_ms(now - _KEPT_SECONDS))
    if (await writing.run(RUNNING, of=tenant, fresh=_ms(now - _ENDED_SECONDS)))[0]["running"] >= MOST_OF_TENANT:
        raise _too_many()
    await writing.run(
        BEGIN, id=id_, of=tenant, subject=subject, layers=sorted(layers), answer=_text(answer), now=_ms(now)
    )


class ExportJobs:
    """The store of jobs."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def begin(
        self, id_: str, *, tenant: str, subject: str, layers: Collection[str], answer: Mapping[str, Any]
    ) -> None:
        """:func:`begin_in`, in a transaction of its own.

        Raises:
            Overloaded: the tenant has as many jobs as it may. CallError: the database does not answer.
        """

        async def work(writing: Writing) -> None:
            await begin_in(writing, id_, tenant=tenant, subject=subject, layers=layers, answer=answer)

        await self._control.write(work)

    async def room(self, tenant: str) -> None:
        """Let another export of the tenant begin, which may become a job.

        Raises:
            Overloaded: it has as many as it may. CallError: the database does not answer.
        """
        fresh = _ms(time.time() - _ENDED_SECONDS)
        if (await self._control.read(RUNNING, of=tenant, fresh=fresh))[0]["running"] >= MOST_OF_TENANT:
            raise _too_many()

    async def beat(self, id_: str, answer: Mapping[str, Any]) -> bool:
        """Say that the job goes on, and how far it is; False: nobody wants it any more."""
        given = {"id": id_, "now": _ms(time.time()), "answer": _text(answer)}
        return bool(await self._control.write(lambda writing: writing.run(BEAT, **given)))

    async def done(self, id_: str, tenant: str, answer: Mapping[str, Any]) -> bool:
        """Its file is whole: keep the answer. False: nobody wants it any more.

        Raises:
            Overloaded: no active tenant has this data id now, so that the file may lack what was erased meanwhile.
        """

        async def work(writing: Writing) -> bool:
            ended = await writing.run(
                END, id=id_, state="done", now=_ms(time.time()), answer=_text(answer), kind=None, reason=None
            )
            await require_active(writing, tenant)
            return bool(ended)

        return await self._control.write(work)

    async def failed(self, id_: str, kind: str, reason: str) -> None:
        """It left nothing: keep why, for who asks."""
        given = {"id": id_, "state": "failed", "answer": None, "kind": kind, "reason": reason}
        await self._control.write(lambda writing: writing.run(END, now=_ms(time.time()), **given))

    async def find(self, id_: str, tenant: str, subject: str) -> ExportJob | None:
        """The subject's own job of that id."""
        rows = await self._control.read(FIND, id=id_, of=tenant, subject=subject)
        if not rows:
            return None
        row = rows[0]
        lost = row["state"] == "running" and row["beat"] < _ms(time.time() - _ENDED_SECONDS)
        answer: Json = orjson.loads(row["answer"])
        return ExportJob(frozenset(row["layers"]), "lost" if lost else row["state"], answer, row["kind"], row["reason"])


def _too_many() -> Overloaded:
    return Overloaded(
        f"{MOST_OF_TENANT} exports of this tenant are being written already, and none was begun. Wait for yours with "
        "its export_id, or try again in some minutes.",
        retry_after_ms=60_000,
    )


def _text(answer: Mapping[str, Any]) -> str:
    return orjson.dumps(dict(answer)).decode()


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
