"""What contradicts what is listed until it is decided, and candidates are proposed."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from app.context import Deadline, TenantRules
from app.errors import Forbidden, InvalidInput, NotFound
from app.memory.changing.contradictions import contradictions
from app.memory.changing.queries import HELD, HELD_IN_ALL
from app.memory.changing.schemas import ContradictionsInput
from app.memory.service import MemoryService
from app.store.database import Database, TenantSession
from app.store.statement import Statement
from tests.memory.conftest import Agent
from tests.memory.doing import do, entries


async def _contradict(agent: Agent, one: str, other: str, **more: object) -> None:
    facts = [{"name": name, "type": "Fact", "properties": {"content": f"The project {name}."}} for name in (one, other)]
    await agent.batch(facts, [{"from": one, "to": other, "relation": "CONTRADICTS", "weight": 0.8, **more}])


@pytest.mark.shows("graph_contradictions", 1, 2, 3)
async def test_a_contradiction_is_open_and_dated_from_the_moment_it_is_recorded(agent: Agent) -> None:
    """W-M25: nothing has to be set by hand for it to surface."""
    await _contradict(agent, "uses Vue", "uses React", properties={"description": "Two stacks"})
    answer = await do(agent, "graph_contradictions")
    assert answer["count"] == 1
    found = answer["contradictions"][0]
    assert found["node_a"] == {
        "id": "uses-vue",
        "type": "Fact",
        "name": "uses Vue",
        "content": "The project uses Vue.",
    }
    assert (found["node_b"]["id"], found["description"], found["resolved"]) == ("uses-react", "Two stacks", False)
    edge = (await agent.edges("uses vue"))["uses-vue", "CONTRADICTS", "uses-react"]
    assert found["detected_date"] == edge["properties"]["detected_date"]
    assert edge["properties"]["resolved"] is False
    await _contradict(agent, "uses Vue", "uses React")
    again = (await do(agent, "graph_contradictions"))["contradictions"][0]
    assert again["detected_date"] == found["detected_date"]


@pytest.mark.shows("graph_contradictions", 3)
async def test_a_contradiction_without_the_property_waits_too(agent: Agent, database: Database) -> None:
    """W-M25: a missing `resolved` hid what older systems had written."""
    await _contradict(agent, "uses Vue", "uses React")
    async with database.driver.session(database=database.name) as session:
        await session.run(
            "MATCH (:Entity {tenant: $tenant})-[r:CONTRADICTS]->() REMOVE r.resolved, r.detected_date",
            tenant=agent.tenant,
        )
    answer = await do(agent, "graph_contradictions")
    assert (answer["count"], answer["contradictions"][0]["resolved"]) == (1, False)
    assert answer["contradictions"][0]["detected_date"].endswith("Z")
    assert (await agent.stats())["health"]["unresolved_contradictions"] == 1


@pytest.mark.shows("graph_contradictions", 4)
@pytest.mark.shows("graph_resolve", 1, 2, 6)
async def test_a_decided_one_shows_only_when_asked_for_with_its_resolution(agent: Agent, database: Database) -> None:
    await _contradict(agent, "uses Vue", "uses React")
    decided = await do(agent, "graph_resolve", from_name="uses react", to_name="uses vue", resolution="React since May")
    assert decided["action"] == "resolved"
    assert (await do(agent, "graph_contradictions"))["contradictions"] == []
    shown = (await do(agent, "graph_contradictions", include_resolved=True))["contradictions"]
    assert shown == [decided["contradiction"]]
    assert (shown[0]["resolved"], shown[0]["resolution"]) == (True, "React since May")
    assert (await agent.stats())["health"]["unresolved_contradictions"] == 0
    again = await do(agent, "graph_resolve", from_name="uses vue", to_name="uses react", resolution="Vue after all")
    assert again["contradiction"]["resolution"] == "Vue after all"
    told = await entries(database, agent)
    assert [entry.action for entry in told] == ["memory.resolve", "memory.resolve"]
    assert "Vue" not in str(told[0].detail)


@pytest.mark.shows("graph_contradictions", 5)
async def test_pages_hold_each_contradiction_once_the_newest_first(agent: Agent) -> None:
    """W-M32: the list is bounded and goes on with a cursor."""
    for number in range(5):
        day = f"2026-03-0{number + 1}"
        await _contradict(agent, f"one {number}", f"other {number}", properties={"detected_date": day})
    first = await do(agent, "graph_contradictions", limit=2)
    second = await do(agent, "graph_contradictions", limit=2, cursor=first["next_cursor"])
    third = await do(agent, "graph_contradictions", limit=2, cursor=second["next_cursor"])
    pages = [[entry["node_a"]["name"] for entry in page["contradictions"]] for page in (first, second, third)]
    assert pages == [["one 4", "one 3"], ["one 2", "one 1"], ["one 0"]]
    assert [page["count"] for page in (first, second, third)] == [5, 5, 5]
    assert "next_cursor" not in third
    with pytest.raises(InvalidInput, match="another call"):
        await do(agent, "graph_contradictions", limit=3, cursor=first["next_cursor"])


@pytest.mark.shows("graph_contradictions", 6, 8)
async def test_two_current_values_of_a_relation_with_one_are_a_candidate_across_layers(
    service: MemoryService, tenant: str
) -> None:
    wide, in_a = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "a"), "a")
    hidden = Agent(service, tenant, ("", "b"), "b")
    await wide.relate("Ann", "WORKS_AT", "Acme", valid_at="2020-01-01", to_type="Organization", weight=0.6)
    await in_a.relate("Ann", "WORKS_AT", "Globex", valid_at="2022-05-01", to_type="Organization", weight=0.8)
    await wide.relate("Ann", "USES", "Vim")
    await wide.relate("Ann", "USES", "Emacs")
    assert (await do(wide, "graph_contradictions"))["candidates"] == []
    await hidden.relate("Ann", "WORKS_AT", "Initech", valid_at="2023-01-01")
    assert (await do(in_a, "graph_contradictions"))["candidates"] == [
        {
            "entity": {"id": "ann", "name": "Ann", "type": "Person"},
            "relation": "WORKS_AT",
            "values": [
                {
                    "id": "acme",
                    "name": "Acme",
                    "type": "Organization",
                    "weight": 0.6,
                    "valid_at": "2020-01-01T00:00:00Z",
                    "layers": ["tenant"],
                },
                {
                    "id": "globex",
                    "name": "Globex",
                    "type": "Organization",
                    "weight": 0.8,
                    "valid_at": "2022-05-01T00:00:00Z",
                    "layers": ["a"],
                },
            ],
            "value_count": 2,
            "since": "2022-05-01T00:00:00Z",
        }
    ]
    await in_a.relate("Acme", "CONTRADICTS", "Globex", from_type="Organization", to_type="Organization")
    recorded = await do(in_a, "graph_contradictions")
    assert (recorded["count"], recorded["candidates"]) == (1, [])


@pytest.mark.shows("graph_contradictions", 9)
async def test_of_many_values_and_long_texts_only_what_is_shown_is_read(
    plain_agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A briefing is kept in memory: one hub and a few texts of 32 KiB made it tens of megabytes."""
    long = "z" * 30_000
    names = [f"firm {number:02}" for number in range(25)]
    plain_agent.rules = TenantRules(single_valued=frozenset())  # before it had this rule all of them held
    await plain_agent.batch(
        [{"name": "Ann", "type": "Person"}, *({"name": name, "type": "Organization"} for name in names)],
        [
            {
                "from": "Ann",
                "relation": "WORKS_AT",
                "to": name,
                "valid_at": "2020-01-01",
                "properties": {"reason": long},
            }
            for name in names
        ],
    )
    plain_agent.rules = TenantRules()
    await _contradict(plain_agent, "uses Vue", "uses React", properties={"description": long, "purpose": long})
    session = plain_agent.service.database.session(
        plain_agent.call("test").scope, deadline=Deadline.after(30), request_id="test"
    )
    rows: list[dict[str, Any]] = []
    real = TenantSession.read

    async def read(session: TenantSession, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        found = await real(session, statement, **parameters)
        rows.extend(found)
        return found

    monkeypatch.setattr(TenantSession, "read", read)
    call = plain_agent.call("graph_contradictions")
    answer = await contradictions(plain_agent.service.kept, session, call, ContradictionsInput())
    assert len(orjson.dumps(rows)) < 20_000
    (candidate,) = answer["candidates"]
    assert [value["name"] for value in candidate["values"]] == names[:20]
    assert (candidate["value_count"], answer["candidate_count"]) == (25, 1)
    assert candidate["since"] is None, "the moment that the second began is among those that are not read"
    assert answer["contradictions"][0]["description"] == f"{long[:500]}…"


@pytest.mark.shows("graph_contradictions", 7)
async def test_which_relations_make_candidates_is_the_tenants_rule(agent: Agent) -> None:
    agent.rules = TenantRules(single_valued=frozenset({"LIVES_IN"}))
    for relation in ("WORKS_AT", "LIVES_IN"):
        for target in ("Rome", "Oslo"):
            await agent.relate("Ann", relation, target)
    found = (await do(agent, "graph_contradictions"))["candidates"]
    assert [(entry["relation"], len(entry["values"]), entry["since"]) for entry in found] == [("LIVES_IN", 2, None)]


@pytest.mark.shows("graph_contradictions", 9)
async def test_of_more_candidates_than_are_listed_the_number_is_told(
    plain_agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for relation in ("WORKS_AT", "HOSTED_ON", "LOCATED_IN"):
        for target in ("Rome", "Oslo"):
            await plain_agent.relate("Ann", relation, target)
    whole = await do(plain_agent, "graph_contradictions")
    assert ([entry["relation"] for entry in whole["candidates"]], whole["candidate_count"]) == (
        ["HOSTED_ON", "LOCATED_IN", "WORKS_AT"],
        3,
    )
    monkeypatch.setattr("app.memory.changing.contradictions._CANDIDATES", 2)
    cut = await do(plain_agent, "graph_contradictions")
    assert (cut["candidates"], cut["candidate_count"]) == (whole["candidates"][:2], 3)


async def _listed(agent: Agent, **more: object) -> list[dict[str, Any]]:
    """Its pages."""
    pages = [await do(agent, "graph_contradictions", limit=3, **more)]
    while "next_cursor" in pages[-1]:
        pages.append(await do(agent, "graph_contradictions", limit=3, cursor=pages[-1]["next_cursor"], **more))
    return pages


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Which statements looked for what contradicts, and how much of it came back."""
    told: list[tuple[str, int]] = []
    real = TenantSession.read

    async def read(session: TenantSession, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        found = await real(session, statement, **parameters)
        if statement in {HELD, HELD_IN_ALL}:
            told.append((statement.name, sum(len(row.get("held", row.get("places"))) for row in found)))
        return found

    monkeypatch.setattr(TenantSession, "read", read)
    return told


@pytest.mark.shows("graph_contradictions", 5, 9)
async def test_where_there_is_much_the_database_chooses_the_same(
    service: MemoryService, tenant: str, monkeypatch: pytest.MonkeyPatch, ways: list[tuple[str, int]]
) -> None:
    """One tenant's memory may hold two million relations: sorted here, they kept every other tenant waiting."""
    wide, in_a = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "a"), "a")
    day = {"detected_date": "2026-03-01"}
    pairs = [("one", "two", {"detected_date": "2026-03-02"}), ("three", "four", day), ("five", "six", day)]
    towns = [("rome", "oslo"), ("oslo", "bonn"), ("bonn", "rome"), ("rome", "bonn"), ("rome", "rom")]
    lives = [
        ("ann", ("rome", "oslo", "bonn")),
        ("bob", ("rome", "oslo", "kyiv", "riga", "nice", "lima")),
        ("cid", ("oslo", "rome")),
        ("dan", ("oslo", "rome", "kyiv")),
    ]
    wide.rules = in_a.rules = TenantRules(single_valued=frozenset())
    for agent, half in ((wide, slice(0, None, 2)), (in_a, slice(1, None, 2))):
        said = [*pairs, *((one, other, {}) for one, other in towns)][half]
        await agent.batch(
            [
                {"name": name, "type": "Concept"}
                for name in {*(end for one, other, _ in said for end in (one, other)), *(name for name, _ in lives)}
                | {to for _, cities in lives for to in cities[half]}
            ],
            [
                *(
                    {"from": one, "relation": "CONTRADICTS", "to": other, "properties": more}
                    for one, other, more in said
                ),
                *({"from": name, "relation": "LIVES_IN", "to": to} for name, cities in lives for to in cities[half]),
            ],
        )
    wide.rules = in_a.rules = TenantRules(single_valued=frozenset({"LIVES_IN"}))
    await do(wide, "graph_resolve", from_name="one", to_name="two", resolution="two")

    async def listed() -> list[list[dict[str, Any]]]:
        return [await _listed(wide, include_resolved=True), await _listed(in_a)]

    whole = await listed()
    assert [(pages[0]["count"], pages[0]["candidate_count"]) for pages in whole] == [(4, 2), (7, 2)]
    monkeypatch.setattr("app.memory.changing.contradictions._AT_ONCE", 0)
    assert await _listed(in_a) == whole[1]
    assert {name for name, _ in ways} == {HELD.name}
    monkeypatch.setattr("app.memory.changing.contradictions._IN_ALL", 4)
    assert await listed() == whole
    assert max(many for name, many in ways if name == HELD_IN_ALL.name) == 4, "a page and one more"
    ways.clear()
    monkeypatch.setattr("app.memory.changing.contradictions._IN_RANGE", 0)
    assert await listed() == whole
    assert {many for name, many in ways if name == HELD.name} == {0}, "of what is too much nothing is read"


