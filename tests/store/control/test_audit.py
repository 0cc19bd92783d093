from __future__ import annotations

from app.store.control.audit import Audit, AuditQuery
from app.store.database import Database
from tests.identity import fresh_name


async def test_entries_come_newest_first_and_page_by_page(database: Database) -> None:
    audit, tenant = Audit(database.control), fresh_name("tn")
    for number in range(5):
        await audit.append(tenant=tenant, actor="us-1", action="thing.do", target=str(number), detail={"n": number})
    first = await audit.entries(tenant, ["*"], limit=3)
    rest = await audit.entries(tenant, ["*"], AuditQuery().after(first[-1]), limit=3)
    assert len(first) == 3
    assert len(rest) == 2
    assert {each.detail["n"] for each in [*first, *rest]} == set(range(5))
    assert [each.at for each in [*first, *rest]] == sorted((each.at for each in [*first, *rest]), reverse=True)


async def test_an_entry_shows_only_to_who_may_read_all_of_its_layers(database: Database) -> None:
    audit, tenant = Audit(database.control), fresh_name("tn")
    await audit.append(tenant=tenant, actor="us-1", action="both", layers=["a", "b"])
    await audit.append(tenant=tenant, actor="us-1", action="wide", layers=[""])
    await audit.append(tenant=tenant, actor="us-1", action="none")

    async def seen(*readable: str) -> set[str]:
        return {each.action for each in await audit.entries(tenant, readable)}

    assert await seen("*") == {"both", "wide", "none"}
    assert await seen("", "a") == {"wide", "none"}
    assert await seen("a", "b") == {"both", "none"}
    assert await seen() == {"none"}


async def test_one_tenants_trail_never_shows_in_anothers(database: Database) -> None:
    audit, tenant = Audit(database.control), fresh_name("tn")
    await audit.append(tenant=tenant, actor="us-1", action="thing.do")
    assert await audit.entries(fresh_name("tn"), ["*"]) == []


async def test_a_trail_is_searched_by_actor_action_and_time(database: Database) -> None:
    audit, tenant, actor = Audit(database.control), fresh_name("tn"), fresh_name("us")
    await audit.append(tenant=tenant, actor=actor, action="user.add")
    await audit.append(tenant=tenant, actor=actor, action="user.remove")
    await audit.append(tenant=tenant, actor="us-other", action="user.remove")

    async def found(query: AuditQuery) -> list[str]:
        return sorted(entry.action for entry in await audit.entries(tenant, ["*"], query))

    assert await found(AuditQuery(actor=actor)) == ["user.add", "user.remove"]
    assert await found(AuditQuery(action="user.r")) == ["user.remove", "user.remove"]
    assert await found(AuditQuery(since=2**52)) == []
    assert await found(AuditQuery(until=1)) == []
    everywhere = await audit.search(AuditQuery(actor=actor))
    assert sorted(entry.action for entry in everywhere) == ["user.add", "user.remove"]
    first = await audit.search(AuditQuery(actor=actor), limit=1)
    rest = await audit.search(AuditQuery(actor=actor).after(first[0]))
    assert [entry.id for entry in [*first, *rest]] == [entry.id for entry in everywhere]


async def test_the_search_over_all_tenants_says_nothing_of_what_a_tenant_remembers(database: Database) -> None:
    audit, tenant, actor = Audit(database.control), fresh_name("tn"), fresh_name("us")
    told = {"target": "ann USES vim", "layers": ["a"], "detail": {"reason": "she left"}}
    await audit.append(tenant=tenant, actor=actor, action="memory.weaken", **told)  # type: ignore[arg-type]
    await audit.append(tenant=tenant, actor=actor, action="graph.cypher", **told)  # type: ignore[arg-type]
    await audit.append(tenant=tenant, actor=actor, action="layer.add", **told)  # type: ignore[arg-type]
    searched = await audit.search(AuditQuery(actor))
    found = {entry.action: (entry.tenant, entry.target, entry.detail) for entry in searched}
    assert found == {
        "memory.weaken": (tenant, "", {}),
        "graph.cypher": (tenant, "", {}),
        "layer.add": (tenant, "ann USES vim", {"reason": "she left"}),
    }
    own = await audit.entries(tenant, ["*"], AuditQuery(action="memory."))
    assert [(entry.target, entry.detail) for entry in own] == [("ann USES vim", {"reason": "she left"})]
