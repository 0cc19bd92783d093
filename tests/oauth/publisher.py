"""A host that publishes documents over TLS: by a certificate of its own authority, with every bad manner on request."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import secrets
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

NAMES = ("localhost", "client.example", "other.example")


@dataclass
class Publisher:
    """``documents`` maps a path to what is served there; a text or bytes go out as they are."""

    port: int
    authority: Path
    documents: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    """Content types by path, where it is not JSON."""
    moved: dict[str, str] = field(default_factory=dict)
    """Where a path redirects to."""
    asked: Counter[str] = field(default_factory=Counter)
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    """First part of every address: a port may have been another publisher's before, and documents are kept."""

    @property
    def host(self) -> str:
        return f"localhost:{self.port}"

    def url(self, path: str, host: str = "localhost") -> str:
        return f"https://{host}:{self.port}/{self.mark}{path}"

    def publish(self, path: str, **changes: Any) -> str:
        """A good document at ``path``, but for the changes; its address."""
        url = self.url(path)
        document = {
            "client_id": url,
            "client_name": "Published client",
            "redirect_uris": ["http://127.0.0.1/callback"],
            "token_endpoint_auth_method": "none",
            **changes,
        }
        self.documents[path] = {name: value for name, value in document.items() if value is not None}
        return url

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = request.split(" ")[1].removeprefix(f"/{self.mark}")
            self.asked[path] += 1
            await self._answer(path, writer)
        writer.close()

    async def _answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        if path.startswith("/hang"):
            await self.hanging.wait()
        elif path.startswith("/drip"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
            while not self.hanging.is_set():
                writer.write(b" ")
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.hanging.wait(), 0.1)
        elif path.startswith("/endless"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
            while not self.hanging.is_set():
                writer.write(b" " * 4096)
                await writer.drain()
        else:
            writer.write(self._complete(path))
            await writer.drain()

    def _complete(self, path: str) -> bytes:
        status = path.removeprefix("/status/")
        if status != path:
            return f"HTTP/1.1 {status} Said\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n".encode()
        if path in self.moved:
            return f"HTTP/1.1 302 Found\r\nLocation: {self.moved[path]}\r\nContent-Length: 0\r\n\r\n".encode()
        found = self.documents.get(path)
        if found is None:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        body = found if isinstance(found, bytes) else found.encode() if isinstance(found, str) else _json(found)
        headers = {
            "Content-Type": self.types.get(path, "application/json"),
            "Content-Length": str(len(body)),
            **self.headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode() + body


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


@contextlib.asynccontextmanager
async def publishing(folder: Path, names: Sequence[str] = NAMES) -> AsyncIterator[Publisher]:
    """A publisher on a port of its own, until the block ends. Its authority's certificate lies in ``folder``."""
    authority, pair = make_certificates(folder, names)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair)
    made: list[Publisher] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made[0].serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    made.append(Publisher(server.sockets[0].getsockname()[1], authority))
    try:
        yield made[0]
    finally:
        made[0].hanging.set()
        server.close()


def make_certificates(folder: Path, names: Sequence[str]) -> tuple[Path, Path]:
    """The certificate of an authority, and one that it signed with its key, for ``names`` and 127.0.0.1."""
    now = datetime.datetime.now(datetime.UTC)
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "graphkeep tests")])

    def builder(name: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(root_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    root = (
        builder(root_name, root_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(root_key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(False, False, False, False, False, True, True, False, False),
            critical=True,
        )
        .sign(root_key, hashes.SHA256())
    )
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
    leaf = (
        builder(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])]), key.public_key())
        .add_extension(
            x509.SubjectAlternativeName([*alternatives, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    authority, pair = folder / "authority.pem", folder / "pair.pem"
    authority.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    pair.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + leaf.public_bytes(serialization.Encoding.PEM)
    )
    return authority, pair
