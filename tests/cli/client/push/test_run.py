"""``graphkeep push`` against a real gateway: only what is new travels, and an interruption loses nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from app.access.service import accounts_of
from app.cli.client.place import client_folder, read_token
from app.cli.client.push import run as command
from app.cli.client.push.found import LeftOut, find
from app.cli.client.push.gateway import Gateway as Client
from app.cli.client.push.run import Options, Tally, push
from app.context import Role
from app.errors import StartError
from app.settings import IngestSettings
from app.store.database import Database
from tests.conftest import Server
from tests.gateway import Gateway, owner_token, running, settings_for
from tests.identity import fresh_email, fresh_name

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def message(number: int, text: str = "") -> str:
    said = {"role": "user", "content": text or f"message {number}"}
    about = {"type": "user", "sessionId": "talk", "cwd": "/work/atlas", "timestamp": f"2026-03-01T10:{number:02}:00Z"}
    return json.dumps({**about, "uuid": f"u{number}", "message": said}) + "\n"


@dataclass
class Device:
    """A folder as Claude Code fills it, and a gateway to send to."""

    root: Path
    gateway: Gateway
    transport: httpx2.BaseTransport | None = None

    def write(self, *messages: str) -> None:
        with (self.root / "projects" / "-work-atlas" / "talk.jsonl").open("a") as file:
            file.writelines(messages)

    async def push(self, **options: Any) -> Tally:
        chosen = Options(self.gateway.url, root=self.root, **options)

        def pushed() -> Tally:
            headers = {"authorization": f"Bearer {self.gateway.token}"}
            with httpx2.Client(headers=headers, trust_env=False, timeout=30, transport=self.transport) as client:
                return push(Client(client, chosen.address), find(self.root), chosen, progress=lambda _: None)

        return await asyncio.to_thread(pushed)

    async def read(self) -> list[str]:
        async with self.gateway.client() as client:
            said = await self.gateway.insist(client, "graph_read_transcript", session_id="talk")
        return [each["text"] for each in said["messages"]]


@pytest_asyncio.fixture(scope="module")
async def gateway(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    settings = settings_for(neo4j_server, tmp_path_factory.mktemp("home"))
    settings.ingest = IngestSettings(ingest_file_bytes=4096, ingest_transcript_bytes=4096)
    async with running(settings, await owner_token(settings, database)) as started:
        yield started


@pytest_asyncio.fixture
async def device(gateway: Gateway, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "claude" / "projects" / "-work-atlas" / "memory").mkdir(parents=True)
    token = await owner_token(gateway.settings, database)
    return Device(tmp_path / "claude", Gateway(gateway.settings, token))


async def test_only_what_is_new_travels_and_a_resumed_session_goes_on(device: Device) -> None:
    device.write(*(message(number) for number in range(3)))
    (device.root / "projects" / "-work-atlas" / "memory" / "style.md").write_text("Ann likes short names.")
    first = await device.push()
    assert (sorted(first.sent), first.failed) == (["talk.jsonl", "work-atlas--style.md"], {})
    assert await device.read() == ["message 0", "message 1", "message 2"]
    again = await device.push()
    assert (again.sent, again.unchanged, again.sent_bytes) == ([], 2, 0)
    more = message(3)
    device.write(more)
    third = await device.push()
    assert (third.sent, third.sent_bytes) == (["talk.jsonl"], len(more))
    assert await device.read() == ["message 0", "message 1", "message 2", "message 3"]


async def test_no_secret_leaves_the_device(device: Device) -> None:
    device.write(message(0), message(1, f"the token is {SECRET}, keep it"))
    tally = await device.push()
    assert tally.redacted == 1
    assert await device.read() == ["message 0", "the token is [redacted: GitHub Token], keep it"]
    assert (await device.push()).unchanged == 1


async def test_a_line_that_is_still_being_written_waits(device: Device) -> None:
    device.write(message(0), message(1)[:-20])
    await device.push()
    assert await device.read() == ["message 0"]


async def test_a_dry_run_sends_nothing(device: Device) -> None:
    device.write(message(0))
    assert (await device.push(dry_run=True)).sent == ["talk.jsonl"]
    assert (await device.push(dry_run=True)).sent == ["talk.jsonl"]


class Failing(httpx2.BaseTransport):
    """A network that goes away: ``fails(request, number of PATCH)`` says when, before or after the gateway got it."""

    def __init__(self, fails: Callable[[int], str]) -> None:
        self._real = httpx2.HTTPTransport()
        self._fails = fails
        self.patches = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "PATCH":
            return self._real.handle_request(request)
        self.patches += 1
        when = self._fails(self.patches)
        if when == "before":
            raise httpx2.ConnectError("the network is away")
        answer = self._real.handle_request(request)
        if when == "after":
            answer.read()
            answer.close()
            raise httpx2.ReadError("the answer was lost")
        return answer

    def close(self) -> None:
        self._real.close()


class Stopped(BaseException):
    """The command was stopped."""


def stops_at(patch: int) -> Callable[[int], str]:
    def stops(number: int) -> str:
        if number == patch:
            raise Stopped
        return ""

    return stops


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_network_that_goes_away_for_a_moment_costs_no_byte(
    device: Device, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr(command, "_BLOCK", 200)
    device.write(*(message(number) for number in range(8)))
    device.transport = Failing(lambda number: when if number == 3 else "")
    tally = await device.push()
    assert (tally.sent, tally.failed) == (["talk.jsonl"], {})
    assert len(await device.read()) == 8


async def stopped_in_the_middle(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transcript of which three blocks of 200 bytes have arrived."""
    monkeypatch.setattr(command, "_BLOCK", 200)
    device.write(*(message(number) for number in range(8)))
    device.transport = Failing(stops_at(4))
    with pytest.raises(Stopped):
        await device.push()
    device.transport = None


