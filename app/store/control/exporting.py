"""Exports that go on after the call that began them: what they are, how far, and what became of them.

The process that writes one beats; one without a heartbeat has ended with its process. Another may take it up from its
beginning, a few times: each has its turn, and one whose turn is over changes nothing any more.
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

__all__ = ["BEAT_SECONDS", "MOST_OF_TENANT", "MOST_TURNS", "ExportJob", "ExportJobs", "begin_in", "new_export_id"]

BEAT_SECONDS: Final = 10.0
_ENDED_SECONDS: Final = 60.0
"""A job without a heartbeat for so long has ended with its process."""
_KEPT_SECONDS: Final = 24 * 3600.0
"""How long what became of a job is known, as of an idempotency key."""

MOST_OF_TENANT: Final = 2
"""Jobs of one tenant under way at once."""
MOST_TURNS: Final = 2
"""Times that a job is taken up again: what ends its process each time must not go on for ever."""

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
      beat: $now, asked: $asked, turn: 0})
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
    SET e.locked = true
    WITH e WHERE e.locked
    REMOVE e.locked
    WITH e WHERE e.state = 'running' AND e.turn = $turn
    SET e.beat = $now, e.answer = coalesce($answer, e.answer)
    RETURN e.id AS id
    """,
    writes=True,
    control=True,
)
TAKE: Final = statement(
    "exporting.take_up",
    """
    MATCH (e:_Export {id: $id})
    SET e.locked = true
    WITH e WHERE e.locked
    REMOVE e.locked
    WITH e WHERE e.state = 'running' AND e.beat < $fresh AND e.turn < $most
    SET e.turn = e.turn + 1, e.beat = $now
    RETURN e.turn AS turn
    """,
    writes=True,
    control=True,
)
END: Final = statement(
    "exporting.end",
    """
    MATCH (e:_Export {id: $id})
    SET e.locked = true
    WITH e WHERE e.locked
    REMOVE e.locked
    WITH e WHERE e.state = 'running' AND e.turn = $turn
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
    RETURN e.layers AS layers, e.state AS state, e.answer AS answer, e.beat AS beat, e.kind AS kind, e.reason AS reason,
      e.asked AS asked, e.turn AS turn
    """,
    control=True,
)


@dataclass(frozen=True, slots=True)
class ExportJob:
    """One export as it stands. ``answer`` is what its caller is told, of a running one how far it is."""

    layers: frozenset[str]
    state: str
    """running, done or failed; ``left`` when the process that wrote it is gone, ``lost`` if none takes it up again."""
    answer: Json
    kind: str | None
    """Of a failed one: the error's reason, and in ``reason`` its words."""
    reason: str | None
    asked: Json
    """What its caller wanted, beside the layers."""


def new_export_id() -> str:
    """An id that no job has."""
    return f"ex-{secrets.token_hex(12)}"


async def begin_in(
    writing: Writing,
    id_: str,
    *,
    tenant: str,
    subject: str,
    layers: Collection[str],
    asked: Mapping[str, Any],
    answer: Mapping[str, Any],
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
    job = {"id": id_, "of": tenant, "subject": subject, "layers": sorted(layers), "asked": _text(asked)}
    await writing.run(BEGIN, **job, answer=_text(answer), now=_ms(now))


class ExportJobs:
    """The store of jobs."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def begin(self, id_: str, **job: Any) -> None:
        """:func:`begin_in`, in a transaction of its own.

        Raises:
            Overloaded: the tenant has as many jobs as it may. CallError: the database does not answer.
        """

        async def work(writing: Writing) -> None:
            await begin_in(writing, id_, **job)

        await self._control.write(work)

    async def room(self, tenant: str) -> None:
        """Let another export of the tenant begin, which may become a job.

        Raises:
            Overloaded: it has as many as it may. CallError: the database does not answer.
        """
        fresh = _ms(time.time() - _ENDED_SECONDS)
        if (await self._control.read(RUNNING, of=tenant, fresh=fresh))[0]["running"] >= MOST_OF_TENANT:
            raise _too_many()

    async def take(self, id_: str, tenant: str) -> int | None:
        """Take up a job whose process is gone; which turn that is. None: it goes on elsewhere, or never again.

        Raises:
            Overloaded: its tenant is not active, or has as many jobs under way as it may. CallError: the database does
                not answer.
        """
        now = time.time()
        given = {"id": id_, "fresh": _ms(now - _ENDED_SECONDS), "most": MOST_TURNS, "now": _ms(now)}

        async def work(writing: Writing) -> int | None:
            rows = await writing.run(TAKE, **given)
            if not rows:
                return None
            await require_active(writing, tenant)
            if (await writing.run(RUNNING, of=tenant, fresh=given["fresh"]))[0]["running"] > MOST_OF_TENANT:
                raise _too_many()
            return int(rows[0]["turn"])

        return await self._control.write(work)

    async def beat(self, id_: str, turn: int, answer: Mapping[str, Any]) -> bool:
        """Say that the job goes on, and how far it is; False: nobody wants it of this turn any more."""
        given = {"id": id_, "turn": turn, "now": _ms(time.time()), "answer": _text(answer)}
        return bool(await self._control.write(lambda writing: writing.run(BEAT, **given)))

    async def leave(self, id_: str, turn: int) -> None:
        """It left nothing, and another process may take it up at once."""
        given = {"id": id_, "turn": turn, "now": _ms(time.time() - _ENDED_SECONDS) - 1, "answer": None}
        await self._control.write(lambda writing: writing.run(BEAT, **given))

    async def done(self, id_: str, turn: int, tenant: str, answer: Mapping[str, Any]) -> bool:
        """Its file is whole: keep the answer. False: nobody wants it of this turn any more.

        Raises:
            Overloaded: no active tenant has this data id now, so that the file may lack what was erased meanwhile.
        """

        async def work(writing: Writing) -> bool:
            given = {"id": id_, "turn": turn, "state": "done", "answer": _text(answer), "kind": None, "reason": None}
            ended = await writing.run(END, **given, now=_ms(time.time()))
            await require_active(writing, tenant)
            return bool(ended)

        return await self._control.write(work)

    async def failed(self, id_: str, turn: int, kind: str, reason: str) -> None:
        """It left nothing: keep why, for who asks."""
        given = {"id": id_, "turn": turn, "state": "failed", "answer": None, "kind": kind, "reason": reason}
        await self._control.write(lambda writing: writing.run(END, now=_ms(time.time()), **given))

    async def find(self, id_: str, tenant: str, subject: str) -> ExportJob | None:
        """The subject's own job of that id."""
        rows = await self._control.read(FIND, id=id_, of=tenant, subject=subject)
        if not rows:
            return None
        row = rows[0]
        state, turn = row["state"], row["turn"]
        if state == "running" and row["beat"] < _ms(time.time() - _ENDED_SECONDS):
            state = "left" if turn is not None and turn < MOST_TURNS else "lost"
        answer, asked = orjson.loads(row["answer"]), orjson.loads(row["asked"] or "{}")
        return ExportJob(frozenset(row["layers"]), state, answer, row["kind"], row["reason"], asked)


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
