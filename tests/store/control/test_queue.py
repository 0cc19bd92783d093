"""The queue: accepted once, taken by one, given back when its holder dies, never forgotten."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace

import pytest

from app.context import Scope
from app.errors import Conflict
from app.store.control.queue import (
    Item,
    QueueStore,
    Summary,
    Usage,
    accept_in,
    change_in,
    claim_in,
    remove_in,
    take_in,
)
from app.store.control.tenants import Tenants, TenantState
from app.store.database import Database
from app.store.idempotency import Idempotency
from app.store.statement import REGISTERED
from tests.identity import fresh_name
from tests.plans import assert_plan


@pytest.fixture
def store(database: Database) -> QueueStore:
    return QueueStore(database.control)


def item(tenant: str, name: str = "a.md", layer: str = "", **more) -> Item:
    made = Item(
        id=f"in-{secrets.token_hex(8)}",
        tenant=tenant,
        layer=layer,
        name=name,
        sha256="s",
        size=10,
        media_type="text/markdown",
        kind="document",
        state="pending",
        meta="{}",
        subject="us",
        created_at=1.0,
        updated_at=1.0,
        due=0.0,
    )
    return replace(made, **more)


async def accept(database: Database, made: Item) -> tuple[Item, bool]:
    return await database.control.write(lambda writing: accept_in(writing, made))


async def claim(database: Database, tenant: str, *, now: float, limit: int = 1, item: str | None = None) -> list[Item]:
    return await database.control.write(
        lambda writing: claim_in(writing, tenant, [""], item=item, now=now, until=now + 60, limit=limit)
    )


async def test_the_same_content_under_the_same_name_in_the_same_layer_is_one_item(database, tenant):
    first, fresh = await accept(database, item(tenant))
    again, fresh_again = await accept(database, item(tenant))
    assert (fresh, fresh_again, again.id) == (True, False, first.id)
    for other in (item(tenant, layer="a"), item(tenant, name="b.md"), item(tenant, sha256="t"), item(f"{tenant}x")):
        assert (await accept(database, other))[1]


async def test_twenty_at_once_accept_one(database, tenant):
    outcomes = await asyncio.gather(*(accept(database, item(tenant)) for _ in range(20)))
    assert sum(fresh for _, fresh in outcomes) == 1
    assert len({found.id for found, _ in outcomes}) == 1


async def test_the_summary_counts_only_readable_layers(store, database, tenant):
    await accept(database, item(tenant))
    await accept(database, item(tenant, "t.jsonl", kind="transcript"))
    await accept(database, item(tenant, "b.md", layer="b"))
    await accept(database, item(tenant, "c.md", state="completed"))
    await accept(database, item(tenant, "d.pdf", state="failed", reason="no text"))
    assert await store.summary(tenant, [""]) == Summary(1, 1, 1, 1)
    assert await store.summary(tenant, ["", "b"]) == Summary(2, 1, 1, 1)
    assert await store.summary(tenant, []) == Summary()
    assert await store.summary(f"{tenant}x", [""]) == Summary()


async def test_two_replicas_never_take_one_item(database, tenant):
    """Fault 19, W-M30: exclusive leases, whoever asks at once."""
    for number in range(4):
        await accept(database, item(tenant, f"{number}.md"))
    taken = await asyncio.gather(*(claim(database, tenant, now=100) for _ in range(12)))
    ids = [found.id for some in taken for found in some]
    assert len(ids) == len(set(ids))
    rest = await claim(database, tenant, now=100, limit=10)
    assert len(ids) + len(rest) == 4


async def test_an_expired_lease_is_taken_over_and_a_live_one_is_not(store, database, tenant):
    await accept(database, item(tenant))
    (held,) = await claim(database, tenant, now=100)
    assert await claim(database, tenant, now=159) == []
    (taken,) = await claim(database, tenant, now=161)
    assert (taken.id, taken.claims) == (held.id, 2)
    assert taken.lease != held.lease
    assert not await store.finish(held, {"state": "completed"})
    assert await store.finish(taken, {"state": "completed"})


async def test_what_is_claimed_again_and_again_ends_among_the_failed_with_a_reason(store, database, tenant):
    """Fault 18: nothing silent."""
    made, _ = await accept(database, item(tenant, claims=4))
    await claim(database, tenant, now=100)
    await store.give_up(tenant, now=120, claims=5, reason="claimed too often")
    assert (await store.find(tenant, [""], made.id)).state == "claimed"
    await store.give_up(f"{tenant}x", now=200, claims=5, reason="claimed too often")
    assert tenant in await store.claimed_out(now=200, claims=5)
    await store.give_up(tenant, now=200, claims=5, reason="claimed too often")
    assert tenant not in await store.claimed_out(now=200, claims=5)
    (dead,) = await store.failed(tenant, [""], limit=10)
    assert (dead.id, dead.reason) == (made.id, "claimed too often")


async def test_an_item_is_found_changed_and_removed_only_through_its_layer(store, database, tenant):
    made, _ = await accept(database, item(tenant, layer="b"))
    assert await store.find(tenant, [""], made.id) is None
    assert await store.find(f"{tenant}x", ["b"], made.id) is None
    assert await database.control.write(lambda writing: take_in(writing, tenant, [""], made.id)) is None
    await database.control.write(lambda writing: change_in(writing, made.id, {"reason": "x"}))
    assert (await store.find(tenant, ["b"], made.id)).reason == "x"
    await database.control.write(lambda writing: remove_in(writing, made.id))
    assert await store.find(tenant, ["b"], made.id) is None


async def test_pages_of_what_waits_lose_nothing(store, database, tenant):
    for number in range(5):
        await accept(database, item(tenant, f"{number}.md", created_at=float(number // 2 + 1)))
    seen: list[str] = []
    after = (0.0, "")
    while page := await store.pending(tenant, [""], after=after, limit=2):
        seen += [found.name for found, _ in page]
        after = (page[-1][0].created_at, page[-1][0].id)
    assert sorted(seen) == [f"{number}.md" for number in range(5)]


async def test_a_resumed_transcript_says_from_where_it_goes_on(store, database, tenant):
    """W-M31: a session that went on after it was processed is unprocessed again."""
    common = {"name": "s.jsonl", "kind": "transcript"}
    await accept(database, item(tenant, **common, state="completed", last_at=50.0))
    await accept(database, item(tenant, **common, sha256="longer", created_at=2.0))
    ((_, since),) = await store.pending(tenant, [""], limit=10)
    assert since == 50.0
    assert (await store.summary(tenant, [""])).unprocessed_transcripts == 1


async def test_cursors_are_the_newest_of_each_session(store, database, tenant):
    cloud = {"source": "claude-code-cloud", "session_id": "s1"}
    for number, through in enumerate((10.0, 30.0, 20.0)):
        await accept(
            database,
            item(
                tenant, f"{number}.md", **cloud, through=f"t{through}", through_at=through, last_event_id=f"e{number}"
            ),
        )
    await accept(database, item(tenant, "f.md", **cloud, through="t99", through_at=99.0, state="failed"))
    await accept(database, item(tenant, "o.md", source="web", session_id="s2", through="t", through_at=99.0))
    await accept(database, item(tenant, "b.md", layer="b", **cloud, through="t98", through_at=98.0))
    await accept(database, item(tenant, "t.md", subject="them", **cloud, through="t97", through_at=97.0))
    asked = {"source": "claude-code-cloud", "limit": 10, "sender": "us"}
    found = await store.cursors(tenant, [""], session=None, **asked)
    assert found == [{"session": "s1", "through": "t30.0", "last_event_id": "e1", "file": "1.md"}]
    assert await store.cursors(tenant, [""], session="s2", **asked) == []


async def test_a_write_with_a_key_happens_once(store, database, tenant):
    scope = Scope(tenant, ("",), ("",), "", "us")
    ran = 0

    async def work(writing):
        nonlocal ran
        ran += 1
        return {"n": ran}

    once = Idempotency("k", "graph_ingest", "d")
    assert await store.write(scope, once, work) == await store.write(scope, once, work) == {"n": 1}
    with pytest.raises(Conflict):
        await store.write(scope, Idempotency("k", "graph_ingest", "other"), work)


async def test_a_converters_lease_works_the_same(store, database, tenant):
    made, _ = await accept(database, item(tenant, "a.pdf", state="received", due=5.0))
    assert await _mine(store, tenant, now=4.0) is None
    held = await _mine(store, tenant, now=6.0)
    assert held is not None
    assert (held.id, held.state, held.attempts) == (made.id, "converting", 1)
    assert await _mine(store, tenant, now=65.0) is None
    again = await _mine(store, tenant, now=67.0)
    assert again is not None
    assert again.attempts == 2
    assert not await store.finish(held, {"state": "pending"})
    assert await store.finish(again, {"state": "pending", "text": True})


@pytest.mark.parametrize("names", ["abc", "bca", "cab", "cba"])
async def test_whose_first_item_comes_late_waits_for_one_of_each_other_tenant(store, database, tenant, names):
    """One tenant's thousand documents delay another's first by one at most, wherever its id stands."""
    many, late, last = (f"{tenant}{name}" for name in names)
    for number in range(4):
        await accept(database, item(many, f"{number}.pdf", state="received", due=-9.0 + number))
    assert await _turns(store, 2) == [many, many]
    await accept(database, item(late, "late.pdf", state="received", due=-2.0))
    await accept(database, item(last, "last.pdf", state="received", due=-1.5))
    assert set(await _turns(store, 2, after=many)) == {late, last}
    assert await _turns(store, 3, after=last) == [many, many]


async def test_what_a_tenant_sent_is_converted_only_while_it_is_active(store, database):
    """Fault 29: a converter would bring back what an erasure puts away."""
    tenants = Tenants(database.control)
    made = await tenants.create(fresh_name("tenant"))
    waiting, _ = await accept(database, item(made.data, "a.pdf", state="received", due=-30.0))
    for state in (TenantState.SUSPENDED, TenantState.MOVING):
        await tenants.set_state(made.id, state)
        assert await store.claim_conversion(now=-29.0, until=60.0) is None
    await tenants.set_state(made.id, TenantState.ACTIVE)
    taken = await store.claim_conversion(now=-29.0, until=60.0)
    assert taken.id == waiting.id
    assert await store.finish(taken, {"state": "pending"})


async def test_what_another_sent_already_is_one_item_except_to_who_may_not_see_it(database, tenant):
    async def sent(subject: str, *, seeing: bool) -> tuple[Item, bool]:
        made = item(tenant, subject=subject)
        return await database.control.write(
            lambda writing: accept_in(writing, made, sender=None if seeing else subject)
        )

    first, _ = await sent("us", seeing=False)
    assert await sent("them", seeing=True) == (first, False)
    beside, fresh = await sent("device", seeing=False)
    assert (fresh, beside.subject) == (True, "device")
    assert await sent("device", seeing=False) == await sent("device", seeing=True) == (beside, False)
    await database.control.write(lambda writing: remove_in(writing, first.id))
    assert await sent("device", seeing=False) == (beside, False)


async def _turns(store: QueueStore, most: int, *, after: str = "") -> list[str]:
    """Whose items one converter gets, of what was due before any other test's."""
    served: list[str] = []
    while len(served) < most and (found := await store.claim_conversion(now=-1.0, until=60.0, after=after)):
        assert await store.finish(found, {"state": "pending"})
        served.append(after := found.tenant)
    return served


