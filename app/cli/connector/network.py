"""The way to the gateway: name, address, certificate."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import time
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult

from app.cli.connector.report import Trouble

__all__ = ["check_certificate", "check_name", "is_local", "trust"]

SECONDS: Final = 10.0
DAY: Final = 86400.0
PUBLIC_PORT: Final = 443


def trust(*authorities: Path) -> ssl.SSLContext:
    """Trust as this machine does, and in ``authorities`` (PEM files that need not exist)."""
    context = ssl.create_default_context()
    for file in authorities:
        if file.is_file():
            context.load_verify_locations(cafile=str(file))
    return context


def is_local(host: str) -> bool:
    """Whether the name means this machine, where no connector on the internet can come."""
    return host == "localhost" or host.endswith(".localhost") or host in ("127.0.0.1", "::1")


async def check_name(url: SplitResult) -> str:
    """The name has public IPv4 addresses and no private ones.

    Raises:
        Trouble: it has none, or others.
    """
    host = url.hostname or ""
    if is_local(host):
        return f"{host} is this machine: its own programs reach it, claude.ai does not"
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    except socket.gaierror:
        raise Trouble(
            f"{host} has no IPv4 address",
            f"Give {host} an A record with the public IPv4 address of the host; claude.ai does not use IPv6.",
        ) from None
    addresses = sorted({str(entry[4][0]) for entry in found})
    private = [address for address in addresses if not ipaddress.ip_address(address).is_global]
    if private:
        raise Trouble(
            f"{host} leads to {', '.join(private)}, which is not public",
            "Let every A record of the name be a public address: connectors refuse private and mixed answers.",
        )
    return f"{host} is {', '.join(addresses)}"


async def check_certificate(url: SplitResult, context: ssl.SSLContext) -> str:
    """HTTPS with a certificate that is trusted and not about to end.

    Raises:
        Trouble: no TLS on a public name, no connection, or a certificate that is not trusted.
    """
    host = url.hostname or ""
    if url.scheme == "http":
        if is_local(host):
            return "plain HTTP, which is allowed on this machine"
        raise Trouble(
            f"{url.geturl()} is plain HTTP",
            "Use https:// (a proxy such as Caddy ends TLS before the gateway), and name it in GRAPHKEEP_PUBLIC_URLS.",
        )
    port = url.port or PUBLIC_PORT
    try:
        async with asyncio.timeout(SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context, family=socket.AF_INET)
    except ssl.SSLCertVerificationError as error:
        raise Trouble(
            f"the certificate is not trusted: {error.verify_message}",
            "Serve the whole chain of a certificate of a public authority for this name. For a local authority give "
            "its root certificate with --authority.",
        ) from error
    except ssl.SSLError as error:
        raise Trouble(
            f"no TLS: {error.reason or error}", f"Let the proxy speak HTTPS for {host} on port {port}."
        ) from error
    except (OSError, TimeoutError) as error:
        raise Trouble(
            f"nothing answers at {host}, port {port} over IPv4 ({type(error).__name__})",
            "Open the port in the firewall and let the proxy listen at the host's public IPv4 address.",
        ) from error
    try:
        return _described(writer, host, port)
    finally:
        writer.close()


def _described(writer: asyncio.StreamWriter, host: str, port: int) -> str:
    certificate = writer.get_extra_info("peercert") or {}
    version = writer.get_extra_info("ssl_object").version()
    left = (ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()) / DAY
    said = f"{version}, the certificate is trusted for another {left:.1f} days"
    if port != PUBLIC_PORT and not is_local(host):
        said += f"; port {port} is not the usual one, and some connectors reach 443 alone"
    return said
