"""Which control records are unique by what, and what they are looked up by.

The owner of a control store lists its labels here; ``app.store.schema`` makes the constraints and indexes.
"""

from __future__ import annotations

from typing import Final

__all__ = ["INDEXED", "UNIQUE"]

UNIQUE: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("_AccessToken", ("id",)),
    ("_Audit", ("id",)),
    ("_Client", ("id",)),
    ("_ClientDocument", ("id",)),
    ("_Code", ("id",)),
    ("_Embedding", ("id",)),
    ("_Gateway", ("id",)),
    ("_Grant", ("id",)),
    ("_Idempotency", ("tenant", "subject", "tool", "key")),
    ("_Identity", ("id",)),
    ("_Invitation", ("digest",)),
    ("_Invitation", ("id",)),
    ("_Membership", ("id",)),
    ("_Once", ("id",)),
    ("_Passkey", ("id",)),
    ("_Password", ("id",)),
    ("_PendingAuthorization", ("id",)),
    ("_PersonalToken", ("id",)),
    ("_RecoveryCode", ("id",)),
    ("_RefreshToken", ("id",)),
    ("_Revocation", ("id",)),
    ("_Secret", ("id",)),
    ("_ServiceAccount", ("id",)),
    ("_ServiceAccount", ("key",)),
    ("_Session", ("id",)),
    ("_ShownOnce", ("id",)),
    ("_SignInAttempts", ("id",)),
    ("_SignInLink", ("id",)),
    ("_SigningKey", ("id",)),
    ("_SigningKey", ("slot",)),
    ("_Tenant", ("id",)),
    ("_Tenant", ("key",)),
    ("_User", ("id",)),
    ("_User", ("key",)),
)
"""(label, properties): a second record with the same values is refused (``Conflict``)."""

INDEXED: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("_Audit", ("at",)),
    ("_Audit", ("tenant", "at")),
    ("_ClientDocument", ("fetched_at",)),
    ("_Code", ("kept_until",)),
    ("_Grant", ("client",)),
    ("_Grant", ("expires_at",)),
    ("_Grant", ("tenant",)),
    ("_Grant", ("user", "client", "issuer")),
    ("_Grant", ("user",)),
    ("_Idempotency", ("created_at",)),
    ("_Identity", ("user",)),
    ("_Invitation", ("expires_at",)),
    ("_Invitation", ("tenant",)),
    ("_Membership", ("tenant",)),
    ("_Membership", ("user",)),
    ("_Once", ("expires_at",)),
    ("_Passkey", ("user",)),
    ("_PendingAuthorization", ("expires_at",)),
    ("_PersonalToken", ("tenant",)),
    ("_PersonalToken", ("user",)),
    ("_RecoveryCode", ("user",)),
    ("_RefreshToken", ("expires_at",)),
    ("_ServiceAccount", ("tenant",)),
    ("_Session", ("expires_at",)),
    ("_Session", ("user",)),
    ("_ShownOnce", ("expires_at",)),
    ("_SignInAttempts", ("until",)),
    ("_SignInLink", ("expires_at",)),
)
"""(label, properties): found by these without reading every record."""
