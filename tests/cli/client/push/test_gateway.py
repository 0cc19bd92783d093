"""The client's half of tus, against a gateway that hesitates."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from app.cli.client.push.gateway import Gateway, Refused
from app.cli.client.push.run import Options, _client
from app.errors import StartError
from tests.cli.connector.test_network import self_signed

URL = "http://localhost/ingest/uploads/1"


class Hesitating(httpx2.BaseTransport):
    """Keeps every byte that comes, and takes what is whole only when it is asked for the second time."""

    def __init__(self, length: int) -> None:
        self.kept = b""
        self.accepted = False
        self._length = length
        self._asked = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.accepted:
            return httpx2.Response(404)
        if request.method == "HEAD":
            return httpx2.Response(200, headers={"upload-offset": str(len(self.kept))})
        if int(request.headers["upload-offset"]) != len(self.kept):
            return httpx2.Response(409)
        self.kept += request.read()
        if len(self.kept) == self._length:
            self._asked += 1
            if self._asked == 1:
                return httpx2.Response(503, headers={"retry-after": "5"})
            self.accepted = True
        return httpx2.Response(204, headers={"upload-offset": str(len(self.kept))})


def test_what_has_arrived_is_not_taken_for_accepted() -> None:
    """The gateway had the last byte and no moment for the file: it is asked again, without sending it again."""
    waits: list[float] = []
    served = Hesitating(8)
    with httpx2.Client(transport=served) as client:
        gateway = Gateway(client, "http://localhost", wait=waits.append)
        assert gateway.send(URL, 0, b"four") == 4
        assert gateway.send(URL, 4, b"more") == 8
    assert (served.accepted, served.kept, waits) == (True, b"fourmore", [5.0])


@pytest.mark.parametrize(
    "named",
    ["https://localhost/ingest/uploads/1", "//evil.example/x", "http://localhost:1/x", "http://localhost@evil/x"],
)
def test_an_upload_at_another_address_gets_neither_bytes_nor_the_token(named: str) -> None:
    asked: list[httpx2.URL] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url)
        return httpx2.Response(201, headers={"location": named, "upload-offset": "0"})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client, pytest.raises(Refused, match="another"):
        Gateway(client, "http://localhost").begin({"filename": "a.md"}, 1)
    assert [str(url) for url in asked] == ["http://localhost/ingest/uploads"]


@pytest.fixture
def behind_tls(tmp_path: Path) -> Iterator[str]:
    """Where HTTPS answers with a certificate (``certificate.pem`` in ``tmp_path``) that nobody else vouches for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_certificate_that_is_not_trusted_is_named_with_what_to_do_and_not_asked_again(
    behind_tls: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHKEEP_TOKEN", "gk-1")
    waits: list[float] = []
    with (
        _client(Options(behind_tls)) as client,
        pytest.raises(StartError, match=r"certificate of .*--authority ROOT") as told,
    ):
        Gateway(client, behind_tls, wait=waits.append).known("a.md")
    assert ("SSL_CERT_FILE" in str(told.value), waits) == (True, [])
    with _client(Options(behind_tls, authority=tmp_path / "certificate.pem")) as client:
        assert Gateway(client, behind_tls, wait=waits.append).known("a.md") is None
