"""Addresses that a stranger may name: public ones alone, in whatever notation they come."""

from __future__ import annotations

import asyncio
import threading

import pytest

from app.fetching.addresses import Unfetchable, addresses_of, check_location, is_public, looking_up


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "192.0.0.8", "192.0.0.170", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1"),
        *("203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::808:808"),
        *("64:ff9b:1::1", "100::1", "2001::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "3fff::1"),
        *("fc00::1", "fd00::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2600::1%eth0"),
        *("5f00::1", "4000::1"),
        *("0177.0.0.1", "2130706433", "127.1", "localhost", ""),
    ],
)
def test_an_address_that_is_not_on_the_public_internet(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "160.79.104.10", "9.9.9.9", "2606:4700::1111", "2a00:1450:4001::200e"])
def test_an_address_on_the_public_internet(address: str) -> None:
    assert is_public(address)


def test_the_allowed_hosts_may_have_any_name_and_the_port_that_is_named() -> None:
    assert check_location("https://localhost:8443/doc", allowed=["localhost:8443"]) == ("localhost", 8443)
    assert check_location("https://intranet/doc", allowed=["intranet"]) == ("intranet", 443)
    for url in ("https://localhost:8444/doc", "https://localhost/doc", "https://other:8443/doc"):
        with pytest.raises(Unfetchable):
            check_location(url, allowed=["localhost:8443"])
    with pytest.raises(Unfetchable):
        check_location("https://intranet:8443/doc", allowed=["intranet"])


async def test_the_system_looks_a_name_up_beside_the_loop() -> None:
    assert "127.0.0.1" in await addresses_of("localhost", 443)
    with pytest.raises(OSError, match=r"."):
        await addresses_of("no-such-name.invalid", 443)
    with pytest.raises(OSError, match=r"."):
        await addresses_of("a" * 300, 443)


async def test_so_many_names_are_looked_up_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()

    def hanging(*_: object, **__: object) -> list[object]:
        held.wait(30)
        raise OSError("no such name")

    monkeypatch.setattr("app.fetching.addresses.socket.getaddrinfo", hanging)
    resolve = looking_up(1)
    first = asyncio.ensure_future(resolve("first.example", 443))
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="too many"):
        await resolve("second.example", 443)
    held.set()
    with pytest.raises(OSError, match="no such name"):
        await first