async def test_a_command_that_was_stopped_in_the_middle_goes_on_where_it_was(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stopped_in_the_middle(device, monkeypatch)
    size = (device.root / "projects" / "-work-atlas" / "talk.jsonl").stat().st_size
    tally = await device.push()
    assert (tally.sent, tally.sent_bytes) == (["talk.jsonl"], size - 3 * 200)
    assert len(await device.read()) == 8


async def test_a_session_that_grew_after_its_upload_was_interrupted_is_sent_and_leaves_nothing_behind(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stopped_in_the_middle(device, monkeypatch)
    parts = list(device.gateway.settings.run.home.glob("tenants/*/ingest/parts/*.bin"))
    assert len(parts) == 1
    device.write(message(8))
    assert (await device.push()).sent == ["talk.jsonl"]
    assert len(await device.read()) == 9
    assert not any(part.exists() for part in parts)


async def test_a_layer_is_asked_and_filled_apart_from_the_default_one(
    device: Device, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_BLOCK", 200)
    accounts = accounts_of(device.gateway.settings, database)
    made = await accounts.create_tenant(fresh_name("tenant"))
    owner, _ = await accounts.add_user(fresh_email(), made.name, Role.OWNER)
    layers = ["tenant", "work"]
    token = await accounts.create_token(owner.email, made.name, read_layers=layers, write_layers=layers)
    device.gateway = Gateway(device.gateway.settings, token.text)
    device.write(*(message(number) for number in range(8)))

    class Left(BaseException):
        pass

    def leaves(number: int) -> str:
        if number == 3:
            raise Left
        return ""

    device.transport = Failing(leaves)
    with pytest.raises(Left):
        await device.push()
    device.transport = None
    size = (device.root / "projects" / "-work-atlas" / "talk.jsonl").stat().st_size
    for options, sent in (({"layer": "work"}, size), ({}, size - 2 * 200)):
        tally = await device.push(**options)
        assert (tally.sent, tally.sent_bytes, tally.failed) == (["talk.jsonl"], sent, {})
        assert (await device.push(**options)).unchanged == 1
    async with device.gateway.client() as client:
        for layer in layers:
            known = (await client.get("/ingest/talk.jsonl", params={"layer": layer})).json()
            assert (known["layer"], known["size_bytes"]) == (layer, size)
            assert known["meta"] == {"source": "claude-code", "session_id": "talk"}


async def test_what_the_gateway_does_not_take_stops_no_other_file(device: Device) -> None:
    device.write(message(0))
    path = device.root / "projects" / "-work-atlas" / "huge.jsonl"
    path.write_text("".join(message(number % 60) for number in range(40)))
    tally = await device.push()
    assert tally.sent == ["talk.jsonl"]
    assert list(tally.failed) == ["huge.jsonl"]


async def test_what_was_cancelled_stays_away_until_it_changes_or_is_asked_for(device: Device) -> None:
    async def cancel() -> None:
        async with device.gateway.client() as client:
            (waiting,) = (await device.gateway.insist(client, "graph_ingest", action="status"))["pending"]
            await device.gateway.insist(client, "graph_ingest", action="cancel", id=waiting["id"])

    device.write(message(0))
    assert (await device.push()).sent == ["talk.jsonl"]
    await cancel()
    for _ in range(2):
        tally = await device.push()
        assert (tally.sent, tally.unchanged, tally.cancelled) == ([], 0, ["talk.jsonl"])
    (client_folder() / "sent.json").unlink()  # a device that was set up anew
    assert (await device.push()).cancelled == ["talk.jsonl"]
    assert (await device.push(again=("talk",))).sent == ["talk.jsonl"]
    assert (await device.push()).unchanged == 1
    await cancel()
    device.write(message(1))
    assert (await device.push()).sent == ["talk.jsonl"]
    assert await device.read() == ["message 0", "message 1"]


async def test_a_token_that_is_not_taken_is_said_in_words(device: Device) -> None:
    device.write(message(0))
    device.gateway = Gateway(device.gateway.settings, "not-a-token")
    with pytest.raises(StartError, match="refuses this token"):
        await device.push()


def test_the_token_comes_from_the_environment_or_a_file_that_nobody_else_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("GRAPHKEEP_TOKEN", raising=False)
    with pytest.raises(StartError, match="no token"):
        read_token()
    path = tmp_path / "graphkeep" / "token"
    path.parent.mkdir()
    path.write_text("from a file\n")
    path.chmod(0o644)
    with pytest.raises(StartError, match="others may read"):
        read_token()
    path.chmod(0o600)
    assert read_token() == "from a file"
    monkeypatch.setenv("GRAPHKEEP_TOKEN", "from the environment")
    assert read_token() == "from the environment"


def test_the_closing_lines_agree_with_their_numbers_and_name_what_was_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    passed = [LeftOut(Path(f"/x/projects/p/agent-{number}.jsonl"), "the transcript of a helper") for number in range(7)]
    command.report(Tally(sent=["talk.jsonl"], redacted=1, left_out=passed), dry_run=True)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "1 file would be sent (0.0 MB), 0 unchanged, 1 secret taken out"
    assert second.startswith(
        "left out (the transcript of a helper): projects/p/agent-0.jsonl, projects/p/agent-1.jsonl"
    )
    assert second.endswith("projects/p/agent-4.jsonl and 2 more")
