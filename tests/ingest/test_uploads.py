"""Uploads through the whole gateway: who may, how large, resumed, checked, and never half."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import httpx2
import pytest
import pytest_asyncio
import structlog

from app.access.service import accounts_of
from app.console.routes import TABLE
from app.context import NO_RULES, Role, TenantRules
from app.edge import body_limit
from app.ingest.files import Files
from app.ingest.http import routes
from app.ingest.service import IngestService
from app.ingest.tus import OPEN
from app.settings import IngestSettings
from app.store.control.queue import QueueStore
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database
from tests.conftest import Server
from tests.gateway import Gateway, owner_token, running, settings_for
from tests.identity import fresh_email, fresh_name

LIMIT = 8 * 1024 * 1024
TUS = {"Tus-Resumable": "1.0.0"}
PATCH = {**TUS, "Content-Type": "application/offset+octet-stream"}


@pytest_asyncio.fixture(scope="module")
async def gateway(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    settings = settings_for(neo4j_server, tmp_path_factory.mktemp("gk"))
    settings.ingest = IngestSettings(ingest_file_bytes=LIMIT, ingest_transcript_bytes=2 * LIMIT)
    async with running(settings, await owner_token(settings, database)) as found:
        yield found


class Patient(httpx2.AsyncHTTPTransport):
    """Asks again while a busy machine turns requests away before it reads them, as clients should."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        async with asyncio.timeout(60):
            while True:
                answer = await super().handle_async_request(request)
                if answer.status_code != 503 or not isinstance(request.stream, httpx2.ByteStream):
                    return answer
                await answer.aclose()
                await asyncio.sleep(0.2)


def patient(gateway: Gateway, token: str | None = None) -> httpx2.AsyncClient:
    return gateway.client(token, transport=Patient())


@pytest_asyncio.fixture
async def client(gateway: Gateway) -> AsyncIterator[httpx2.AsyncClient]:
    async with patient(gateway) as made:
        yield made


def metadata(**said: str) -> str:
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in said.items())


async def begin(client: httpx2.AsyncClient, length: int, **said: str) -> httpx2.Response:
    head = {**TUS, "Upload-Length": str(length), "Upload-Metadata": metadata(**said)}
    return await client.post("/ingest/uploads", headers=head)


async def patch(client: httpx2.AsyncClient, path: str, offset: int, content: bytes) -> httpx2.Response:
    return await client.patch(path, headers={**PATCH, "Upload-Offset": str(offset)}, content=content)


def stored(gateway: Gateway) -> list[Path]:
    return [path for path in (gateway.settings.run.folder / "tenants").rglob("*") if path.is_file()]


