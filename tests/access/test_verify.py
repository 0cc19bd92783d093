from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from app.access.accounts import Accounts
from app.access.snapshot import Snapshot, SnapshotMissing
from app.access.verify import Verifier
from app.access.view import View
from app.context import Grant, Role
from app.errors import Forbidden, OAuthError
from app.oauth.jwks import KeyRing, new_signing_key
from app.oauth.personal import mint_personal_token
from app.oauth.rfc9068 import mint_access_token
from app.store.control.revocations import Revocation, Revocations, client_key
from app.store.control.tenants import Tenants, TenantState
from app.store.control.users import Users
from app.store.database import Database
from tests.access.conftest import Member, a_member
from tests.identity import ADDRESS, OTHER_ADDRESS, a_grant, snapshot_of


def mint(view: View, member: Member, **changes: Any) -> str:
    given: dict[str, Any] = {
        "address": ADDRESS,
        "subject": member.user.id,
        "client": "client-1",
        "tenant": member.tenant.id,
        "role": Role.MEMBER,
        "operator": False,
        "grant": a_grant(scopes=["memory:read", "memory:write"]),
        "seconds": 3600,
        **changes,
    }
    return mint_access_token(view.ring, **given).text


def refused(verifier: Verifier, token: str, address: str = ADDRESS) -> str:
    with pytest.raises(OAuthError) as refusal:
        verifier.verify(token, address)
    assert refusal.value.error == "invalid_token"
    assert refusal.value.status == 401
    return refusal.value.description


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


async def eventually(condition: Callable[[], bool], *, seconds: float) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "the condition was not met in time"
        await asyncio.sleep(0.02)
    return time.monotonic() - began


async def test_an_access_token_yields_exactly_what_was_granted(
    verifier: Verifier, snapshot: Snapshot, member: Member
) -> None:
    grant = Grant("gr-1", frozenset({"memory:read"}), frozenset({"", "work"}), frozenset({"work"}), "work")
    principal = verifier.verify(mint(snapshot.view, member, grant=grant), ADDRESS)

    assert principal.grant == grant
    assert principal.subject == member.user.id
    assert principal.client == client_key("client-1")
    assert (principal.tenant, principal.data, principal.tenant_name) == (
        member.tenant.id,
        member.tenant.data,
        member.tenant.name,
    )
    assert principal.role is Role.MEMBER
    assert principal.operator is False


async def test_a_token_for_one_address_is_refused_at_another(
    verifier: Verifier, snapshot: Snapshot, member: Member
) -> None:
    token = mint(snapshot.view, member)
    verifier.verify(token, ADDRESS)
    assert "another address" in refused(verifier, token, OTHER_ADDRESS)


async def test_a_personal_token_is_valid_at_each_address(verifier: Verifier, member: Member) -> None:
    for address in (ADDRESS, OTHER_ADDRESS):
        assert verifier.verify(member.token, address).client == client_key(f"token:{member.token_id}")


async def test_a_token_of_another_gateway_is_refused(verifier: Verifier, snapshot: Snapshot, member: Member) -> None:
    other = View(KeyRing([new_signing_key()]), "urn:graphkeep:gateway:other", {})
    assert "not issued by this gateway" in refused(verifier, mint(other, member))


async def test_a_personal_token_of_another_gateway_with_the_same_keys_is_refused(
    verifier: Verifier, snapshot: Snapshot, member: Member
) -> None:
    stranger = mint_personal_token(
        snapshot.view.ring,
        gateway="urn:graphkeep:gateway:other",
        subject=member.user.id,
        tenant=member.tenant.id,
        role=Role.MEMBER,
        operator=False,
        grant=a_grant(),
    )
    assert "another address" in refused(verifier, stranger.text)


async def test_an_unsigned_token_is_refused(verifier: Verifier, snapshot: Snapshot, member: Member) -> None:
    header, payload, signature = mint(snapshot.view, member).split(".")
    kid = snapshot.view.ring.current().kid
    for alg in ("none", "None", "NONE", "RS512", "PS256"):
        for end in ("", signature):
            refused(verifier, f"{encoded({'alg': alg, 'typ': 'at+jwt', 'kid': kid})}.{payload}.{end}")
    refused(verifier, f"{header}.{payload}.")


async def test_the_public_key_is_no_shared_secret(verifier: Verifier, snapshot: Snapshot, member: Member) -> None:
    key = snapshot.view.ring.current()
    _, payload, _ = mint(snapshot.view, member).split(".")
    pem = key.key.public_key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for secret in (pem, pem.strip(), json.dumps(key.public()).encode()):
        signed = f"{encoded({'alg': 'HS256', 'typ': 'at+jwt', 'kid': key.kid})}.{payload}"
        mac = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
        refused(verifier, f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}")


async def test_a_changed_token_is_refused(verifier: Verifier, snapshot: Snapshot, member: Member) -> None:
    header, payload, signature = mint(snapshot.view, member).split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    claims["gk"]["tenant"] = "tn-of-someone-else"
    refused(verifier, f"{header}.{encoded(claims)}.{signature}")


