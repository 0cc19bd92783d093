from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.cli.connector.network import check_certificate, check_name, trust
from app.cli.connector.report import Trouble
from tests.ports import free_port


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private


@asynccontextmanager
async def listening(context: ssl.SSLContext | None) -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://nothing.invalid/mcp", "A record"),
        ("https://10.0.0.5/mcp", "not public"),
        ("https://192.168.1.4/mcp", "not public"),
    ],
)
async def test_a_name_that_connectors_cannot_reach_is_refused_with_what_to_change(url: str, words: str) -> None:
    with pytest.raises(Trouble) as refused:
        await check_name(urlsplit(url))
    assert words in f"{refused.value.detail} {refused.value.remedy}"


async def test_this_machine_is_allowed_and_called_so() -> None:
    assert "claude.ai does not" in await check_name(urlsplit("http://localhost:8080/mcp"))
    assert "plain HTTP" in await check_certificate(urlsplit("http://localhost:8080/mcp"), trust())


async def test_plain_http_on_a_public_name_is_refused() -> None:
    with pytest.raises(Trouble) as refused:
        await check_certificate(urlsplit("http://memory.example.org/mcp"), trust())
    assert "https://" in refused.value.remedy


async def test_a_certificate_is_good_for_those_who_trust_its_authority_and_for_nobody_else(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with listening(context) as port:
        url = urlsplit(f"https://localhost:{port}/mcp")
        assert "trusted for another 2.0 days" in await check_certificate(url, trust(certificate))
        with pytest.raises(Trouble) as refused:
            await check_certificate(url, trust(tmp_path / "absent.pem"))
    assert "not trusted" in refused.value.detail
    assert "--authority" in refused.value.remedy


async def test_a_port_that_speaks_no_tls_or_is_closed_is_named() -> None:
    async with listening(None) as port:
        with pytest.raises(Trouble) as plain:
            await check_certificate(urlsplit(f"https://localhost:{port}/mcp"), trust())
    assert "no TLS" in plain.value.detail
    closed = free_port()
    with pytest.raises(Trouble) as refused:
        await check_certificate(urlsplit(f"https://localhost:{closed}/mcp"), trust())
    assert f"port {closed}" in refused.value.detail