async def test_the_text_that_was_made_of_an_item_counts_for_its_tenant(store, database, tenant):
    await accept(database, item(tenant, "a.pdf", text=True, text_size=5))
    await accept(database, item(tenant, "b.jsonl", stored=False))
    assert await store.usage(tenant) == Usage(files=2, size=15)


async def test_a_sender_is_shown_what_it_sent_alone(store, database, tenant):
    for subject, state in (("us", "pending"), ("them", "pending"), ("them", "completed"), ("them", "failed")):
        cloud = {"source": "web", "session_id": subject, "through": "t", "through_at": 1.0}
        await accept(database, item(tenant, f"{subject}-{state}.md", subject=subject, state=state, **cloud))
    assert await store.summary(tenant, [""], sender="us") == Summary(pending=1)
    assert [found.name for found, _ in await store.pending(tenant, [""], limit=9, sender="us")] == ["us-pending.md"]
    assert await store.completed(tenant, [""], limit=9, sender="us") == []
    assert await store.failed(tenant, [""], limit=9, sender="us") == []
    cursors = await store.cursors(tenant, [""], source="web", session=None, limit=9, sender="us")
    assert [row["session"] for row in cursors] == ["us"]
    assert await store.newest(tenant, [""], "them-pending.md", first="us", sender="us") is None
    assert (await store.newest(tenant, [""], "us-pending.md", first="us", sender="us")).subject == "us"
    for subject in ("us", "them"):
        await accept(database, item(tenant, "s.jsonl", subject=subject, sha256=subject, kind="transcript"))
    assert [found.subject for found in await store.versions(tenant, "", "s.jsonl", sender="us")] == ["us"]
    assert len(await store.versions(tenant, "", "s.jsonl")) == 2


