"""Documents that come from an address: only where it is allowed, only from public places, like an upload otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.context import Deadline
from app.errors import CallError, Conflict, Forbidden, InvalidInput, QuotaExceeded
from app.fetching.addresses import Unfetchable
from app.ingest import fetching
from app.ingest.fetching import NotFetched, plain_address
from app.ingest.files import TooLargeFile
from app.ingest.service import IngestService
from app.store.database import Database
from tests.ingest.conftest import Agent, service_at
from tests.oauth.publisher import Publisher, publishing

NAMES = {
    "localhost": ["127.0.0.1"],
    "private.example": ["10.0.0.1"],
    "mapped.example": ["::ffff:10.0.0.1"],
    "mixed.example": ["1.1.1.1", "169.254.169.254"],
}


async def resolve(host: str, port: int) -> Sequence[str]:
    if host not in NAMES:
        raise OSError("no such name")
    return NAMES[host]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def publisher(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Publisher]:
    async with publishing(tmp_path_factory.mktemp("host")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _trusted(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(publisher.authority))
    publisher.documents.update({"/a.md": "# A", "/page": "<p>Ann works at Acme.</p>", "/b.md": "b" * 5000})
    publisher.types.update({"/a.md": "text/plain; charset=utf-8", "/page": "text/html", "/b.md": "text/markdown"})
    publisher.asked.clear()


def fetching_at(database: Database, home: Path, publisher: Publisher, **ingest: Any) -> IngestService:
    allowed = {"ingest_urls": True, "ingest_url_hosts": (publisher.host,), **ingest}
    return service_at(database, home, resolve=resolve, **allowed)


@pytest.fixture
def reader(database: Database, tmp_path: Path, tenant: str, publisher: Publisher) -> Agent:
    return Agent(fetching_at(database, tmp_path, publisher), tenant)


async def refusal(agent: Agent, url: str, error: type[CallError] = InvalidInput, **more: Any) -> str:
    with pytest.raises(error) as refused:
        await agent.ask("queue", url=url, **more)
    assert "othing was stored" in refused.value.message
    assert agent.files() == []
    return refused.value.message


@pytest.mark.shows("graph_ingest", 18)
async def test_no_address_is_fetched_unless_the_operator_allows_it(agent: Agent, publisher: Publisher) -> None:
    assert "GRAPHKEEP_INGEST_URLS" in await refusal(agent, publisher.url("/a.md"), Forbidden)
    assert not publisher.asked


@pytest.mark.shows("graph_ingest", 18)
async def test_what_lies_at_an_address_is_queued_like_a_file_and_its_source_recorded(
    reader: Agent, publisher: Publisher
) -> None:
    url = publisher.url("/a.md")
    answer = await reader.ask("queue", url=f"{url}#part", meta={"author": "Ada"}, idempotency_key="k")
    assert (answer["action"], answer["file"], answer["state"]) == ("queued", "a.md", "pending")
    assert (await reader.ask("read", id=answer["id"]))["text"] == "# A"
    (shown,) = (await reader.ask("status"))["pending"]
    assert shown["meta"] == {"author": "Ada", "source": url}
    assert await reader.ask("queue", url=f"{url}#part", meta={"author": "Ada"}, idempotency_key="k") == answer
    assert publisher.asked["/a.md"] == 1, "the same call fetches nothing again"
    with pytest.raises(Conflict):
        await reader.ask("queue", url=url, idempotency_key="k", digest="another")
    again = await reader.ask("queue", url=url)
    assert (again["id"], again["created"]) == (answer["id"], False)


@pytest.mark.shows("graph_ingest", 18)
async def test_the_query_of_an_address_is_asked_for_and_not_kept(reader: Agent, publisher: Publisher) -> None:
    publisher.documents["/a.md?token=s3cret"], publisher.types["/a.md?token=s3cret"] = "# Mine", "text/plain"
    answer = await reader.ask("queue", url=publisher.url("/a.md?token=s3cret#part"))
    assert (await reader.ask("read", id=answer["id"]))["text"] == "# Mine"
    (shown,) = (await reader.ask("status"))["pending"]
    assert shown["meta"]["source"] == publisher.url("/a.md")


@pytest.mark.shows("graph_ingest", 20)
async def test_the_type_decides_about_the_ending(reader: Agent, publisher: Publisher) -> None:
    publisher.documents["/page?x=1"], publisher.types["/page?x=1"] = "<p>Ann</p>", "text/html; charset=utf-8"
    page = await reader.ask("queue", url=publisher.url("/page?x=1"))
    assert (page["file"], page["state"]) == ("page.html", "received")
    assert (await reader.ask("queue", url=publisher.url("/page"), file_name="Acme.html"))["file"] == "Acme.html"
    publisher.documents["/odd"] = b"\0\1"
    for kind, name, word in (
        ("image/gif", None, "nothing here reads"),
        ("text/html", "report.pdf", "no .pdf file"),
        ("application/octet-stream", None, "file_name"),
        ("application/pdf", "../a.pdf", "file name"),
    ):
        publisher.types["/odd"] = kind
        given = {} if name is None else {"file_name": name}
        with pytest.raises(InvalidInput, match=word):
            await reader.ask("queue", url=publisher.url("/odd"), **given)
    publisher.types["/odd"] = "application/octet-stream"
    assert (await reader.ask("queue", url=publisher.url("/odd"), file_name="a.txt"))["file"] == "a.txt"


@pytest.mark.shows("graph_ingest", 19)
@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("http://localhost/a.md", "https://"),
        ("https://ann:secret@localhost/a.md", "user name or password"),
        ("https://private.example/a.md", "no public address"),
        ("https://mapped.example/a.md", "no public address"),
        ("https://mixed.example/a.md", "no public address"),
        ("https://nowhere.example/a.md", "no public address"),
        ("https://127.0.0.1/a.md", "public name"),
        ("https://[::1]/a.md", "https://"),
        ("https://localhost/a.md", "public name"),
        ("https://other.example:8443/a.md", "port 443"),
        ("file:///etc/passwd", "https://"),
        ("https://[", "https://"),
    ],
)
async def test_only_public_places_are_asked(reader: Agent, publisher: Publisher, url: str, word: str) -> None:
    message = await refusal(reader, url)
    assert word in message
    assert "secret" not in message
    assert not publisher.asked


@pytest.mark.shows("graph_ingest", 19)
async def test_each_redirect_is_judged_like_the_address_that_was_given(reader: Agent, publisher: Publisher) -> None:
    publisher.moved = {"/moved": f"/{publisher.mark}/moved/again", "/moved/again": publisher.url("/a.md")}
    answer = await reader.ask("queue", url=publisher.url("/moved"))
    assert answer["file"] == "a.md"
    (shown,) = (await reader.ask("status"))["pending"]
    assert shown["meta"]["source"] == publisher.url("/moved"), "the address that was named"
    await reader.ask("cancel", id=answer["id"])
    for target, word in (
        ("https://private.example/a.md", "no public address"),
        (f"http://{publisher.host}/a.md", "https://"),
        ("https://10.0.0.1/", "public name"),
        (f"https://ann:pass@{publisher.host}/a.md", "user name or password"),
        ("https://[bad", "https://"),
        (publisher.url("/moved"), "more than 3 times"),
    ):
        publisher.moved["/moved"] = target
        assert word in await refusal(reader, publisher.url("/moved"))


@pytest.mark.shows("graph_ingest", 20)
async def test_what_is_too_large_too_slow_or_not_there_is_not_kept(
    database: Database, tmp_path: Path, tenant: str, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(fetching_at(database, tmp_path, publisher, ingest_file_bytes=4096, quota_file_bytes=4000), tenant)
    await refusal(agent, publisher.url("/b.md"), TooLargeFile)
    await refusal(agent, publisher.url("/endless"), TooLargeFile, file_name="a.json")
    publisher.documents["/c.txt"], publisher.types["/c.txt"] = "c" * 4050, "text/plain"
    await refusal(agent, publisher.url("/c.txt"), QuotaExceeded)
    assert "404" in await refusal(agent, publisher.url("/none"))
    assert "500" in await refusal(agent, publisher.url("/status/500"), NotFetched)
    monkeypatch.setattr(fetching, "SECONDS", 0.3)
    for path in ("/hang", "/drip"):
        assert "did not come" in await refusal(agent, publisher.url(path), NotFetched, file_name="a.json")


@pytest.mark.shows("graph_ingest", 18)
async def test_an_address_gives_nobody_more_than_an_upload(
    database: Database, tmp_path: Path, tenant: str, publisher: Publisher
) -> None:
    """Who may only send has it fetched into the layer that they may write, and learns nothing of what others sent."""
    service = fetching_at(database, tmp_path, publisher)
    layered = Agent(service, tenant, ("a", "b"), subject="us-2", scopes=("ingest:write",))
    first = await layered.ask("queue", url=publisher.url("/a.md"))
    assert first["layer"] == "a"
    with pytest.raises(Forbidden):
        await layered.ask("queue", url=publisher.url("/a.md"), layers=["tenant"])
    other = Agent(service, tenant, ("a",), scopes=("ingest:write",))
    assert (await other.ask("queue", url=publisher.url("/a.md")))["created"], "an item of its own"
    assert (await other.ask("status"))["pending_count"] == 1
    with pytest.raises(InvalidInput, match=r"meta\.source"):
        await layered.ask("queue", url=publisher.url("/a.md"), meta={"source": "claude-code-cloud"})
    with pytest.raises(InvalidInput, match="exactly one"):
        await layered.ask("queue", url=publisher.url("/a.md"), content="x", file_name="a.md")


def test_an_address_is_asked_for_without_its_fragment_and_in_plain_letters() -> None:
    assert plain_address(" HTTPS://Example.ORG#top ") == "https://example.org/"
    assert plain_address("https://a.example/ä b?q=ü%20#x") == "https://a.example/%C3%A4%20b?q=%C3%BC%20"
    with pytest.raises(Unfetchable, match="https"):
        plain_address("https://a.example/\ud800")


async def test_fetching_leaves_time_for_accepting(reader: Agent, publisher: Publisher) -> None:
    with pytest.raises(NotFetched):
        await reader.service._fetching.fetch(
            reader.tenant, publisher.url("/a.md"), name=None, deadline=Deadline.after(0.0)
        )
