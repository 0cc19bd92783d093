"""Clients whose id is the address of their metadata: found safely, kept shortly, and missed with a reason."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import pytest_asyncio

from app.errors import OAuthError
from app.oauth.clients.budget import Budget
from app.oauth.clients.cimd import Documents
from app.oauth.clients.fetching import Fetcher
from app.oauth.clients.freshness import fresh_seconds
from app.oauth.clients.pinned import CLAUDE, CLAUDE_CODE
from app.oauth.clients.redirect import RedirectPolicy
from app.store.control import documents
from app.store.control.documents import ClientDocument, DocumentStore
from app.store.control.revocations import client_key
from app.store.database import Database
from app.store.statement import statement
from tests.oauth.conftest import Gateway, Life
from tests.oauth.publisher import Publisher

ADDRESS = "https://gw.example"
LONG_AGO = 1000.0
"""Unix seconds: whatever is removed by age or number goes before anything that other tests keep."""

KEPT = statement(
    "tests.count_documents",
    "MATCH (d:_ClientDocument) WHERE d.url CONTAINS $mark RETURN count(d) AS n",
    control=True,
)
CONSENTED = statement(
    "tests.count_consented",
    "MATCH (d:_ClientDocument {consented: true}) WHERE d.url CONTAINS $mark RETURN count(d) AS n",
    control=True,
)
UNCONSENTED = statement(
    "tests.count_unconsented", "MATCH (d:_ClientDocument) WHERE d.consented IS NULL RETURN count(d) AS n", control=True
)


class Clock:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_documents(database: Database, publisher: Publisher, clock: Clock) -> Callable[..., Documents]:
    """A replica's view of documents: nothing is shared between two of them but the database."""

    def make(**options: Any) -> Documents:
        allowed = [publisher.host]
        given = {"budget": Budget(host_burst=100, burst=100), "clock": clock, **options}
        return Documents(
            DocumentStore(database.control), Fetcher(allowed=allowed), RedirectPolicy([]), allowed=allowed, **given
        )

    return make


async def kept(database: Database, publisher: Publisher) -> int:
    rows = await database.control.read(KEPT, mark=publisher.mark)
    return int(rows[0]["n"])


async def refusal(found: Documents, url: str) -> OAuthError:
    with pytest.raises(OAuthError) as refused:
        await found.client(url, ADDRESS, fresh=True)
    return refused.value


@pytest_asyncio.fixture
async def connecting(start_gateway: Callable[..., Any], open_life: Callable[..., Any], publisher: Publisher) -> Life:
    """Someone who is about to connect a client that publishes its metadata."""
    gateway: Gateway = await start_gateway(replicas=2, reborn=True, client_document_hosts=(publisher.host,))
    life: Life = await open_life(gateway)
    url = publisher.publish("/client.json", client_uri="https://client.example")
    life.client = {"client_id": url, "redirect_uris": ["http://127.0.0.1:50123/callback"]}
    return life


async def test_a_client_without_scope_connects_by_its_address_and_gets_what_was_granted(
    connecting: Life, publisher: Publisher, database: Database
) -> None:
    page = await connecting.to_consent(scope=None)
    assert "Published client" in page.text
    assert f"<dt>Described by</dt><dd>{publisher.host}</dd>" in page.text
    answer = await connecting.exchange(connecting.returned(await connecting.answer(page))["code"])
    tokens = answer.json()
    assert "memory:read" in tokens["scope"]
    assert "admin" not in tokens["scope"]
    assert (await connecting.claims(tokens["access_token"]))["client_id"] == connecting.client["client_id"]
    publisher.documents.clear()
    again = await connecting.refresh(tokens["refresh_token"])
    assert again.status_code == 200, again.text
    assert publisher.asked["/client.json"] == 1, "each replica, born anew for each request, used the database's copy"
    rows = await database.control.read(CONSENTED, mark=publisher.mark)
    assert rows[0]["n"] == 1, "what a person consented to stays"


@pytest.mark.parametrize("document", [CLAUDE, CLAUDE_CODE])
async def test_claude_connects_without_a_fetch(
    start_gateway: Callable[..., Any], open_life: Callable[..., Any], document: Mapping[str, Any]
) -> None:
    life: Life = await open_life(await start_gateway())
    uri = document["redirect_uris"][0].replace("http://localhost/", "http://localhost:51234/")
    life.client = {"client_id": document["client_id"], "redirect_uris": [uri]}
    tokens = await life.tokens(scope=None)
    assert "memory:write" in tokens["scope"]


async def test_an_address_that_the_document_does_not_list_is_never_redirected_to(connecting: Life) -> None:
    for uri in ("http://127.0.0.1:1/other", "https://claude.ai/api/mcp/auth_callback", "http://[::1]/callback"):
        answer = await connecting.ask(redirect_uri=uri)
        assert answer.status_code == 400
        assert "location" not in answer.headers


