from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.access.grants import make_grant, named_layers, within
from app.context import SCOPES, Grant, Role
from app.errors import Forbidden, InvalidInput
from app.store.control.users import Membership, default_layers

NAMES = ["tenant", "a", "b", "*"]
names = st.none() | st.lists(st.sampled_from(NAMES), max_size=4)
held = st.frozensets(st.sampled_from(["", "a", "b"]))


def a_membership(role: Role, read: frozenset[str] | None = None, write: frozenset[str] | None = None) -> Membership:
    default_read, default_write = default_layers(role)
    return Membership(
        "us-1", "tn-1", role, default_read if read is None else read, default_write if write is None else write
    )


def grant_of(membership: Membership, **wanted: object) -> Grant:
    return make_grant(membership, grant_id="gr-1", operator=False, **wanted)  # type: ignore[arg-type]


@given(
    role=st.sampled_from(Role),
    read=held,
    write=held,
    scopes=st.none() | st.lists(st.sampled_from(SCOPES)),
    read_names=names,
    write_names=names,
)
def test_a_grant_never_exceeds_the_membership(
    role: Role,
    read: frozenset[str],
    write: frozenset[str],
    scopes: list[str] | None,
    read_names: list[str] | None,
    write_names: list[str] | None,
) -> None:
    membership = a_membership(role, read, frozenset() if role is Role.READER else write)
    try:
        grant = grant_of(membership, scopes=scopes, read_layers=read_names, write_layers=write_names)
    except (Forbidden, InvalidInput):
        return

    assert grant.read_layers <= membership.read_layers
    assert grant.write_layers <= membership.write_layers
    assert grant.write_layers <= grant.read_layers
    assert (grant.write_layer is None) == (not grant.write_layers)
    assert grant.write_layer is None or grant.write_layer in grant.write_layers
    assert "admin" not in grant.scopes
    if role is Role.READER:
        assert not any(scope.endswith(":write") for scope in grant.scopes)
        assert not grant.write_layers


scopes = st.frozensets(st.sampled_from(SCOPES))
layers = st.frozensets(st.sampled_from(["", "a", "b", "*"]))


@given(role=st.sampled_from(Role), read=held, write=held, scopes=scopes, asked_read=layers, asked_write=layers)
def test_an_older_grant_keeps_only_what_the_member_still_holds(
    role: Role,
    read: frozenset[str],
    write: frozenset[str],
    scopes: frozenset[str],
    asked_read: frozenset[str],
    asked_write: frozenset[str],
) -> None:
    default = min(asked_write, default=None)
    older = Grant("gr-1", scopes, asked_read, asked_write, default)
    now = within(older, a_membership(role, read, frozenset() if role is Role.READER else write), operator=False)

    assert now.scopes == scopes - {"admin"} - (
        {s for s in scopes if s.endswith(":write")} if role is Role.READER else set()
    )
    assert now.read_layers == asked_read & read
    writes = any(scope.endswith(":write") for scope in now.scopes)
    assert now.write_layers == (asked_write & write if writes else set())
    assert now.write_layer == (default if default in now.write_layers else None)


def test_an_owner_is_granted_everything_and_writes_tenant_wide_by_default() -> None:
    grant = grant_of(a_membership(Role.OWNER))
    assert grant.scopes == set(SCOPES) - {"admin"}
    assert (grant.read_layers, grant.write_layers, grant.write_layer) == ({"*"}, {""}, "")


def test_an_operator_may_hold_admin() -> None:
    grant = make_grant(a_membership(Role.OWNER), grant_id="g", operator=True)
    assert grant.scopes == set(SCOPES)


def test_the_first_layer_to_write_is_the_default_one() -> None:
    grant = grant_of(a_membership(Role.OWNER), write_layers=["work", "tenant", "work"])
    assert (grant.write_layer, grant.write_layers) == ("work", {"work", ""})
    assert named_layers(grant) == {"work"}


def test_an_owner_may_name_a_layer_that_is_new() -> None:
    grant = grant_of(a_membership(Role.OWNER), read_layers=["project:new"], write_layers=["project:new"])
    assert named_layers(grant) == {"project:new"}


def test_what_is_written_must_be_readable() -> None:
    owner = a_membership(Role.OWNER)
    for wanted in ({}, {"write_layers": ["tenant"]}, {"write_layers": ["work", "other"]}, {"write_layers": ["*"]}):
        with pytest.raises(InvalidInput, match="must be readable"):
            grant_of(owner, read_layers=["work"], **wanted)
    assert grant_of(owner, read_layers=["work"], write_layers=["work"]).write_layer == "work"
    assert grant_of(owner, read_layers=["work"], scopes=["memory:read"]).write_layer is None


def test_a_token_without_a_scope_that_writes_has_no_layer_to_write() -> None:
    grant = grant_of(a_membership(Role.OWNER), scopes=["memory:read"])
    assert grant.write_layer is None
    with pytest.raises(InvalidInput, match="only reads"):
        grant_of(a_membership(Role.OWNER), scopes=["memory:read"], write_layers=["tenant"])


def test_a_member_cannot_take_a_layer_that_was_not_given() -> None:
    membership = a_membership(Role.MEMBER)
    for wanted in ({"read_layers": ["work"]}, {"write_layers": ["work"]}, {"read_layers": ["*"]}):
        with pytest.raises(Forbidden, match="an owner grants it first"):
            grant_of(membership, **wanted)


def test_every_layer_is_written_tenant_wide_by_default() -> None:
    grant = grant_of(a_membership(Role.OWNER), write_layers=["*"])
    assert (grant.write_layers, grant.write_layer) == ({"*"}, "")


@pytest.mark.parametrize("scope", ["memory:delete", "MEMORY:READ", "", "offline_access"])
def test_an_unknown_scope_is_refused_with_the_list(scope: str) -> None:
    with pytest.raises(InvalidInput, match="memory:read, memory:write"):
        grant_of(a_membership(Role.OWNER), scopes=[scope])


def test_a_scope_beyond_the_role_is_refused() -> None:
    with pytest.raises(Forbidden, match="reader of this tenant cannot give memory:write"):
        grant_of(a_membership(Role.READER), scopes=["memory:write"])


@pytest.mark.parametrize("name", ["global", "", "a b", "tenant "])
def test_a_bad_layer_name_is_refused(name: str) -> None:
    if name.strip() == "tenant":
        assert grant_of(a_membership(Role.OWNER), read_layers=[name]).read_layers == {""}
        return
    with pytest.raises(InvalidInput):
        grant_of(a_membership(Role.OWNER), read_layers=[name])
