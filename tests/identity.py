"""Identity for tests: one sealing key for everyone who shares the test database, and callers with any rights."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable
from pathlib import Path

from pydantic import SecretStr

from app.access.accounts import Accounts
from app.access.snapshot import Snapshot
from app.context import SCOPES, Grant, Principal, Role
from app.oauth.sealing import Sealer
from app.oauth.vault import Vault
from app.settings import OAuthSettings
from app.store.control.keys import Keys
from app.store.database import Database

SECRET_KEY = base64.urlsafe_b64encode(b"graphkeep tests share this key!!").decode()
"""GRAPHKEEP_SECRET_KEY of every gateway that a test starts on the shared database."""

ADDRESS = "https://memory.example.com"
OTHER_ADDRESS = "https://other.example.com"


def settings_of_tests() -> OAuthSettings:
    return OAuthSettings(secret_key=SecretStr(SECRET_KEY))


def sealer_of_tests(home: Path) -> Sealer:
    return Sealer.of(settings_of_tests(), home)


def vault_of(database: Database, home: Path) -> Vault:
    return Vault(Keys(database.control), sealer_of_tests(home))


def accounts_on(database: Database, home: Path) -> Accounts:
    return Accounts(database.control, vault_of(database, home), admin_tenant="admin")


def snapshot_of(database: Database, home: Path, *, every: float = 2.0) -> Snapshot:
    return Snapshot(database.control, vault_of(database, home), sealer_of_tests(home), home, every=every)


def fresh_name(kind: str) -> str:
    return f"{kind}-{secrets.token_hex(6)}"


def fresh_email() -> str:
    return f"{secrets.token_hex(6)}@example.com"


def a_grant(
    *,
    scopes: Iterable[str] = SCOPES,
    read: Iterable[str] = ("",),
    write: Iterable[str] = ("",),
    write_layer: str | None = "",
    grant_id: str = "gr-test",
) -> Grant:
    return Grant(grant_id, frozenset(scopes), frozenset(read), frozenset(write), write_layer)


def a_principal(
    grant: Grant | None = None,
    *,
    role: Role = Role.MEMBER,
    operator: bool = False,
    tenant_layers: Iterable[str] = ("",),
) -> Principal:
    return Principal(
        subject="us-test",
        client="client",
        tenant="tn-test",
        tenant_name="test",
        data="dtest",
        role=role,
        operator=operator,
        grant=grant or a_grant(),
        tenant_layers=frozenset(tenant_layers),
    )