async def test_a_file_is_put_checked_and_the_same_again_is_the_same(
    gateway: Gateway, client: httpx2.AsyncClient
) -> None:
    content = b"# Notes\nAda leads Apollo.\n"
    digest = hashlib.sha256(content)
    head = {"Repr-Digest": f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"}
    answer = await client.put("/ingest/notes.md", content=content, headers=head, params={"author": "Ada"})
    said = answer.json()
    assert (answer.status_code, said["ok"], said["state"], said["created"]) == (201, True, "pending", True)
    assert said["sha256"] == digest.hexdigest()
    again = await client.put(
        "/ingest/notes.md", content=content, headers={"X-Content-SHA256": digest.hexdigest().upper()}
    )
    assert (again.status_code, again.json()["id"], again.json()["created"]) == (200, said["id"], False)
    read = await gateway.insist(client, "graph_ingest", action="read", id=said["id"])
    assert read["text"] == content.decode()
    known = (await client.get("/ingest/notes.md")).json()
    assert (known["sha256"], known["meta"]) == (digest.hexdigest(), {"author": "Ada"})
    tenants = gateway.settings.run.folder / "tenants"
    assert {path.stat().st_mode & 0o077 for path in [tenants, *tenants.rglob("*")]} == {0}


@pytest.mark.parametrize(
    ("head", "status", "reason"),
    [
        ({"X-Content-SHA256": "00" * 32}, 422, "checksum_mismatch"),
        ({"Content-Digest": "sha-256=:AAAA:"}, 422, "checksum_mismatch"),
        ({"Content-Digest": "sha-256=:?:"}, 400, "invalid_input"),
    ],
)
async def test_what_is_not_what_the_sender_says_is_not_stored(
    gateway: Gateway, client: httpx2.AsyncClient, head: dict[str, str], status: int, reason: str
) -> None:
    before = len(stored(gateway))
    answer = await client.put("/ingest/wrong.md", content=b"content", headers=head)
    assert (answer.status_code, answer.json()["reason"], answer.json()["ok"]) == (status, reason, False)
    assert "Nothing was stored" in answer.json()["message"]
    assert answer.json()["retryable"] is ("send it again" in answer.json()["message"])
    assert len(stored(gateway)) == before


@pytest.mark.parametrize(
    "path",
    ["/ingest/..%2Fa.md", "/ingest/a%00.md", "/ingest/a.exe", "/ingest/con.md", "/ingest/%2e%2e", "/ingest/a%5Cb.md"],
)
async def test_names_that_lead_elsewhere_are_refused(gateway: Gateway, client: httpx2.AsyncClient, path: str) -> None:
    before = len(stored(gateway))
    answer = await client.put(path, content=b"x")
    assert answer.status_code in {400, 404}
    assert len(stored(gateway)) == before


async def test_a_form_brings_several_files_or_none(gateway: Gateway, client: httpx2.AsyncClient) -> None:
    files = [("file", ("one.md", b"first")), ("file", ("two.txt", b"second" * 100_000))]
    answer = await client.post("/ingest", files=files, data={"meta": '{"source": "mail"}', "layer": "tenant"})
    assert answer.status_code == 201, answer.text
    assert [(item["file"], item["meta_written"]) for item in answer.json()["items"]] == [
        ("one.md", True),
        ("two.txt", True),
    ]
    before = len(stored(gateway))
    for bad in ([*files[:1], ("file", ("bad.exe", b"x"))], [("file", ("a" * 300 + ".md", b"x"))]):
        refused = await client.post("/ingest", files=bad)
        assert (refused.status_code, refused.json()["reason"]) == (400, "invalid_input")
    cut = b'--b\r\nContent-Disposition: form-data; name="file"; filename="cut.md"\r\n\r\nno end'
    for body, kind in ((cut, "multipart/form-data; boundary=b"), (b"x", "multipart/form-data"), (b"x", "text/plain")):
        assert (await client.post("/ingest", content=body, headers={"Content-Type": kind})).status_code == 400
    many = [("file", (f"{number}.md", b"x")) for number in range(21)]
    assert (await client.post("/ingest", files=many)).status_code == 400
    assert (await client.post("/ingest", data={"meta": "no json"}, files=files[:1])).status_code == 400
    assert len(stored(gateway)) == before


async def test_the_largest_file_passes_and_a_larger_one_does_not(gateway: Gateway, client: httpx2.AsyncClient) -> None:
    """The edge must not cut uploads at the 4 MiB of other bodies."""
    answer = await client.put("/ingest/large.txt", content=b"x" * LIMIT)
    assert answer.status_code == 201, answer.text
    before = len(stored(gateway))

    async def streamed() -> AsyncIterator[bytes]:
        for _ in range(LIMIT // 65536 + 1):
            yield b"y" * 65536

    for content in (b"y" * (LIMIT + 1), streamed()):
        refused = await client.put("/ingest/larger.jsonl", content=content)
        assert refused.status_code == 413
        assert all(word in refused.json()["message"] for word in ("GRAPHKEEP_INGEST_FILE_BYTES", "/ingest/uploads"))
    assert len(stored(gateway)) == before


async def test_without_a_token_it_challenges_before_a_byte_is_read(gateway: Gateway) -> None:
    """W-M08: no body is taken from somebody unknown."""
    for line in ("PUT /ingest/a.md", "POST /ingest", "POST /ingest/uploads", "PATCH /ingest/uploads/x"):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.settings.run.http_port)
        host = f"localhost:{gateway.settings.run.http_port}"
        writer.write(f"{line} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100000\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        writer.close()
        assert b" 401 " in answer.splitlines()[0]
        assert b"resource_metadata=" in answer


async def test_scope_role_and_layer_decide_as_for_a_call(gateway: Gateway, database: Database) -> None:
    accounts = accounts_of(gateway.settings, database)
    tenant = await accounts.create_tenant(fresh_name("tenant"))
    owner, _ = await accounts.add_user(fresh_email(), tenant.name, Role.OWNER)
    reader, _ = await accounts.add_user(fresh_email(), tenant.name, Role.READER)
    less = await accounts.create_token(owner.email, tenant.name, scopes=["memory:read", "memory:write"])
    reads = await accounts.create_token(reader.email, tenant.name)
    for token, reason in ((less, "insufficient_scope"), (reads, "forbidden")):
        async with patient(gateway, token.text) as client:
            answer = await client.put("/ingest/a.md", content=b"x")
            assert (answer.status_code, answer.json()["reason"]) == (403, reason)
            assert ("ingest:write" in answer.headers.get("www-authenticate", "")) == (reason == "insufficient_scope")
    whole = await accounts.create_token(
        owner.email, tenant.name, read_layers=["tenant", "work"], write_layers=["work", "tenant"]
    )
    async with patient(gateway, whole.text) as client:
        assert (await client.put("/ingest/a.md", content=b"x")).json()["layer"] == "work"
        assert (await client.put("/ingest/a.md", content=b"x", params={"layer": "tenant"})).json()["layer"] == "tenant"
        refused = await client.put("/ingest/a.md", content=b"x", params={"layer": "other"})
        assert (refused.status_code, refused.json()["reason"]) == (403, "forbidden")
        assert (await client.put("/ingest/a.md", content=b"x", params={"colour": "red"})).status_code == 400


async def test_an_upload_that_was_cut_goes_on_where_it_ended(gateway: Gateway, client: httpx2.AsyncClient) -> None:
    content = bytes(range(256)) * 4096
    served = await client.options("/ingest/uploads")
    assert served.headers["tus-extension"] == "creation,termination"
    assert served.headers["tus-max-size"] == str(2 * LIMIT)
    digest = hashlib.sha256(content).hexdigest()
    begun = await begin(client, len(content), filename="big.txt", sha256=digest, meta='{"source": "push"}')
    assert begun.status_code == 201, begun.text
    path = begun.headers["location"]
    await _cut(gateway, path, content[:300_000])
    async with asyncio.timeout(10):
        while (offset := int((await client.head(path, headers=TUS)).headers["upload-offset"])) != 300_000:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (await patch(client, path, 5, b"x")).status_code == 409
    more = await patch(client, path, offset, content[offset:900_000])
    assert (more.status_code, more.headers["upload-offset"]) == (204, "900000")
    assert (await patch(client, path, 900_000, content[900_000:] + b"too many")).status_code == 400
    offset = int((await client.head(path, headers=TUS)).headers["upload-offset"])
    done = await patch(client, path, offset, content[offset:])
    assert (done.status_code, done.headers["graphkeep-state"]) == (204, "pending")
    assert (await client.head(path, headers=TUS)).status_code == 404
    known = (await client.get("/ingest/big.txt")).json()
    assert (known["id"], known["sha256"]) == (done.headers["graphkeep-item"], digest)


async def _cut(gateway: Gateway, path: str, content: bytes) -> None:
    """Send a part of what was announced, and hang up."""
    port = gateway.settings.run.http_port
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    head = {**PATCH, "Upload-Offset": "0", "Host": f"localhost:{port}", "Content-Length": "1048576"}
    head["Authorization"] = f"Bearer {gateway.token}"
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    writer.write(f"PATCH {path} HTTP/1.1\r\n{lines}\r\n".encode() + content)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("state", [TenantState.SUSPENDED, None])
async def test_what_began_before_its_tenant_was_frozen_or_erased_is_not_accepted_after_it(
    gateway: Gateway, database: Database, state: TenantState | None
) -> None:
    """Fault 29: a slow upload would come back after the erasure."""
    made, token = await _tenant(gateway, database)
    folder = gateway.settings.run.folder / "tenants" / made.data

    async def slowly() -> AsyncIterator[bytes]:
        yield b"# Notes"
        await _until(lambda: any(folder.glob("ingest/parts/*.new")))
        if state is None:
            async with database.driver.session(database=database.name) as session:
                await (await session.run("MATCH (t:_Tenant {id: $id}) DETACH DELETE t", id=made.id)).consume()
        else:
            await Tenants(database.control).set_state(made.id, state)
        yield b" of Ada"

    async with patient(gateway, token) as client:
        answer = await _insisted(lambda: client.put("/ingest/late.md", content=slowly()))
    said = answer.json()
    assert (answer.status_code, said["reason"], said["retryable"]) == (503, "overloaded", True)
    assert "try again in a few seconds" in said["message"]
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert (await QueueStore(database.control).usage(made.data)).files == 0


async def test_an_upload_that_became_whole_while_its_tenant_was_moved_is_accepted_afterwards(
    gateway: Gateway, database: Database
) -> None:
    made, token = await _tenant(gateway, database)
    parts = gateway.settings.run.folder / "tenants" / made.data / "ingest" / "parts"
    half = b"x" * 600_000

    async def slowly() -> AsyncIterator[bytes]:
        yield half
        await _until(lambda: any(path.stat().st_size for path in parts.glob("*.bin")))
        await Tenants(database.control).set_state(made.id, TenantState.MOVING)
        yield half

    async with patient(gateway, token) as client:
        path = (await begin(client, 1_200_000, filename="late.txt")).headers["location"]
        head = {**PATCH, "Upload-Offset": "0"}
        refused = await _insisted(lambda: client.patch(path, headers=head, content=slowly()))
        assert (refused.status_code, refused.json()["retryable"]) == (503, True)
        assert (await QueueStore(database.control).usage(made.data)).files == 0
        await Tenants(database.control).set_state(made.id, TenantState.ACTIVE)
        assert (await patch(client, path, 1_200_000, b"")).headers["graphkeep-state"] == "pending"


async def _insisted(ask: Callable[[], Awaitable[httpx2.Response]]) -> httpx2.Response:
    """Ask again when a busy machine turned a request away before it read what comes slowly."""
    for _ in range(5):
        with contextlib.suppress(TimeoutError, httpx2.TransportError):
            return await ask()
    raise AssertionError("the gateway stayed busy")


async def _tenant(gateway: Gateway, database: Database, rules: TenantRules = NO_RULES) -> tuple[Tenant, str]:
    """A tenant, and the token of its owner."""
    accounts = accounts_of(gateway.settings, database)
    made = await accounts.create_tenant(fresh_name("tenant"))
    await Tenants(database.control).set_rules(made.id, rules)
    owner, _ = await accounts.add_user(fresh_email(), made.name, Role.OWNER)
    return made, (await accounts.create_token(owner.email, made.name)).text


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_uploads_that_trickle_leave_their_places_to_who_sends(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two members could hold all places of their tenant by a byte now and then, for ten minutes each."""
    accounts = accounts_of(gateway.settings, database)
    made, token = await _tenant(gateway, database)
    member, _ = await accounts.add_user(fresh_email(), made.name, Role.MEMBER)
    other, _ = await accounts.add_user(fresh_email(), made.name, Role.MEMBER)
    tokens = [token, (await accounts.create_token(member.email, made.name)).text]
    honest = (await accounts.create_token(other.email, made.name)).text
    parts = gateway.settings.run.folder / "tenants" / made.data / "ingest" / "parts"

    async with asyncio.TaskGroup() as group:
        trickling = [group.create_task(_trickle(gateway, each, f"{n}.md")) for each in tokens for n in range(2)]
        await _until(lambda: len(list(parts.glob("*.new"))) == len(trickling))
        async with gateway.client(honest) as sends:
            assert (await sends.put("/ingest/c.md", content=b"x")).status_code == 503
        monkeypatch.setattr(body_limit, "RATED_SECONDS", 0.3)
        async with patient(gateway, honest) as sends:
            assert (await sends.put("/ingest/c.md", content=b"x")).status_code == 201
    assert all(b" 408 " in trickled.result() for trickled in trickling)


async def _trickle(gateway: Gateway, token: str, name: str) -> bytes:
    """Send a byte now and then until there is an answer; its first line."""
    port = gateway.settings.run.http_port
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = {"Host": f"localhost:{port}", "Content-Length": "1048576", "Authorization": f"Bearer {token}"}
        lines = "".join(f"{key}: {value}\r\n" for key, value in head.items())
        writer.write(f"PUT /ingest/{name} HTTP/1.1\r\n{lines}\r\n".encode())
        answering = asyncio.create_task(reader.readline())
        while not answering.done():
            writer.write(b"x")
            await asyncio.wait({answering}, timeout=0.05)
        writer.close()
        if not re.match(rb"HTTP/1.1 (429|503) ", answering.result()):
            return answering.result()
        await asyncio.sleep(0.5)  # the machine was busy


async def test_only_the_rest_of_a_transcript_is_sent(client: httpx2.AsyncClient) -> None:
    """`continues`: a session that went on costs its new lines alone."""
    old = b'{"type":"user","sessionId":"s","message":{"content":"one"}}\n'
    new = b'{"type":"user","sessionId":"s","message":{"content":"two"}}\n'
    await client.put("/ingest/session-1.jsonl", content=old)
    said = {"filename": "session-1.jsonl", "continues": hashlib.sha256(old).hexdigest()}
    said["sha256"] = hashlib.sha256(old + new).hexdigest()
    begun = await begin(client, len(old + new), **said)
    assert (begun.status_code, begun.headers["upload-offset"]) == (201, str(len(old)))
    assert (await patch(client, begun.headers["location"], len(old), new)).status_code == 204
    assert (await client.get("/ingest/session-1.jsonl")).json()["size_bytes"] == len(old + new)
    unknown = await begin(client, 100, filename="session-1.jsonl", continues="00" * 32)
    assert unknown.headers["upload-offset"] == "0"


async def test_what_others_send_under_a_name_stands_before_nothing_of_ones_own(
    gateway: Gateway, database: Database
) -> None:
    accounts = accounts_of(gateway.settings, database)
    made, token = await _tenant(gateway, database)
    member, _ = await accounts.add_user(fresh_email(), made.name, Role.MEMBER)
    beside = await accounts.create_token(member.email, made.name)
    mine, others = (
        f'{{"type":"user","sessionId":"s","message":{{"content":"{text}"}}}}\n'.encode() for text in ("one", "other")
    )
    async with patient(gateway, token) as owner, patient(gateway, beside.text) as second:
        await owner.put("/ingest/s.jsonl", content=mine)
        assert (await second.get("/ingest/s.jsonl")).json()["size_bytes"] == len(mine), "it sent none itself"
        await second.put("/ingest/s.jsonl", content=others)
        for client, sent in ((owner, mine), (second, others)):
            digest = hashlib.sha256(sent).hexdigest()
            assert (await client.get("/ingest/s.jsonl")).json()["sha256"] == digest
            begun = await begin(client, len(sent) + 1, filename="s.jsonl", continues=digest)
            assert begun.headers["upload-offset"] == str(len(sent))


async def test_one_senders_uploads_neither_hold_up_nor_open_anothers(gateway: Gateway, database: Database) -> None:
    accounts = accounts_of(gateway.settings, database)
    made, token = await _tenant(gateway, database)
    member, _ = await accounts.add_user(fresh_email(), made.name, Role.MEMBER)
    device = await accounts.create_token(member.email, made.name, scopes=["ingest:write"])
    said = b'{"type":"user","sessionId":"s","message":{"content":"one"}}\n'
    async with patient(gateway, token) as owner, patient(gateway, device.text) as sends:
        await owner.put("/ingest/s.jsonl", content=said)
        theirs = (await begin(owner, 9, filename="a.md")).headers["location"]
        digest = hashlib.sha256(said).hexdigest()
        taken = await begin(sends, len(said) + 1, filename="s.jsonl", continues=digest)
        assert taken.headers["upload-offset"] == "0"
        begun = [taken.headers["location"]]
        begun += [(await begin(sends, 9, filename="a.md")).headers["location"] for _ in range(OPEN)]
        assert (await sends.head(begun[0], headers=TUS)).status_code == 404
        for path, client in ((begun[1], sends), (begun[-1], sends), (theirs, owner)):
            assert (await client.head(path, headers=TUS)).headers["upload-offset"] == "0"
        await asyncio.gather(*(begin(sends, 9, filename="a.md") for _ in range(OPEN + 5)))
        under_way = list((gateway.settings.run.folder / "tenants" / made.data / "ingest/parts").glob("*.json"))
        assert len(under_way) == OPEN + 1, "those that begin at once are counted too"
        assert (await owner.head(theirs, headers=TUS)).status_code == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ({}, 412),
        ({**TUS}, 400),
        ({**TUS, "Upload-Length": "-1"}, 400),
        ({**TUS, "Upload-Length": "\xb2".encode("latin-1")}, 400),
        ({**TUS, "Upload-Length": str(LIMIT + 1), "Upload-Metadata": metadata(filename="x.md")}, 413),
        ({**TUS, "Upload-Length": str(2 * LIMIT + 1), "Upload-Metadata": metadata(filename="x.jsonl")}, 413),
        ({**TUS, "Upload-Length": "5"}, 400),
        ({**TUS, "Upload-Length": "5", "Upload-Metadata": "filename ???"}, 400),
        ({**TUS, "Upload-Length": "5", "Upload-Metadata": metadata(filename="../x.md")}, 400),
        ({**TUS, "Upload-Length": "5", "Upload-Metadata": metadata(filename="x.md", layer="other")}, 403),
        ({**TUS, "Upload-Length": "5", "Upload-Metadata": metadata(filename="x.md", meta='{"a": 1}')}, 400),
    ],
)
async def test_an_upload_that_cannot_be_begun_says_why(
    client: httpx2.AsyncClient, head: dict[str, str | bytes], status: int
) -> None:
    raw = {name.encode(): value if isinstance(value, bytes) else value.encode() for name, value in head.items()}
    answer = await client.post("/ingest/uploads", headers=raw)
    assert answer.status_code == status
    assert answer.json()["ok"] is False


async def test_a_transcript_may_be_longer_than_other_files(client: httpx2.AsyncClient) -> None:
    refused = await begin(client, 2 * LIMIT + 1, filename="long-session.jsonl")
    assert "GRAPHKEEP_INGEST_TRANSCRIPT_BYTES" in refused.json()["message"]
    begun = await begin(client, 2 * LIMIT, filename="long-session.jsonl")
    assert begun.status_code == 201
    assert (await client.delete(begun.headers["location"], headers=TUS)).status_code == 204


async def test_uploads_are_ended_checked_and_belong_to_who_began_them(
    gateway: Gateway, client: httpx2.AsyncClient, database: Database
) -> None:
    accounts = accounts_of(gateway.settings, database)
    made, token = await _tenant(gateway, database)
    member, _ = await accounts.add_user(fresh_email(), made.name, Role.MEMBER)
    beside = (await accounts.create_token(member.email, made.name)).text
    async with patient(gateway, token) as first:
        theirs = (await begin(first, 4, filename="a.md")).headers["location"]
    path = (await begin(client, 4, filename="a.md")).headers["location"]
    for stranger, found in ((token, path), (beside, theirs), (beside, path)):
        async with patient(gateway, stranger) as other:
            for answer in (
                await other.head(found, headers=TUS),
                await patch(other, found, 0, b"evil"),
                await other.delete(found, headers=TUS),
            ):
                assert answer.status_code == 404
    assert (await client.head(path, headers=TUS)).headers["upload-offset"] == "0"
    assert (await client.patch(path, headers={**TUS, "Upload-Offset": "0"}, content=b"x")).status_code == 415
    assert (await client.delete(path, headers=TUS)).status_code == 204
    assert (await patch(client, path, 0, b"late")).status_code == 404
    slow = (await begin(client, 4, filename="slow.md")).headers["location"]
    for part in (gateway.settings.run.folder / "tenants").glob(f"*/ingest/parts/{slow.rpartition('/')[2]}.*"):
        os.utime(part, (1.0, 1.0))
    await patch(client, slow, 0, b"ab")
    Files(gateway.settings.run.folder, limit=LIMIT).sweep_parts(seconds=3600)  # nobody ends what still grows
    assert (await client.head(slow, headers=TUS)).headers["upload-offset"] == "2"
    wrong = (await begin(client, 4, filename="a.md", sha256="00" * 32)).headers["location"]
    refused = await patch(client, wrong, 0, b"abcd")
    assert (refused.status_code, refused.json()["reason"]) == (422, "checksum_mismatch")
    assert (await client.head(wrong, headers=TUS)).status_code == 404


@pytest.mark.shows("graph_ingest", 15)
async def test_two_megabytes_pass_inside_a_call(gateway: Gateway, client: httpx2.AsyncClient) -> None:
    content = '"\n' * (1024 * 1024)
    said = await gateway.insist(client, "graph_ingest", action="queue", file_name="whole.txt", content=content)
    assert (said["ok"], said["size_bytes"]) == (True, 2 * 1024 * 1024)
    more = await gateway.insist(client, "graph_ingest", action="queue", file_name="more.txt", content=content + "x")
    assert (more["ok"], more["reason"], more["field"]) == (False, "invalid_input", "content")


PATHS = sorted(
    {
        *(route.path for route in routes(cast("IngestService", None)) if "{" in route.path),
        *(entry.path for entry in TABLE if "{" in entry.path),
        *("/exports/{name}", "/ingest/{name}/{name}", "/mcp/{name}", "/.well-known/{name}", "/{name}", "/{name}/x"),
    }
)
"""Every declared path with a parameter, and where a name can stand beside them."""


async def test_no_name_that_a_person_gave_reaches_the_log(gateway: Gateway, client: httpx2.AsyncClient) -> None:
    """The name of a file says what somebody works on: of each path its route is logged, and no more."""
    with structlog.testing.capture_logs() as lines:
        async with gateway.client("no token", transport=Patient()) as stranger:
            for path in PATHS:
                named = re.sub(r"\{[^}]*\}", "my-secret-plan.md", path)
                for caller, method in ((client, "GET"), (client, "PUT"), (stranger, "GET")):
                    await caller.request(method, named, headers=TUS, content=b"x" if method == "PUT" else None)
    logged = [line for line in lines if line["event"] == "request"]
    assert len(logged) >= 3 * len(PATHS)
    assert "secret-plan" not in repr(lines)
    assert {"/ingest/{name}", "/ingest/uploads/{upload}", "/exports/…", "/other/…"} <= {line["path"] for line in logged}


async def test_uploads_spend_tokens(gateway: Gateway, database: Database) -> None:
    made, token = await _tenant(gateway, database, TenantRules(calls_per_minute=1, burst=2))
    statuses: list[int] = []
    async with patient(gateway, token) as client, asyncio.timeout(30):
        while 429 not in statuses:  # the rules are followed within seconds
            answer = await client.put(f"/ingest/{len(statuses)}.md", content=b"x")
            statuses.append(answer.status_code)
    assert set(statuses[:-1]) == {201}
    assert answer.json()["reason"] == "rate_limited"
    assert int(answer.headers["retry-after"]) >= 1
    assert (await QueueStore(database.control).usage(made.data)).files == len(statuses) - 1
