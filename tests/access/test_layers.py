from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.access.layers import allowed_scopes, refuse_unreachable, scope_for, visible
from app.context import EVERY_LAYER, SCOPES, TENANT_WIDE, Role, layer_name
from app.contract import Arguments, Cost, DeadlineClass, Tool
from app.errors import Forbidden, InvalidInput
from tests.identity import a_grant, a_principal

LAYERS = ["", "a", "b", "c"]
granted = st.frozensets(st.sampled_from([*LAYERS, EVERY_LAYER]))
requested = st.none() | st.lists(st.sampled_from(["tenant", "a", "b", "c", "d", "*", "global", ""]), max_size=4)


async def _run(service: object, call: object, arguments: object) -> dict[str, object]:
    return {}


def a_tool(scope: str, *, operators_only: bool = False) -> Tool:
    return Tool(
        name="graph_thing",
        title="Thing",
        description="",
        toolset="memory",
        input=Arguments,
        output=Arguments,
        run=_run,
        scope=scope,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.READ,
        read_only=not scope.endswith(":write"),
        operators_only=operators_only,
        instead="Use graph_query.",
    )


@given(read=granted, names=requested)
def test_a_read_never_reaches_a_layer_that_was_not_granted(read: frozenset[str], names: list[str] | None) -> None:
    principal = a_principal(a_grant(read=read), role=Role.OWNER, tenant_layers=LAYERS)
    scope = scope_for(principal, names, writes=False)

    assert set(scope.layers) <= principal.readable()
    assert scope.writable == ()
    if names is None:
        assert set(scope.layers) == principal.readable()
    else:
        asked = {"" if name == "tenant" else name for name in names}
        assert set(scope.layers) - {TENANT_WIDE} <= asked
        assert (TENANT_WIDE in scope.layers) == (TENANT_WIDE in principal.readable())


@given(read=granted, write=granted, default=st.none() | st.sampled_from(LAYERS), names=requested)
def test_a_write_never_reaches_a_layer_that_was_not_granted(
    read: frozenset[str], write: frozenset[str], default: str | None, names: list[str] | None
) -> None:
    grant = a_grant(read=read, write=write, write_layer=default)
    principal = a_principal(grant, role=Role.OWNER, tenant_layers=LAYERS)
    try:
        scope = scope_for(principal, names, writes=True)
    except (Forbidden, InvalidInput):
        return

    assert scope.write_layer in principal.writable()
    assert set(scope.writable) <= principal.writable()
    assert set(scope.layers) <= principal.readable()
    wanted = default if names is None else "" if names == ["tenant"] else names[0]
    assert scope.write_layer == wanted


def test_tenant_wide_is_part_of_every_read_that_was_granted_it() -> None:
    principal = a_principal(a_grant(read=["", "a", "b"]))
    assert scope_for(principal, ["a"], writes=False).layers == ("", "a")
    assert scope_for(principal, [], writes=False).layers == ("",)


def test_a_read_of_nothing_that_was_granted_reads_nothing() -> None:
    principal = a_principal(a_grant(read=["a"], write=["a"], write_layer="a"))
    assert scope_for(principal, ["b", "tenant"], writes=False).layers == ()


def test_every_layer_means_those_that_exist_and_no_other() -> None:
    principal = a_principal(a_grant(read=["*"]), role=Role.OWNER, tenant_layers=["", "a", "later"])
    assert scope_for(principal, None, writes=False).layers == ("", "a", "later")
    assert scope_for(principal, ["unknown"], writes=False).layers == ("",)


def test_a_write_to_a_layer_that_was_not_granted_is_refused_with_the_remedy() -> None:
    principal = a_principal(a_grant(read=["", "a"], write=["a"], write_layer="a"))
    with pytest.raises(Forbidden, match="consent page") as refusal:
        scope_for(principal, ["tenant"], writes=True)
    assert "It may write to: a." in refusal.value.message
    assert refusal.value.outcome == "not_applied"


def test_a_layer_that_cannot_be_read_cannot_be_written() -> None:
    principal = a_principal(a_grant(read=[""], write=["", "a"], write_layer="a"))
    for names in (["a"], None):
        with pytest.raises(Forbidden):
            scope_for(principal, names, writes=True)


def test_a_write_that_names_a_layer_changes_nothing_elsewhere() -> None:
    principal = a_principal(a_grant(read=["", "a", "b"], write=["", "a", "b"]))
    scope = scope_for(principal, ["a"], writes=True)
    assert (scope.write_layer, scope.writable, scope.layers) == ("a", ("a",), ("", "a"))


def test_a_write_that_names_no_layer_judges_on_all_readable_ones() -> None:
    principal = a_principal(a_grant(read=["", "a", "b"], write=["", "a"]))
    scope = scope_for(principal, None, writes=True)
    assert (scope.write_layer, scope.writable, scope.layers) == ("", ("", "a"), ("", "a", "b"))


@pytest.mark.parametrize("names", [[], ["a", "b"]])
def test_a_write_names_exactly_one_layer(names: list[str]) -> None:
    principal = a_principal(a_grant(read=["", "a", "b"], write=["", "a", "b"]))
    with pytest.raises(InvalidInput):
        scope_for(principal, names, writes=True)


def test_the_data_id_comes_from_the_principal_alone() -> None:
    assert scope_for(a_principal(), None, writes=False).tenant == "dtest"


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("operator", [False, True])
def test_the_list_shows_what_the_role_could_reach_whatever_the_token_holds(role: Role, operator: bool) -> None:
    principal = a_principal(a_grant(scopes=[]), role=role, operator=operator)
    for scope in SCOPES:
        reachable = (role is not Role.READER or not scope.endswith(":write")) and (operator or scope != "admin")
        assert visible(a_tool(scope), principal) is reachable
        assert (scope in allowed_scopes(role, operator=operator)) is reachable


def test_operators_tools_are_listed_for_operators_only() -> None:
    tool = a_tool("memory:read", operators_only=True)
    assert visible(tool, a_principal(operator=True))
    assert not visible(tool, a_principal(role=Role.OWNER))


def test_the_refusal_of_an_operators_tool_says_what_to_use_instead() -> None:
    with pytest.raises(Forbidden, match=r"operators of this gateway\. Use graph_query\."):
        refuse_unreachable(a_tool("admin"), a_principal(role=Role.OWNER))
    refuse_unreachable(a_tool("memory:write"), a_principal())


def test_a_reader_is_told_whom_to_ask_for_writing() -> None:
    with pytest.raises(Forbidden, match="role member"):
        refuse_unreachable(a_tool("memory:write"), a_principal(role=Role.READER))


def test_layers_are_named_for_people_in_the_refusal() -> None:
    principal = a_principal(a_grant(read=["", "a"], write=[""], write_layer=""))
    with pytest.raises(Forbidden, match=f"It may write to: {layer_name('')}"):
        scope_for(principal, ["a"], writes=True)
