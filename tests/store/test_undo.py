"""What a change leaves behind so that it can be undone, exactly or not at all."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from app.context import Scope
from app.errors import Conflict, Forbidden, NotFound
from app.store import images, undo
from app.store.database import Database, Writing
from app.store.statement import statement
from app.store.sweeping import sweep_changes
from app.store.undo import DEFAULT_RETENTION, Change, Recording, Undone, changes

PLANT = statement(
    "test.plant_for_undo",
    """
    CREATE (a:Entity {tenant: $tenant, layer: $layer, id: 'ann', name: 'Ann', partition: $partition})
    SET a:Person, a.embedding = [0.1, 1.0, -0.30000001192092896], a.times_mentioned = 1,
        a.first_seen = datetime('2026-01-02T03:04:05.123456789Z'), a.aliases = ['Annie'], a.whole = 2, a.real = 2.0
    CREATE (b:Entity {tenant: $tenant, layer: $layer, id: 'vim', name: 'Vim', partition: $partition})
    SET b:Object, b.times_mentioned = 3
    CREATE (x:Alias {tenant: $tenant, layer: $layer, id: 'annie', target: 'ann', name: 'Annie'})
    CREATE (a)-[r:USES {tenant: $tenant, layer: $layer}]->(b)
    SET r.weight = 0.5, r.ingested_at = datetime('2026-01-02T03:04Z')
    """,
    writes=True,
)
TAKE = statement(
    "test.take_for_undo",
    """
    MATCH (a:Entity {tenant: $tenant, layer: $layer, id: 'ann'}) DETACH DELETE a
    WITH count(*) AS gone
    MATCH (x:Alias {tenant: $tenant, layer: $layer, id: 'annie'}) DELETE x
    WITH count(*) AS gone
    MATCH (b:Entity {tenant: $tenant, layer: $layer, id: 'vim'})
    SET b.times_mentioned = 4, b.words = 'vim'
    SET b:Concept REMOVE b:Object
    CREATE (n:Entity {tenant: $tenant, layer: $layer, id: 'new', name: 'New', partition: $partition})
    CREATE (n)-[r:USES {tenant: $tenant, layer: $layer}]->(b)
    """,
    writes=True,
)
MENTION = statement(
    "test.mention_for_undo",
    """
    MATCH (n:Entity {tenant: $tenant, layer: $layer, id: $id})
    SET n.times_mentioned = coalesce(n.times_mentioned, 0) + 1, n.last_seen = datetime()
    """,
    writes=True,
)
FORGET = statement(
    "test.forget_for_undo",
    "MATCH (n:Entity {tenant: $tenant, layer: $layer, id: $id}) DETACH DELETE n",
    writes=True,
)
TIE = statement(
    "test.tie_for_undo",
    """
    MATCH (n:Entity {tenant: $tenant, layer: $layer, id: $id}), (b:Entity {tenant: $tenant, layer: $layer, id: 'vim'})
    CREATE (n)-[r:KNOWS {tenant: $tenant, layer: $layer}]->(b)
    """,
    writes=True,
)
DUMP = statement(
    "test.dump_for_undo",
    """
    CALL {
      MATCH (n:Entity|Alias {tenant: $tenant}) WHERE n.layer IN $layers
      WITH n ORDER BY n.layer, n.id
      RETURN collect([labels(n), properties(n)]) AS nodes
    }
    CALL {
      MATCH (a:Entity {tenant: $tenant}) WHERE a.layer IN $layers
      MATCH (a)-[r]->(b:Entity {tenant: $tenant, layer: a.layer})
      WITH a, r, b ORDER BY r.layer, a.id, type(r), b.id
      RETURN collect([a.id, type(r), b.id, properties(r)]) AS relations
    }
    RETURN nodes, relations
    """,
)
COUNT = statement("test.count_undo", "MATCH (u:_Undo {tenant: $of}) RETURN count(u) AS records", control=True)


class Tool:
    """A tool that takes Ann away, makes New and changes Vim, in one layer."""

    def __init__(self, open_session: Any, tenant: str, layer: str = "", layers: tuple[str, ...] = ("",)) -> None:
        self.session = open_session(tenant, layers=layers, write_layer=layer, writable=layers)
        self.recording = Recording(self.session.scope, "test", DEFAULT_RETENTION)

    async def plant(self) -> None:
        await self.run(PLANT)

    async def run(self, made: Any, **parameters: Any) -> None:
        async def work(writing: Writing) -> dict[str, Any]:
            await writing.run(made, **parameters)
            return {}

        await self.session.write(work)

    async def take(self) -> str:
        async def work(writing: Writing) -> dict[str, Any]:
            before = await self.recording.before(writing, ["vim"], around=["ann", "new"])
            await writing.run(TAKE)
            return {"undo_id": await self.recording.after(writing, before, summary="took Ann")}

        made: str = (await self.session.write(work))["undo_id"]
        return made

    async def undo(self, id_: str) -> Undone:
        done: list[Undone] = []

        async def work(writing: Writing) -> dict[str, Any]:
            done.append(await self.recording.undo(writing, id_))
            return {}

        await self.session.write(work)
        return done[-1]

    async def dump(self) -> dict[str, Any]:
        return (await self.session.read(DUMP))[0]


@pytest.fixture
async def tool(open_session: Any, tenant: str) -> Tool:
    made = Tool(open_session, tenant)
    await made.plant()
    return made


async def test_undoing_restores_labels_properties_vectors_relations_and_aliases_exactly(tool: Tool) -> None:
    before = await tool.dump()
    id_ = await tool.take()
    assert await tool.dump() != before
    done = await tool.undo(id_)
    assert (done.entities, done.relations, done.aliases) == (3, 2, 1)
    assert await tool.dump() == before


async def test_undoing_an_undo_makes_the_change_again(tool: Tool) -> None:
    id_ = await tool.take()
    taken = await tool.dump()
    back = await tool.undo(id_)
    assert back.undo_id != id_
    again = await tool.undo(back.undo_id)
    assert await tool.dump() == taken
    assert again.change.summary == "undid: took Ann"


async def test_a_change_is_undone_once(tool: Tool) -> None:
    id_ = await tool.take()
    done = await tool.undo(id_)
    with pytest.raises(Conflict, match=f"undone already; to make it again, undo {done.undo_id}"):
        await tool.undo(id_)


@pytest.mark.parametrize(
    ("made", "id_", "words"),
    [
        (MENTION, "vim", r"entity 'vim' has changed \(last_seen, times_mentioned\)"),
        (FORGET, "vim", "entity 'vim' is gone"),
        (TIE, "new", "relation new→KNOWS→vim is new"),
        (PLANT, "", "entity 'ann' is new"),
    ],
)
async def test_what_has_changed_since_is_named_and_nothing_is_applied(
    tool: Tool, made: Any, id_: str, words: str
) -> None:
    undo_id = await tool.take()
    if made is PLANT:
        await tool.run(FORGET, id="vim")
    await tool.run(made, **({"id": id_} if id_ else {}))
    left = await tool.dump()
    with pytest.raises(Conflict, match=words):
        await tool.undo(undo_id)
    assert await tool.dump() == left


async def test_a_relation_is_not_restored_to_an_end_that_went_without_being_recorded(tool: Tool) -> None:
    """The change touched only Ann; Vim stood beside it and is gone."""

    async def work(writing: Writing) -> dict[str, Any]:
        before = await tool.recording.before(writing, around=["ann"])
        await writing.run(FORGET, id="ann")
        return {"undo_id": await tool.recording.after(writing, before, summary="forgot Ann")}

    undo_id = (await tool.session.write(work))["undo_id"]
    await tool.run(FORGET, id="vim")
    with pytest.raises(Conflict, match="entity 'vim' is gone"):
        await tool.undo(undo_id)


def _faded(held: float, *state: float, seen: str = "2026-01-02T03:04:05.9Z") -> dict[str, Any]:
    known: dict[str, Any] = {"confidence": held, "last_seen": seen, **({"decay_state": list(state)} if state else {})}
    return {"labels": ["Entity"], "properties": known, "moments": ["last_seen"]}


SEEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("then", "now", "same"),
    [
        (_faded(0.8), _faded(0.7, 0.8, SEEN, 50.0, 0.7), True),
        (_faded(0.7, 0.8, SEEN, 50.0, 0.7), _faded(0.6, 0.8, SEEN, 90.0, 0.6), True),
        (_faded(0.5, 0.8, SEEN, 50.0, 0.7), _faded(0.4, 0.5, SEEN + 50 * 86_400, 9.0, 0.4), True),
        (_faded(0.9, 0.8, SEEN - 9, 50.0, 0.9), _faded(0.7, 0.9, SEEN, 50.0, 0.7), True),
        (_faded(0.8), _faded(0.6, 0.8, SEEN, 50.0, 0.7), False),
        (_faded(0.8), _faded(0.7, 0.9, SEEN, 50.0, 0.7), False),
        (_faded(0.8), _faded(0.8, seen="2026-01-03T03:04Z"), False),
    ],
    ids=["first", "again", "weakened before", "seen before", "weakened since", "boosted since", "seen since"],
)
def test_what_only_fades_leaves_the_same_marks(then: dict[str, Any], now: dict[str, Any], same: bool) -> None:
    """What is recorded of a change is compared with what is there later: fading has one beginning."""
    assert (images.marks(then) == images.marks(now)) is same


async def test_what_changes_nothing_is_not_recorded(tool: Tool, database: Database, tenant: str) -> None:
    async def work(writing: Writing) -> dict[str, Any]:
        before = await tool.recording.before(writing, around=["ann"])
        return {"undo_id": await tool.recording.after(writing, before, summary="nothing")}

    assert (await tool.session.write(work))["undo_id"] is None
    assert (await database.control.read(COUNT, of=tenant))[0]["records"] == 0


async def test_a_change_over_two_layers_is_there_only_for_who_may_write_both(
    database: Database, open_session: Any, tenant: str
) -> None:
    """Partition rule 18: for others the record does not exist."""
    both = ("", "a")
    wide = Tool(open_session, tenant, "", both)
    await wide.plant()
    await Tool(open_session, tenant, "a", both).plant()
    before = await wide.dump()

    async def work(writing: Writing) -> dict[str, Any]:
        seen = await wide.recording.before(writing, around=["ann"])
        for layer in both:
            await writing.into(layer).run(FORGET, id="ann")
        return {"undo_id": await wide.recording.after(writing, seen, summary="forgot Ann")}

    undo_id = (await wide.session.write(work))["undo_id"]
    for layers in (("",), ("a",)):
        narrow = Tool(open_session, tenant, layers[0], layers)
        assert await changes(database.control, narrow.session.scope) == []
        with pytest.raises(NotFound):
            await narrow.undo(undo_id)
    await wide.undo(undo_id)
    assert await wide.dump() == before


async def test_a_record_means_nothing_to_another_data_id(tool: Tool, open_session: Any, database: Database) -> None:
    id_ = await tool.take()
    stranger = Tool(open_session, tool.session.scope.tenant + "x")
    with pytest.raises(NotFound):
        await stranger.undo(id_)
    assert await changes(database.control, stranger.session.scope) == []


async def test_changes_are_listed_newest_first_in_pages(tool: Tool, database: Database) -> None:
    first = await tool.take()
    second = (await tool.undo(first)).undo_id
    third = (await tool.undo(second)).undo_id
    scope = tool.session.scope
    page = await changes(database.control, scope, limit=1)
    assert [change.id for change in page] == [third]
    assert page[0].expires_at - page[0].at == 30 * 86_400_000
    assert (page[0].tool, page[0].subject, page[0].layers) == ("test", "tester", ("",))
    assert await changes(database.control, scope, until=(page[0].at, page[0].id)) == []


async def test_an_expired_change_cannot_be_undone_and_is_swept(tool: Tool, database: Database, tenant: str) -> None:
    tool.recording = Recording(tool.session.scope, "test", DEFAULT_RETENTION._replace(days=0))
    id_ = await tool.take()
    with pytest.raises(NotFound):
        await tool.undo(id_)
    assert await changes(database.control, tool.session.scope) == []
    while await sweep_changes(database.control, time.time() + 1):
        pass
    assert (await database.control.read(COUNT, of=tenant))[0]["records"] == 0


async def test_what_can_be_undone_takes_no_more_room_than_a_tenant_may_have(
    tool: Tool, database: Database, tenant: str
) -> None:
    tool.recording = Recording(tool.session.scope, "test", DEFAULT_RETENTION._replace(most=13_000))  # of two, not three
    first = await tool.take()
    second = (await tool.undo(first)).undo_id
    assert (await database.control.read(COUNT, of=tenant))[0]["records"] == 2
    third = (await tool.undo(second)).undo_id
    assert (await database.control.read(COUNT, of=tenant))[0]["records"] == 2
    with pytest.raises(NotFound):
        await tool.undo(first)
    await tool.undo(third)


async def test_what_is_too_large_to_be_undone_is_refused_and_rolled_back(
    tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await tool.dump()
    monkeypatch.setattr(undo, "LARGEST", 10)
    with pytest.raises(Conflict, match="too large to be undone"):
        await tool.take()
    monkeypatch.setattr(images, "MOST_RECORDS", 0)
    with pytest.raises(Conflict, match="more than 0 relations"):
        await tool.take()
    assert await tool.dump() == before


async def test_a_layer_that_may_not_be_written_cannot_be_written_into(tool: Tool) -> None:
    async def work(writing: Writing) -> dict[str, Any]:
        await writing.into("b").run(FORGET, id="ann")
        return {}

    with pytest.raises(Forbidden):
        await tool.session.write(work)


def test_a_change_shows_what_its_list_needs() -> None:
    assert {"id", "tool", "at", "summary", "expires_at", "layers"} <= set(Change.__dataclass_fields__)
    assert Scope("d", ("",), ("",), "", "s").writable == ("",)