async def test_text_that_is_no_token_is_refused(verifier: Verifier) -> None:
    for text in ("", "a", "a.b.c", "....", "e30.e30.e30", "W10.e30.AA", "x" * 40_000, "\x00", "é.é.é", "🙂"):
        refused(verifier, text)


async def test_an_expired_token_is_refused_even_after_it_was_accepted(snapshot: Snapshot, member: Member) -> None:
    now = time.time()
    verifier = Verifier(snapshot, clock=lambda: now)
    token = mint(snapshot.view, member, seconds=60)
    verifier.verify(token, ADDRESS)
    now += 61
    assert "expired" in refused(verifier, token)


async def test_a_token_of_another_type_is_refused(verifier: Verifier, snapshot: Snapshot, member: Member) -> None:
    _, payload, _ = mint(snapshot.view, member).split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    for typ in ("JWT", "jwt", "id_token", "at+JWT", "application/at+jwt", ""):
        assert "kind of token" in refused(verifier, snapshot.view.ring.sign(typ, claims)), typ


async def test_an_access_token_does_not_pass_for_a_personal_one(
    verifier: Verifier, snapshot: Snapshot, member: Member
) -> None:
    _, payload, _ = mint(snapshot.view, member).split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    refused(verifier, snapshot.view.ring.sign("gk-pat+jwt", claims))


async def test_a_token_without_a_claim_is_refused(verifier: Verifier, snapshot: Snapshot, member: Member) -> None:
    _, payload, _ = mint(snapshot.view, member).split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    for missing in ("sub", "client_id", "jti", "exp", "gk", "scope", "aud", "iss"):
        rest = {name: value for name, value in claims.items() if name != missing}
        refused(verifier, snapshot.view.ring.sign("at+jwt", rest))


async def test_an_audience_list_is_refused(verifier: Verifier, snapshot: Snapshot, member: Member) -> None:
    _, payload, _ = mint(snapshot.view, member).split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    claims["aud"] = [claims["aud"], "https://elsewhere.example.com/mcp"]
    refused(verifier, snapshot.view.ring.sign("at+jwt", claims))


async def test_a_reader_never_holds_a_write_whatever_the_token_says(
    verifier: Verifier, snapshot: Snapshot, member: Member
) -> None:
    token = mint(snapshot.view, member, role=Role.READER, grant=a_grant(read=["", "*"], write=["*"]))
    grant = verifier.verify(token, ADDRESS).grant
    assert grant.scopes == {"memory:read", "knowledge:read", "ledger:read"}
    assert (grant.read_layers, grant.write_layers, grant.write_layer) == ({""}, set(), None)


async def test_only_a_token_for_the_operators_tenant_makes_an_operator(
    accounts: Accounts, database: Database, tmp_path: Path, member: Member
) -> None:
    admin = await accounts.tenants.ensure("admin", admin=True)
    snapshot = snapshot_of(database, tmp_path)
    view = await snapshot.refresh()
    verifier = Verifier(snapshot)

    pretender = verifier.verify(mint(view, member, operator=True), ADDRESS)
    assert pretender.operator is False
    assert "admin" not in pretender.grant.scopes
    operator = verifier.verify(mint(view, member, operator=True, tenant=admin.id, grant=a_grant()), ADDRESS)
    assert operator.operator is True
    assert "admin" in operator.grant.scopes


@pytest.mark.parametrize("what", ["token", "grant", "client", "member", "user"])
async def test_what_was_revoked_is_refused_and_nothing_else(
    what: str, verifier: Verifier, snapshot: Snapshot, member: Member, accounts: Accounts, database: Database
) -> None:
    bystander = await a_member(accounts, Role.MEMBER)
    await snapshot.refresh()
    token = mint(snapshot.view, member, grant=a_grant(grant_id=f"gr-{what}-{member.user.id}"), client=member.user.id)
    spared = mint(snapshot.view, bystander)
    principal = verifier.verify(token, ADDRESS)
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))

    await Revocations(database.control).revoke(
        {
            "token": Revocation.of_token(claims["jti"]),
            "grant": Revocation.of_grant(principal.grant.id),
            "client": Revocation.of_client(principal.client),
            "member": Revocation.of_member(member.user.id, member.tenant.id),
            "user": Revocation.of_user(member.user.id),
        }[what]
    )
    await snapshot.refresh()

    assert "revoked" in refused(verifier, token)
    verifier.verify(spared, ADDRESS)


async def test_a_token_issued_after_the_membership_was_narrowed_is_good(
    verifier: Verifier, snapshot: Snapshot, member: Member, database: Database
) -> None:
    before = mint(snapshot.view, member)
    await Users(database.control).put_membership(member.user.id, member.tenant.id, Role.READER)
    after = mint(snapshot.view, member, role=Role.READER, now=time.time() + 0.002)
    await snapshot.refresh()

    refused(verifier, before)
    refused(verifier, member.token)
    assert verifier.verify(after, ADDRESS).role is Role.READER


