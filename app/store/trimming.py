"""Bounds of what no quota counts, for each person in each tenant: reports, changelogs, answers that keys remember.

What is over goes oldest first and only of whoever wrote it, so that nobody pushes out another's trail.
"""

from __future__ import annotations

from typing import Final

from app.store.session import ControlSession, Writing
from app.store.statement import Statement, statement

__all__ = ["MOST", "trim", "trim_if_grown"]

MOST: Final = 2**25
"""Characters of each kind that are kept of one person in one tenant."""

_AT_ONCE: Final = 50
_GROWN: Final = 500
"""New records after which it is worth to look who wrote too much: each may have some ten thousand characters."""

# Counted by label alone, which the database knows without a look at any record.
HELD: Final = statement(
    "trimming.count_records",
    """
    CALL { MATCH (e:_RunEvent) RETURN count(e) AS events }
    CALL { MATCH (r:_Run) RETURN count(r) AS runs }
    CALL { MATCH (i:_Idempotency) RETURN count(i) AS answers }
    RETURN events + runs + answers AS held
    """,
    control=True,
)

EVENTS: Final = statement(
    "run_events.sum_large",
    """
    MATCH (e:_RunEvent)
    WITH e.tenant AS owner, e.subject AS subject, sum(size(e.data)) AS held
    WHERE held > $most
    RETURN owner, subject, held ORDER BY owner, subject
    """,
    control=True,
)
FORGET_EVENTS: Final = statement(
    "run_events.forget_oldest",
    """
    MATCH (e:_RunEvent {tenant: $owner, subject: $subject})
    WITH e, size(e.data) AS held ORDER BY e.at, e.id LIMIT $limit
    DELETE e
    RETURN sum(held) AS freed
    """,
    writes=True,
    control=True,
)
CHANGELOGS: Final = statement(
    "runs.sum_large",
    """
    MATCH (r:_Run)
    WITH r.tenant AS owner, r.subject AS subject, sum(size(r.changelog)) AS held
    WHERE held > $most
    RETURN owner, subject, held ORDER BY owner, subject
    """,
    control=True,
)
FORGET_CHANGELOGS: Final = statement(
    "runs.forget_oldest_changelogs",
    """
    MATCH (r:_Run {tenant: $owner, subject: $subject}) WHERE r.changelog <> ''
    WITH r, size(r.changelog) AS held ORDER BY r.begun_at, r.id LIMIT $limit
    SET r.changelog = ''
    RETURN sum(held) AS freed
    """,
    writes=True,
    control=True,
)
ANSWERS: Final = statement(
    "idempotency.sum_large",
    """
    MATCH (i:_Idempotency)
    WITH i.tenant AS owner, i.subject AS subject, sum(size(i.answer)) AS held
    WHERE held > $most
    RETURN owner, subject, held ORDER BY owner, subject
    """,
    control=True,
)
FORGET_ANSWERS: Final = statement(
    "idempotency.forget_oldest",
    """
    MATCH (i:_Idempotency {tenant: $owner, subject: $subject})
    WITH i, size(i.answer) AS held, i.created_at AS made ORDER BY made, i.tool, i.key LIMIT $limit
    SET i.locked = true
    WITH i, held, made WHERE i.locked
    REMOVE i.locked
    WITH i, held WHERE i.created_at = made
    DELETE i
    RETURN sum(held) AS freed
    """,
    writes=True,
    control=True,
)
_KINDS: Final = ((EVENTS, FORGET_EVENTS), (CHANGELOGS, FORGET_CHANGELOGS), (ANSWERS, FORGET_ANSWERS))


async def trim(control: ControlSession, most: int = MOST) -> None:
    """Forget the oldest of each kind, fifty at a time, until each person's are at most ``most`` characters.

    Raises:
        CallError: the database does not answer; what was forgotten by then stays so.
    """
    for large, forget in _KINDS:
        for row in await control.read(large, most=most):
            over = row["held"] - most
            while over > 0 and (freed := await _forget(control, forget, row["owner"], row["subject"])):
                over -= freed


async def trim_if_grown(control: ControlSession, held: int, most: int = MOST) -> int:
    """Trim where there are many more records than ``held``; how many to compare with the next time.

    Raises:
        CallError: the database does not answer.
    """
    now = await _held(control)
    if now < held + _GROWN:
        return min(held, now)
    await trim(control, most)
    return await _held(control)


async def _held(control: ControlSession) -> int:
    return int((await control.read(HELD))[0]["held"])


async def _forget(control: ControlSession, forget: Statement, owner: str, subject: str) -> int:
    async def work(writing: Writing) -> int:
        rows = await writing.run(forget, owner=owner, subject=subject, limit=_AT_ONCE)
        return int(rows[0]["freed"])

    return await control.write(work)
