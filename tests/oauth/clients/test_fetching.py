"""Fetching what a stranger points to: nothing but the public internet, and never more than a little of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from app.fetching.addresses import Unfetchable
from app.oauth.clients.fetching import Fetcher
from tests.oauth.publisher import Publisher, make_certificates, publishing

LOOPBACK = ["127.0.0.1"]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def publisher(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Publisher]:
    async with publishing(tmp_path_factory.mktemp("publisher")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _trusted(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(publisher.authority))


class Names:
    """A name server of our own, which may change its mind."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


async def refusal(fetcher: Fetcher, url: str) -> str:
    with pytest.raises(Unfetchable) as refused:
        await fetcher.get(url)
    return refused.value.reason


@pytest.mark.parametrize(
    "url",
    [
        "http://client.example/doc",
        "https://client.example",
        "https://client.example?x=/",
        "https://user@client.example/doc",
        "https://user:pass@client.example/doc",
        "https://client.example/doc#part",
        "https://client.example/../doc",
        "https://client.example/a/./doc",
        "https://client.example/a/%2e%2E/doc",
        "https://client.example/a\\b",
        "https://client.example/a b",
        "https://client.example/ä",
        "https://CLIENT.example/doc",
        "https://client.example:8443/doc",
        "https://client.example:0/doc",
        "https://client.example:99999/doc",
        "https://client.example./doc",
        "https://client..example/doc",
        "https://localhost/doc",
        "https://intranet/doc",
        "https://127.0.0.1/doc",
        "https://127.1/doc",
        "https://2130706433/doc",
        "https://0x7f.1/doc",
        "https://[::1]/doc",
        "https://xn--/doc",
        "https:///doc",
        "https://client.example/" + "a" * 1024,
        "https://client.example/doc\n",
        "file:///etc/passwd",
    ],
)
async def test_such_an_address_is_refused_before_a_name_is_looked_up(url: str) -> None:
    names = Names(["1.1.1.1"])
    assert await refusal(Fetcher(resolve=names), url)
    assert names.asked == []


@pytest.mark.parametrize(
    "answer",
    [LOOPBACK, ["1.1.1.1", "127.0.0.1"], ["1.1.1.1", "::ffff:10.0.0.1"], ["64:ff9b::a00:1"], ["1.1.1.1"] * 17, []],
)
async def test_one_address_that_is_not_public_refuses_the_whole_answer(answer: list[str]) -> None:
    assert "address" in await refusal(Fetcher(resolve=Names(answer)), "https://client.example/doc")


async def test_a_host_is_looked_up_once_and_the_connection_goes_to_that_answer(publisher: Publisher) -> None:
    url = publisher.url("/doc", "client.example")
    publisher.documents["/doc"] = {"client_id": url}
    names = Names(LOOPBACK, ["127.0.0.2"])  # nobody listens at the second
    fetcher = Fetcher(allowed=[f"client.example:{publisher.port}"], resolve=names)
    assert json.loads((await fetcher.get(url)).body) == {"client_id": url}
    assert names.asked == ["client.example"]


async def test_the_next_address_is_tried_when_one_does_not_answer(publisher: Publisher) -> None:
    publisher.documents["/second"] = {}
    fetcher = Fetcher(allowed=[f"client.example:{publisher.port}"], resolve=Names(["127.0.0.2", "127.0.0.1"]))
    assert (await fetcher.get(publisher.url("/second", "client.example"))).body == b"{}"


async def test_a_certificate_for_another_name_is_refused(publisher: Publisher) -> None:
    fetcher = Fetcher(allowed=[f"third.example:{publisher.port}"], resolve=Names(LOOPBACK))
    assert "certificate" in await refusal(fetcher, publisher.url("/doc", "third.example"))


async def test_a_certificate_of_an_unknown_authority_is_refused(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, _ = make_certificates(tmp_path, ["localhost"])
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    assert "certificate" in await refusal(_local(publisher), publisher.url("/doc"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    assert "SSL_CERT_FILE" in await refusal(_local(publisher), publisher.url("/doc"))


def _local(publisher: Publisher, seconds: float = 30) -> Fetcher:
    return Fetcher(allowed=[publisher.host], seconds=seconds, resolve=Names(LOOPBACK))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(publisher: Publisher, status: int) -> None:
    assert "redirects" in await refusal(_local(publisher), publisher.url(f"/status/{status}"))


@pytest.mark.parametrize("status", [204, 401, 403, 404, 500])
async def test_anything_but_a_document_is_named_by_its_status(publisher: Publisher, status: int) -> None:
    assert str(status) in await refusal(_local(publisher), publisher.url(f"/status/{status}"))


@pytest.mark.parametrize("path", ["/hang", "/drip"])
async def test_a_host_that_takes_its_time_is_left(publisher: Publisher, path: str) -> None:
    async with asyncio.timeout(60):
        assert "within 1 s" in await refusal(_local(publisher, seconds=1), publisher.url(path))


async def test_more_than_32_kib_are_not_read(publisher: Publisher) -> None:
    assert "32 KiB" in await refusal(_local(publisher), publisher.url("/endless"))
    publisher.documents["/large"] = b" " * (32 * 1024 + 1)
    assert "32 KiB" in await refusal(_local(publisher), publisher.url("/large"))
    publisher.documents["/full"] = b" " * (32 * 1024)
    assert len((await _local(publisher).get(publisher.url("/full"))).body) == 32 * 1024


async def test_what_came_compressed_is_not_unpacked(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher.documents["/packed"] = b"x"
    monkeypatch.setattr(publisher, "headers", {"Content-Encoding": "gzip"})
    assert "compressed" in await refusal(_local(publisher), publisher.url("/packed"))


async def test_no_proxy_of_the_environment_is_used(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    publisher.documents["/direct"] = {}
    assert (await _local(publisher).get(publisher.url("/direct"))).body == b"{}"


async def test_a_host_that_does_not_listen_or_has_no_name_is_said_so(publisher: Publisher) -> None:
    async def nameless(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    dead = Fetcher(allowed=["client.example:9"], resolve=Names(LOOPBACK))
    assert "does not answer" in await refusal(dead, "https://client.example:9/doc")
    assert "resolved" in await refusal(Fetcher(resolve=nameless), "https://client.example/doc")
