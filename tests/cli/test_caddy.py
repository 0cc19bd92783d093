from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx2
import psutil
import pytest
import pytest_asyncio

from app.cli.dev.caddy import Caddy, caddyfile
from app.errors import StartError
from tests.ports import free_port


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / 'a "home" with spaces'
    (made / "run").mkdir(parents=True)
    return made


@pytest_asyncio.fixture
async def gateway(home: Path) -> AsyncIterator[Path]:
    """What stands in for the gateway behind its socket: it says under which name and scheme it was asked."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        told = [line for line in head.splitlines() if line.startswith(("host:", "x-forwarded-proto:"))]
        body = "|".join(sorted(told)).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    # A socket's path has 107 bytes at most (unix(7)): the folder of a test may be longer than a home.
    with tempfile.TemporaryDirectory(prefix="gk ") as folder:
        path = Path(folder) / "gateway.sock"
        server = await asyncio.start_unix_server(answer, path)
        yield path
        server.close()
        await server.wait_closed()


async def ask(port: int, authority: Path) -> httpx2.Response:
    context = ssl.create_default_context(cafile=str(authority))
    async with httpx2.AsyncClient(verify=context, trust_env=False) as client:
        return await client.get(f"https://localhost:{port}/healthz")


async def gone(process: psutil.Process) -> None:
    async with asyncio.timeout(10):
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.02)


async def test_https_reaches_the_gateways_socket_with_a_certificate_of_the_local_authority(
    home: Path, gateway: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEO4J_PASSWORD", "do-not-hand-on")
    port = free_port()
    caddy = Caddy(home=home, port=port, socket=gateway, progress=print)
    await caddy.start()
    try:
        answer = await ask(port, caddy.root_certificate)
        assert answer.text == f"host: localhost:{port}|x-forwarded-proto: https"
        process = child(home)
        assert "NEO4J_PASSWORD" not in process.environ()
        listening = {
            connection.laddr.ip for connection in process.net_connections("tcp") if connection.status == "LISTEN"
        }
        assert listening <= {"127.0.0.1", "::1"}
        ports = {
            connection.laddr.port for connection in process.net_connections("tcp") if connection.status == "LISTEN"
        }
        assert ports == {port}
        first = caddy.root_certificate.read_bytes()
    finally:
        await caddy.stop()
    await gone(process)
    again = Caddy(home=home, port=port, socket=gateway, progress=print)
    await again.start()
    try:
        assert again.root_certificate.read_bytes() == first
        assert (await ask(port, again.root_certificate)).status_code == 200
    finally:
        await again.stop()


async def test_a_caddy_left_by_a_killed_gateway_is_stopped_and_its_port_is_free(home: Path, gateway: Path) -> None:
    port = free_port()
    left = Caddy(home=home, port=port, socket=gateway, progress=print)
    await left.start()
    process = child(home)
    said: list[str] = []
    next_start = Caddy(home=home, port=port, socket=gateway, progress=said.append)
    await next_start.clear()
    await gone(process)
    assert any("left over" in line for line in said)
    await next_start.start()
    try:
        assert (await ask(port, next_start.root_certificate)).status_code == 200
    finally:
        await next_start.stop()
        await left.stop()


async def test_a_caddy_that_dies_is_started_again(home: Path, gateway: Path) -> None:
    port = free_port()
    caddy = Caddy(home=home, port=port, socket=gateway, progress=print)
    await caddy.start()
    watching = asyncio.ensure_future(caddy.watch())
    try:
        first = child(home)
        os.kill(first.pid, signal.SIGKILL)
        await gone(first)
        async with asyncio.timeout(30):
            while not await serves(port, caddy.root_certificate):  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.05)
        assert child(home).pid != first.pid
    finally:
        await caddy.stop()
        await watching


async def serves(port: int, authority: Path) -> bool:
    try:
        return (await ask(port, authority)).status_code == 200
    except httpx2.HTTPError:
        return False


async def test_a_port_that_was_taken_meanwhile_is_a_clear_failure(home: Path, gateway: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        caddy = Caddy(home=home, port=other.getsockname()[1], socket=gateway, progress=print)
        with pytest.raises(StartError, match=r"caddy\.out"):
            await caddy.start()
        await caddy.stop()


@pytest.mark.parametrize("ipv6", [True, False])
def test_the_configuration_keeps_what_streams_and_cancellation_need(
    home: Path, ipv6: bool, note_of: Callable[[str], str]
) -> None:
    text = note_of(caddyfile(home=home, port=8443, socket=home / "run" / "gateway.sock", ipv6=ipv6))
    assert "admin off" in text
    assert "skip_install_trust" in text
    assert "disable_redirects" in text
    assert "flush_interval" not in text
    assert "encode" not in text
    assert ("::1" in text) is ipv6


@pytest.fixture
def note_of() -> Callable[[str], str]:
    """The configuration without its comments."""
    return lambda text: "\n".join(line for line in text.splitlines() if not line.strip().startswith("#"))


def child(home: Path) -> psutil.Process:
    for process in psutil.Process().children(recursive=True):
        if str(home / "caddy" / "Caddyfile") in process.cmdline():
            return process
    raise AssertionError("no Caddy runs from this home")
