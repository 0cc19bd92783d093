"""Letting people in at the command line, on a real database."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.cli.administration import Administration
from app.cli.admitting import Admitting
from app.errors import Conflict, InvalidInput, NotFound
from app.oauth.secrets import digest
from app.settings import OAuthSettings, RunSettings, Settings
from app.store.control.links import LinkStore
from app.store.control.revocations import RevocationKind, Revocations
from app.store.database import Database
from tests.identity import SECRET_KEY, fresh_email, fresh_name


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(run=RunSettings(home=tmp_path), oauth=OAuthSettings(secret_key=SecretStr(SECRET_KEY)))


@pytest.fixture
async def tenant(database: Database, settings: Settings) -> str:
    name = fresh_name("tenant")
    await Administration(database, settings).add_tenant(name)
    return name


async def test_invitations_are_made_listed_and_withdrawn(database: Database, settings: Settings, tenant: str) -> None:
    admitting = Admitting(database, settings)
    more = {"email": None, "read": ["tenant", "work"], "write": None, "address": None}
    made = await admitting.invite(tenant, "member", **more)  # type: ignore[arg-type]
    assert made["link"].startswith(f"{settings.addresses[0]}/invitation?token=")
    assert made["read_layers"] == ["tenant", "work"]
    (listed,) = await admitting.invitations(tenant)
    assert listed["id"] == made["id"]
    assert "link" not in listed
    await admitting.withdraw(tenant, made["id"])
    assert await admitting.invitations(tenant) == []
    with pytest.raises(NotFound):
        await admitting.withdraw(tenant, made["id"])
    with pytest.raises(InvalidInput, match="no role"):
        await admitting.invite(tenant, "emperor", **more)  # type: ignore[arg-type]


async def test_an_account_is_shown_moved_to_another_address_and_signed_out(
    database: Database, settings: Settings, tenant: str
) -> None:
    admitting, old, new = Admitting(database, settings), fresh_email(), fresh_email()
    await Administration(database, settings).add_user(old, tenant, "reader")
    before = await admitting.show(old)
    assert before["tenants"] == [{"tenant": tenant, "role": "reader"}]
    assert (before["password"], before["passkeys"], before["recovery_codes"]) == (False, 0, 0)
    assert len((await admitting.link(old))["signin"]) == len(settings.addresses)
    await admitting.change_email(old, new)
    assert (await admitting.show(new))["id"] == before["id"]
    with pytest.raises(NotFound):
        await admitting.show(old)
    await Administration(database, settings).add_user(old, tenant, "reader")
    with pytest.raises(Conflict):
        await admitting.change_email(new, old)
    assert (await admitting.sign_out(new))["ended"] == 0


async def test_signing_out_ends_open_links_too_and_on_demand_whatever_acts_for_the_person(
    database: Database, settings: Settings, tenant: str
) -> None:
    admitting, email = Admitting(database, settings), fresh_email()
    await Administration(database, settings).add_user(email, tenant, "reader")
    link = (await admitting.link(email))["signin"][0]
    links, revocations = LinkStore(database.control), Revocations(database.control)
    key, user = digest(link.partition("token=")[2]), (await admitting.show(email))["id"]
    found = {"issuer": settings.addresses[0], "now": time.time()}
    assert await links.find(key, **found) is not None
    await admitting.sign_out(email)
    assert await links.find(key, **found) is None
    assert not await revocations.names(RevocationKind.USER, user)
    issued = int(time.time() * 1000)
    await admitting.sign_out(email, programs=True)
    assert await revocations.ends(RevocationKind.USER, user, issued)
