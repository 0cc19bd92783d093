"""Who sends slowly is asked for again when all has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.access.layers import scope_for
from app.context import Principal, RequestContext
from app.errors import Forbidden, InternalError, OAuthError, Overloaded
from app.ingest.files import Files
from app.ingest.intake import Incoming
from app.ingest.reach import sender, still_sending
from app.store.control.tenants import Tenants, TenantState
from app.store.database import Database
from tests.identity import ADDRESS, a_grant, a_principal, fresh_name
from tests.ingest.conftest import Agent


def _ended() -> Principal:
    raise OAuthError("invalid_token", "the token was revoked", status=401)


def _asking(again: Callable[[], Principal]) -> RequestContext:
    return replace(RequestContext("req-1", ADDRESS), again=again)


async def _arrive(agent: Agent, again: Callable[[], Principal], layer: str = "") -> None:
    scope = scope_for(agent.principal, None, writes=True)
    files: Files = agent.service.files
    files.prepare(agent.tenant)
    staged = files.stage(agent.tenant)
    await staged.write(b"x")
    standing = still_sending(_asking(again), layer)
    own = sender(agent.principal)
    await agent.service.intake.accept(scope, [Incoming("a.md", staged)], sender=own, standing=standing)


async def test_what_came_slowly_is_accepted_only_while_its_sender_may_send(agent: Agent, database: Database) -> None:
    """A body may take ten minutes: token, grant and membership are asked in the transaction that accepts it."""
    tenants = Tenants(database.control)
    made = await tenants.create(fresh_name("tenant"))
    agent = Agent(agent.service, made.data)
    with pytest.raises(Forbidden, match="the token was revoked"):
        await _arrive(agent, _ended)
    less = replace(agent.principal, grant=a_grant(read=["", "b"], write=["b"], write_layer="b"))
    with pytest.raises(Forbidden, match="was not granted"):
        await _arrive(agent, lambda: less)
    assert agent.files() == []
    await _arrive(agent, lambda: agent.principal)
    assert len(agent.files()) == 1
    await tenants.set_state(made.id, TenantState.SUSPENDED)
    with pytest.raises(Overloaded):
        await _arrive(agent, lambda: agent.principal)


def test_no_upload_passes_without_the_stage_that_knows_its_token() -> None:
    with pytest.raises(InternalError):
        still_sending(RequestContext("req-1", ADDRESS, principal=a_principal()), "")