@pytest.mark.parametrize(
    ("path", "served", "cause"),
    [
        ("/status/403", None, "403"),
        ("/status/404", None, "404"),
        ("/status/302", None, "redirects"),
        ("/endless", None, "32 KiB"),
        ("/text", "no JSON", "not valid JSON"),
        ("/deep", "[" * 20_000, "not valid JSON"),
        ("/list", [], "not a JSON object"),
        ("/other", {"client_id": "https://claude.ai/doc"}, "client_id is not the address"),
    ],
)
async def test_a_document_that_cannot_be_had_is_named_with_the_cause(
    connecting: Life, publisher: Publisher, database: Database, path: str, served: Any, cause: str
) -> None:
    if served is not None:
        publisher.documents[path] = served
    connecting.client["client_id"] = publisher.url(path)
    page = await connecting.ask()
    assert (page.status_code, "location" in page.headers) == (400, False)
    assert cause in page.text
    token = await connecting.exchange("code")
    assert (token.status_code, token.json()["error"]) == (401, "invalid_client")
    assert cause in token.json()["error_description"]
    assert await kept(database, publisher) == 0


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"client_name": None}, "client_name"),
        ({"client_name": "x" * 101}, "client_name"),
        ({"client_name": "evil\u202ename"}, "client_name"),
        ({"client_secret": "s"}, "client_secret"),
        ({"redirect_uris": None}, "redirect_uris"),
        ({"redirect_uris": []}, "redirect_uris"),
        ({"redirect_uris": ["http://127.0.0.1/"] * 21}, "redirect_uris"),
        ({"redirect_uris": ["https://evil.example/"]}, "GRAPHKEEP_REDIRECT_HOSTS"),
        ({"redirect_uris": [{"a": 1}]}, "GRAPHKEEP_REDIRECT_HOSTS"),
        ({"token_endpoint_auth_method": "client_secret_post"}, "token_endpoint_auth_method"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "jwks"),
        ({"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://169.254.169.254/"}, "jwks_uri"),
        ({"grant_types": ["client_credentials"]}, "grant_types"),
        ({"response_types": ["token"]}, "response_types"),
        ({"scope": "x" * 1001}, "scope"),
        ({"client_uri": "javascript:alert(1)"}, "client_uri"),
    ],
)
async def test_a_document_that_is_of_no_use_is_refused(
    make_documents: Callable[..., Documents], publisher: Publisher, changes: dict[str, Any], cause: str
) -> None:
    error = await refusal(make_documents(), publisher.publish("/client", **changes))
    assert error.error == "invalid_client"
    assert cause in error.description


async def test_only_the_redirect_uris_that_the_policy_allows_count(
    make_documents: Callable[..., Documents], publisher: Publisher
) -> None:
    url = publisher.publish("/mixed", redirect_uris=["https://evil.example/", "http://127.0.0.1/callback", "\ud800"])
    assert (await make_documents().client(url, ADDRESS)).redirect_uris == ("http://127.0.0.1/callback",)
    assert (await make_documents().client(url, ADDRESS)).redirect_uris == ("http://127.0.0.1/callback",)


async def test_what_is_served_as_a_page_is_no_document(
    make_documents: Callable[..., Documents], publisher: Publisher
) -> None:
    url = publisher.publish("/page")
    publisher.headers = {"Content-Type": "text/html"}
    assert "text/html" in (await refusal(make_documents(), url)).description
    publisher.headers = {"Content-Type": "application/cimd+json; charset=utf-8"}
    assert (await make_documents().client(url, ADDRESS)).name == "Published client"


async def test_a_document_is_fetched_again_when_its_headers_say_so_and_not_before(
    make_documents: Callable[..., Documents], publisher: Publisher, clock: Clock
) -> None:
    found, url = make_documents(), publisher.publish("/cached")
    publisher.headers = {"Cache-Control": "public, max-age=600"}
    await found.client(url, ADDRESS, fresh=True)
    publisher.publish("/cached", client_name="Renamed client")
    clock.now += 599
    assert (await found.client(url, ADDRESS, fresh=True)).name == "Published client"
    assert (await make_documents().client(url, ADDRESS, fresh=True)).name == "Published client"
    clock.now += 2
    assert (await found.client(url, ADDRESS)).name == "Published client", "a copy will do where nobody is asked"
    assert publisher.asked["/cached"] == 1
    assert (await found.client(url, ADDRESS, fresh=True)).name == "Renamed client"
    assert (await make_documents().client(url, ADDRESS, fresh=True)).name == "Renamed client"
    assert publisher.asked["/cached"] == 2


async def test_the_last_good_copy_serves_while_the_host_fails(
    make_documents: Callable[..., Documents], publisher: Publisher, clock: Clock
) -> None:
    url = publisher.publish("/failing")
    await make_documents().client(url, ADDRESS, fresh=True)
    clock.now += 30 * 24 * 3600
    for broken in ("no JSON", {"client_id": url}, None):
        if broken is None:
            publisher.documents.clear()
        else:
            publisher.documents["/failing"] = broken
        assert (await make_documents().client(url, ADDRESS, fresh=True)).name == "Published client"
    assert publisher.asked["/failing"] == 4