async def test_of_each_sender_and_layer_the_newest_transcript_of_a_name_is_found_ones_own_first(
    store, database, tenant
):
    sent = (("us", "", 1.0), ("us", "", 2.0), ("them", "", 3.0), ("us", "b", 4.0), ("them", "c", 5.0))
    for subject, layer, moment in sent:
        more = {"subject": subject, "layer": layer, "sha256": str(moment), "created_at": moment}
        await accept(database, item(tenant, "s.jsonl", kind="transcript", **more))
    await accept(database, item(tenant, "s.jsonl", kind="transcript", subject="gone", sha256="g", stored=False))
    found = await store.transcripts(tenant, ["", "b"], "s.jsonl", first="us")
    assert [(each.subject, each.layer, each.created_at) for each in found] == [
        *(("us", "b", 4.0), ("us", "", 2.0), ("them", "", 3.0)),
    ]


async def _mine(store: QueueStore, tenant: str, *, now: float) -> Item | None:
    """The next conversion; other tests' items wait for ever in this shared database, with later moments."""
    found = await store.claim_conversion(now=now, until=now + 60)
    assert found is None or found.tenant == tenant
    return found


PLANNED = {
    name: found
    for name, found in REGISTERED.items()
    if name.startswith("queue.") and name not in {"queue.claim_conversion", "queue.claimed_out"}
}
"""What a call runs; the two others are of the worker, which serves all tenants, and start from the state."""


@pytest.mark.parametrize("name", sorted(PLANNED))
async def test_no_statement_of_a_call_looks_at_other_tenants_items(database, name):
    examples = {
        "of": "t",
        "readable": [""],
        "writable": [""],
        "id": "in-1",
        "ids": ["in-1"],
        "layer_of": "",
        "name": "a",
        "at": 0.0,
        "now": 0.0,
        "until": 1.0,
        "limit": 5,
        "claims": 5,
        "lease": "l",
        "reason": "r",
        "session": None,
        "sender": "us",
        "key": "k",
        "record": {"id": "x"},
        "changes": {"reason": "x"},
        "source": "s",
        "unknown_form": "x",
        "cancelled": False,
        "keep": 5,
        "first": "us",
    }
    await assert_plan(database, PLANNED[name], {key: examples[key] for key in PLANNED[name].parameters})
