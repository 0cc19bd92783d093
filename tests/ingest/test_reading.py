"""What was sent is read page by page, and from nowhere but what this tenant sent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.context import TenantRules
from app.errors import InvalidInput, NotFound
from tests.ingest.conftest import Agent, talk


@pytest.mark.shows("graph_ingest", 13)
@pytest.mark.parametrize("text", ["x" * 100_000, "日本語 🦊\n" * 9000, '"\\\n' * 30_000, "\x01" * 20_000])
async def test_reading_page_by_page_loses_no_character(agent: Agent, text: str) -> None:
    queued = await agent.queue("long.txt", text)
    got, cursor, pages = "", None, 0
    while pages == 0 or cursor:
        answer = await agent.ask("read", id=queued["id"], cursor=cursor)
        assert len(json.dumps(answer, ensure_ascii=False)) < 60_000
        got, cursor, pages = got + answer["text"], answer["next_cursor"], pages + 1
    assert got == text
    assert pages > 1


@pytest.mark.shows("graph_read_transcript", 1, 2, 3)
async def test_a_transcript_is_found_by_session_or_the_last_part_of_a_path(agent: Agent, tmp_path: Path) -> None:
    """W-M06: no path leads anywhere but to what this tenant sent."""
    await agent.send("s-1.jsonl", talk("Hello"))
    (tmp_path / "secret.jsonl").write_bytes(talk("secret"))
    for given in ({"session_id": "s-1"}, {"file_path": "C:\\Users\\a\\s-1.jsonl"}, {"file_path": "/x/../s-1.jsonl"}):
        found = await agent.read(**given)
        assert [message["text"] for message in found["messages"]] == ["Hello"]
    for path in (str(tmp_path / "secret.jsonl"), "../secret.jsonl", "/etc/passwd"):
        with pytest.raises(NotFound, match="No transcript found for session_id"):
            await agent.read(file_path=path)
    with pytest.raises(NotFound, match="No transcript found for session_id: none"):
        await agent.read(session_id="none")
    for bad in ("../s-1", "a/b", "a\x00b", "con"):
        with pytest.raises(InvalidInput):
            await agent.read(session_id=bad)
    with pytest.raises(InvalidInput, match="Provide either session_id or file_path"):
        await agent.read()
    with pytest.raises(NotFound):
        await Agent(agent.service, f"{agent.tenant}x").read(session_id="s-1")


async def test_a_page_is_as_long_as_the_tenant_has_it_unless_the_call_says(agent: Agent) -> None:
    await agent.send("s-1.jsonl", talk("One", "Two", "Three"))
    agent.principal = replace(agent.principal, rules=TenantRules(behaviour=(("dream.chunk_size_lines", 1.0),)))
    assert len((await agent.read(session_id="s-1"))["messages"]) == 1
    assert len((await agent.read(session_id="s-1", limit=2))["messages"]) == 2


@pytest.mark.shows("graph_read_transcript", 11)
async def test_what_another_sent_under_its_name_stands_in_no_transcripts_place(agent: Agent) -> None:
    """One's own is read; where none or more than one is, nothing is, and the answer says who sent which."""
    sends = Agent(agent.service, agent.tenant, subject="us-sends", scopes=["ingest:write"])
    reader = Agent(agent.service, agent.tenant, ("", "b"), subject="us-reader")
    own = await agent.send("s-1.jsonl", talk("Real"))
    assert (await reader.read(session_id="s-1"))["sender"] == "us-test"
    await sends.send("s-1.jsonl", talk("Forged"))
    found = await agent.read(session_id="s-1")
    assert ([m["text"] for m in found["messages"]], found["id"], found["sender"]) == (["Real"], own["id"], "us-test")
    several = await reader.read(session_id="s-1")
    assert (several["state"], several["messages"], several["message_count"]) == ("several", [], 0)
    assert [row["sender"] for row in several["candidates"]] == ["us-sends", "us-test"]
    texts = [(await reader.read(id=row["id"]))["messages"][0]["text"] for row in several["candidates"]]
    assert texts == ["Forged", "Real"]
    assert [item["sender"] for item in (await reader.ask("status"))["pending"]] == ["us-test", "us-sends"]
    assert {item["sender"] for item in (await reader.ask("claim", limit=2))["items"]} == {"us-test", "us-sends"}
    for layer in ("tenant", "b"):
        await reader.send("s-1.jsonl", talk(f"In {layer}"), layer=layer)
    several = await reader.read(session_id="s-1")
    assert [(row["sender"], row["layer"]) for row in several["candidates"][:2]] == [
        *(("us-reader", "b"), ("us-reader", "tenant")),
    ]
    found = await reader.read(id=several["candidates"][0]["id"])
    assert ([m["text"] for m in found["messages"]], found["layer"]) == (["In b"], "b")
    document = await agent.queue("a.md", "x")
    for id_ in (document["id"], several["candidates"][0]["id"], "in-none"):
        with pytest.raises(NotFound, match="no such transcript"):
            await agent.read(id=id_)


@pytest.mark.shows("graph_read_transcript", 4, 9)
async def test_a_transcript_is_read_in_pages_with_counts_of_the_whole(agent: Agent) -> None:
    await agent.send("s-1.jsonl", talk(*(f"m{number}" for number in range(5))) + b"{half")
    texts, cursor = [], None
    while not texts or cursor:
        found = await agent.read(session_id="s-1", limit=2, cursor=cursor)
        assert (found["line_count"], found["message_count"], found["bad_lines"]) == (6, 5, 1)
        assert (found["session_id"], found["cwd"], found["format_version"]) == ("s-1", "/home/ada", "v1")
        texts += [message["text"] for message in found["messages"]]
        cursor = found["next_cursor"]
    assert texts == [f"m{number}" for number in range(5)]
    assert found["warnings"] == ["Line 6: invalid JSON, skipped"]
