"""The audit as a page: filters, people's names for ids, and a cursor to the entries before."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from app.console.desk import Desk
from app.console.words import ACTIONS
from app.errors import InvalidInput
from app.oauth.forms import Parameters
from app.store.control.audit import AuditEntry, AuditQuery
from app.store.control.tenants import Tenant

__all__ = ["trail"]

PAGE: Final = 50
_CURSOR: Final = re.compile(r"(\d{1,16})\.(au-[0-9a-f]{24})\Z")
FOR: Final = "for"
"""The one detail that is a person's id: who a token was made for."""
_OF_PEOPLE: Final = ("doctor.", "link.", "password.", "recovery_codes.", "session.", "sign_", "user.")
"""How the actions begin whose target is a person's id."""
_ACTION: Final = re.compile(r"[a-z_.]{0,64}\Z")


async def trail(
    desk: Desk, *, tenant: Tenant | None, readable: Collection[str] = (), everywhere: bool = False
) -> Response:
    """A tenant's audit, or, with None, that of every tenant and of the gateway itself, which says nothing of what a
    tenant remembers.

    ``everywhere``: an operator looks, who may name any tenant.
    """
    problem, query, entries = "", AuditQuery(), []
    try:
        query = await _query(desk)
    except InvalidInput as error:
        problem = error.message
    else:
        audit = desk.console.services.audit
        if tenant is None:
            entries = await audit.search(query, limit=PAGE + 1)
        else:
            entries = await audit.entries(tenant.id, readable, query, limit=PAGE + 1)
    shown = entries[:PAGE]
    page = desk.troubled(problem, 400) if problem else desk
    return page.show(
        "audit",
        entries=shown,
        people=await _people(desk, shown),
        tenants=await _tenants(desk, shown) if everywhere else {},
        everywhere=everywhere,
        concerns_person=concerns_person,
        actions=sorted(ACTIONS.items(), key=lambda item: item[1]),
        was={name: desk.query.one(name) or "" for name in ("actor", "action", "since", "until", "tenant")},
        older=_older(desk.query, shown[-1]) if len(entries) > PAGE else "",
    )


async def _query(desk: Desk) -> AuditQuery:
    given = desk.query
    action = given.one("action") or ""
    if not _ACTION.match(action):
        raise InvalidInput("Choose what was done from the list.")
    since, until = _day(given.one("since")), _day(given.one("until"))
    query = AuditQuery(
        actor=await _actor(desk, given.one("actor") or ""),
        action=action,
        since=0 if since is None else _milliseconds(since),
        until=2**53 if until is None else _milliseconds(until + timedelta(days=1)) - 1,
    )
    cursor = _CURSOR.match(given.one("before") or "")
    if cursor is None:
        return query
    return AuditQuery(query.actor, query.action, query.since, int(cursor[1]), cursor[2])


async def _actor(desk: Desk, text: str) -> str:
    """The subject behind an address; a subject or the word ``command`` stays as it is."""
    if "@" not in text:
        return text
    user = await desk.console.accounts.users.by_email(text)
    return user.id if user is not None else "nobody"


def _day(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidInput("Write days as year, month and day, for example 2026-11-30.") from error


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _older(given: Parameters, last: AuditEntry) -> str:
    kept = {name: given.one(name) or "" for name in ("tenant", "actor", "action", "since", "until")}
    return urlencode({**{name: value for name, value in kept.items() if value}, "before": f"{last.at}.{last.id}"})


def concerns_person(entry: AuditEntry) -> bool:
    """Whether what was acted upon is a person's account."""
    return entry.action.startswith(_OF_PEOPLE)


async def _people(desk: Desk, entries: Iterable[AuditEntry]) -> dict[str, str]:
    """Addresses of the people that entries name as such. Of other fields the text was chosen by who caused the entry:
    one that looks like an id must not lead to an address."""
    named: set[str] = set()
    for entry in entries:
        named |= {entry.actor, str(entry.detail.get(FOR, "")), entry.target if concerns_person(entry) else ""}
    subjects = {each for each in named if each.startswith("us-")}
    return {each.id: each.email for each in (await desk.console.accounts.users.named(subjects)).values()}


async def _tenants(desk: Desk, entries: Iterable[AuditEntry]) -> dict[str, str]:
    found = {each: await desk.console.accounts.tenants.by_id(each) for each in {entry.tenant for entry in entries}}
    return {subject: tenant.name for subject, tenant in found.items() if tenant is not None}