@pytest.mark.shows("graph_contradictions", 8)
@pytest.mark.shows("graph_resolve", 4)
async def test_a_contradiction_is_open_while_a_copy_is_and_only_writable_copies_are_decided(
    service: MemoryService, tenant: str
) -> None:
    wide, in_a = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "a"), "a")
    hidden = Agent(service, tenant, ("", "b"), "b")
    await _contradict(wide, "uses Vue", "uses React")
    with pytest.raises(Forbidden, match="tenant"):
        await do(in_a, "graph_resolve", from_name="uses Vue", to_name="uses React", resolution="React")
    await _contradict(in_a, "uses Vue", "uses React")
    await _contradict(hidden, "uses Vue", "uses React")
    decided = await do(in_a, "graph_resolve", from_name="uses Vue", to_name="uses React", resolution="React")
    assert (decided["contradiction"]["resolved"], decided["kept_layers"]) == (False, ["tenant"])
    assert (await do(in_a, "graph_contradictions"))["count"] == 1
    await do(wide, "graph_resolve", from_name="uses Vue", to_name="uses React", resolution="React")
    assert (await do(in_a, "graph_contradictions"))["count"] == 0
    assert (await do(hidden, "graph_contradictions"))["count"] == 1


@pytest.mark.shows("graph_resolve", 3, 5)
async def test_what_cannot_be_decided_is_refused_and_a_key_decides_once(agent: Agent) -> None:
    await agent.relate("Ann", "USES", "Vim")
    with pytest.raises(NotFound, match="Nothing says"):
        await do(agent, "graph_resolve", from_name="Ann", to_name="Vim", resolution="x")
    with pytest.raises(NotFound, match="No entity"):
        await do(agent, "graph_resolve", from_name="Ann", to_name="Zanzibar", resolution="x")
    with pytest.raises(InvalidInput, match="one entity"):
        await do(agent, "graph_resolve", from_name="Ann", to_name="ann", resolution="x")
    await _contradict(agent, "uses Vue", "uses React")
    ends = {"from_name": "uses Vue", "to_name": "uses React", "idempotency_key": "k"}
    first = await do(agent, "graph_resolve", **ends, resolution="React")
    await do(agent, "graph_resolve", from_name="uses Vue", to_name="uses React", resolution="Vue")
    assert await do(agent, "graph_resolve", **ends, resolution="React") == first
    assert (await do(agent, "graph_contradictions", include_resolved=True))["contradictions"][0]["resolution"] == "Vue"
