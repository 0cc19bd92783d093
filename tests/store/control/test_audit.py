from __future__ import annotations

from app.store.control.audit import Audit
from app.store.database import Database
from tests.identity import fresh_name


async def test_entries_come_newest_first_and_page_by_page(database: Database) -> None:
    audit, tenant = Audit(database.control), fresh_name("tn")
    for number in range(5):
        await audit.append(tenant=tenant, actor="us-1", action="thing.do", target=str(number), detail={"n": number})
    first = await audit.entries(tenant, ["*"], limit=3)
    rest = await audit.entries(tenant, ["*"], before=first[-1], limit=3)
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
