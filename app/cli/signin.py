"""A one-time way in for a person, made on the command line."""

from __future__ import annotations

from app.oauth.sealing import Sealer
from app.oauth.service import AuthorizationServer, issue_sign_in_link
from app.oauth.vault import Vault
from app.settings import Settings
from app.store.control.keys import Keys
from app.store.control.users import User
from app.store.database import Database

__all__ = ["sign_in_link", "vault_of"]


def vault_of(database: Database, settings: Settings) -> Vault:
    """The keys of this installation."""
    return Vault(Keys(database.control), Sealer.of(settings.oauth, settings.run.folder))


async def sign_in_link(database: Database, settings: Settings, user: User, address: str) -> str:
    """A link that signs ``user`` in at ``address`` (a public base address) once, within a day."""
    services = AuthorizationServer(database, settings, vault_of(database, settings))
    return await issue_sign_in_link(services, user.id, address)
