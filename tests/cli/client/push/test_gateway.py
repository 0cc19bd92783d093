"""The client's half of tus, against a gateway that hesitates."""

from __future__ import annotations

import httpx2
import pytest

from app.cli.client.push.gateway import Gateway, Refused

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