async def test_many_who_ask_at_once_cause_one_fetch_and_one_that_hangs_up_disturbs_none(
    make_documents: Callable[..., Documents], publisher: Publisher
) -> None:
    found, url = make_documents(), publisher.publish("/crowd")
    asking = [asyncio.create_task(found.client(url, ADDRESS, fresh=True)) for _ in range(20)]
    await asyncio.sleep(0)
    asking[0].cancel()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert sum(isinstance(answer, BaseException) for answer in answers) == 1
    assert publisher.asked["/crowd"] == 1


async def test_a_failure_is_remembered_for_half_a_minute(
    make_documents: Callable[..., Documents], publisher: Publisher, clock: Clock
) -> None:
    found, url = make_documents(), publisher.url("/missing")
    assert "404" in (await refusal(found, url)).description
    assert "404" in (await refusal(found, url)).description
    assert publisher.asked["/missing"] == 1
    publisher.publish("/missing")
    clock.now += 31
    assert (await found.client(url, ADDRESS, fresh=True)).name == "Published client"


async def test_a_flood_of_made_up_addresses_is_bounded_and_leaves_nothing(
    make_documents: Callable[..., Documents], publisher: Publisher, database: Database
) -> None:
    known = publisher.publish("/known")
    await make_documents().client(known, ADDRESS)
    before = publisher.asked.total()
    found = make_documents(budget=Budget())
    errors = [(await refusal(found, publisher.url(f"/made-up/{turn}"))) for turn in range(200)]
    assert publisher.asked.total() - before <= 10
    assert (errors[-1].error, errors[-1].status) == ("temporarily_unavailable", 503)
    assert await kept(database, publisher) == 1, "the good one alone"
    assert (await found.client(known, ADDRESS, fresh=True)).name == "Published client"
    assert (await found.client(known, ADDRESS)).name == "Published client"
    elsewhere = make_documents(pinned=[CLAUDE_CODE], budget=Budget(burst=0))
    assert (await elsewhere.client(CLAUDE_CODE["client_id"], ADDRESS, fresh=True)).name == "Claude Code"


async def test_documents_of_clients_that_nobody_consented_to_are_few_and_short_lived(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DocumentStore(database.control)

    async def put(name: str, fetched_at: float) -> str:
        url = f"https://crowd.example/{name}"
        await store.put(ClientDocument(client_key(url), url, {"client_id": url}, fetched_at, fetched_at + 60))
        return client_key(url)

    old = [await put(f"old-{turn}", LONG_AGO + turn) for turn in range(3)]
    count = (await database.control.read(UNCONSENTED))[0]["n"]
    monkeypatch.setattr(documents, "UNCONSENTED", count)
    new = await put("new", LONG_AGO + 10)
    assert await store.find(old[0]) is None
    assert await store.find(new) is not None
    await store.sweep(LONG_AGO + 10 + 24 * 3600 + 1)
    assert await store.find(new) is None


def test_the_budget_of_one_host_leaves_something_for_the_others() -> None:
    now = [0.0]
    budget = Budget(per_minute=60, burst=20, host_per_minute=12, host_burst=6, clock=lambda: now[0])
    assert [budget.spend("one.example") for _ in range(8)] == [True] * 6 + [False] * 2
    assert sum(budget.spend(f"{turn}.example") for turn in range(100)) == 14
    now[0] = 10
    assert sum(budget.spend("one.example") for _ in range(100)) == 2
    assert sum(budget.spend(f"{turn}.other") for turn in range(5000)) == 8


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 3600),
        ({"cache-control": "max-age=300"}, 300),
        ({"cache-control": 'public, MAX-AGE="300"'}, 300),
        ({"cache-control": "max-age=300", "age": "100"}, 200),
        ({"cache-control": "max-age=1"}, 60),
        ({"cache-control": "max-age=9999999999"}, 86400),
        ({"cache-control": "no-store"}, 60),
        ({"cache-control": "max-age=600, no-cache"}, 60),
        ({"expires": "Thu, 01 Jan 1970 00:30:00 GMT"}, 1800),
        ({"expires": "0"}, 60),
        ({"cache-control": "max-age=600", "expires": "0"}, 600),
        ({"cache-control": "max-age=x", "age": "-1"}, 3600),
    ],
)
def test_freshness_follows_the_headers_within_bounds(headers: dict[str, str], seconds: float) -> None:
    assert fresh_seconds(headers, 0.0) == seconds


async def test_a_deleted_document_client_is_unknown_until_it_is_restored(
    connecting: Life, publisher: Publisher
) -> None:
    tokens = await connecting.tokens()
    services = connecting.gateway.main
    await services.clients.delete(client_key(connecting.client["client_id"]), time.time())
    assert (await connecting.ask()).status_code == 400
    refused = await connecting.refresh(tokens["refresh_token"])
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    await services.clients.restore(client_key(connecting.client["client_id"]))
    assert (await connecting.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert await connecting.tokens()
