"""A one-time way in for a person, made on the command line."""

from __future__ import annotations

from app.oauth.sealing import Sealer
from app.oauth.service import AuthorizationServer, issue_sign_in_link
from app.oauth.vault import Vault
from app.settings import Settings
from app.store.control.keys import Keys
from app.store.control.users import User
from app.store.database import Database

__all__ = ["authorization", "sign_in_links"]


def authorization(database: Database, settings: Settings) -> AuthorizationServer:
    """The authorization server of these settings, for a command."""
    return AuthorizationServer(
        database, settings, Vault(Keys(database.control), Sealer.of(settings.oauth, settings.run.folder))
    )


async def sign_in_links(database: Database, settings: Settings, user: User) -> dict[str, str]:
    """For each public base address a link that signs ``user`` in there, once, within a day."""
    services = authorization(database, settings)
    return {address: await issue_sign_in_link(services, user.id, address) for address in settings.addresses}