async def test_a_grant_that_was_changed_ends_the_tokens_that_it_gave_before_and_no_later_ones(
    verifier: Verifier, snapshot: Snapshot, member: Member, database: Database
) -> None:
    grant = a_grant(grant_id=f"gr-{member.user.id}")
    before = mint(snapshot.view, member, grant=grant)
    verifier.verify(before, ADDRESS)
    await Revocations(database.control).revoke(Revocation.of_change(grant.id))
    after = mint(snapshot.view, member, grant=grant, now=time.time() + 0.002)
    await snapshot.refresh()

    refused(verifier, before)
    verifier.verify(after, ADDRESS)
    verifier.verify(member.token, ADDRESS)


async def test_a_suspended_tenant_stops_and_resumes(
    verifier: Verifier, snapshot: Snapshot, member: Member, database: Database
) -> None:
    tenants = Tenants(database.control)
    await tenants.set_state(member.tenant.id, TenantState.SUSPENDED)
    await snapshot.refresh()
    with pytest.raises(Forbidden, match="suspended"):
        verifier.verify(member.token, ADDRESS)

    await tenants.set_state(member.tenant.id, TenantState.ACTIVE)
    await snapshot.refresh()
    verifier.verify(member.token, ADDRESS)

    await tenants.set_state(member.tenant.id, TenantState.DELETED)
    await snapshot.refresh()
    refused(verifier, member.token)


async def test_a_tenant_that_is_newer_than_the_snapshot_is_waited_for_and_not_denied(
    verifier: Verifier, snapshot: Snapshot, accounts: Accounts
) -> None:
    newcomer = await a_member(accounts, Role.MEMBER)
    with pytest.raises(SnapshotMissing) as asked_to_wait:
        verifier.verify(newcomer.token, ADDRESS)
    assert (asked_to_wait.value.status, asked_to_wait.value.retryable) == (503, True)
    await snapshot.refresh()
    assert verifier.verify(newcomer.token, ADDRESS).tenant == newcomer.tenant.id
    nowhere = mint(snapshot.view, newcomer, tenant="tn-nowhere", now=time.time() - 60)
    assert "does not exist" in refused(verifier, nowhere)


async def test_a_new_layer_of_the_tenant_reaches_a_token_that_is_already_known(
    accounts: Accounts, database: Database, tmp_path: Path
) -> None:
    owner = await a_member(accounts, Role.OWNER)
    snapshot = snapshot_of(database, tmp_path)
    await snapshot.refresh()
    verifier = Verifier(snapshot)
    assert verifier.verify(owner.token, ADDRESS).readable() == {""}

    await accounts.tenants.add_layers(owner.tenant.id, ["work"])
    await snapshot.refresh()
    assert verifier.verify(owner.token, ADDRESS).readable() == {"", "work"}


async def test_a_revocation_reaches_a_second_replica_within_five_seconds(
    accounts: Accounts, database: Database, member: Member, tmp_path: Path
) -> None:
    replicas = [snapshot_of(database, tmp_path / name) for name in ("first", "second")]
    for replica in replicas:
        await replica.refresh()
    verifiers = [Verifier(replica) for replica in replicas]
    tasks = [asyncio.create_task(replica.run()) for replica in replicas]
    try:
        for verifier in verifiers:
            verifier.verify(member.token, ADDRESS)
        await accounts.revoke_token(member.token_id)
        for verifier in verifiers:
            await eventually(lambda verifier=verifier: not _accepts(verifier, member.token), seconds=5)  # type: ignore[misc]
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _accepts(verifier: Verifier, token: str) -> bool:
    try:
        verifier.verify(token, ADDRESS)
    except OAuthError:
        return False
    return True


async def test_uses_of_grants_and_personal_tokens_are_noted_once(
    verifier: Verifier, snapshot: Snapshot, member: Member, accounts: Accounts
) -> None:
    verifier.verify(mint(snapshot.view, member), ADDRESS)
    assert len(verifier.take_uses()) == 1
    before = int(time.time() * 1000)
    verifier.verify(member.token, ADDRESS)
    uses = verifier.take_uses()
    assert list(uses) == [member.token_id]
    assert verifier.take_uses() == {}

    await accounts.tokens.note_use(uses)
    await accounts.tokens.note_use({member.token_id: 5})
    (record,) = await accounts.list_tokens(member.user.email)
    assert record.used is not None
    assert record.used >= before


async def test_the_memory_of_verified_tokens_is_bounded(
    snapshot: Snapshot, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.access.verify.CACHE_SIZE", 3)
    verifier = Verifier(snapshot)
    for _ in range(8):
        verifier.verify(mint(snapshot.view, member), ADDRESS)
    assert len(verifier._known) == 3


async def test_a_key_that_left_the_ring_no_longer_vouches_for_a_known_token(
    verifier: Verifier, snapshot: Snapshot, member: Member
) -> None:
    token = mint(snapshot.view, member)
    verifier.verify(token, ADDRESS)
    snapshot._view = View(KeyRing([new_signing_key()]), snapshot.view.gateway, snapshot.view.tenants)
    refused(verifier, token)
