"""A model elsewhere: the OpenAI form over real HTTP, with unnormalised vectors in reversed order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Served(ThreadingHTTPServer):
    """``status`` is answered with; ``dimension`` is that of its vectors.

    ``seen`` is what was asked for: path, model, credentials; ``texts`` the texts.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.status = 200
        self.dimension = dimension
        self.patience: int | None = None
        """Texts that are still embedded before every request fails; None: all."""
        self.seen: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def takes(self, texts: list[str]) -> bool:
        if self.patience is not None:
            self.patience -= len(texts)
        if self.status != 200 or (self.patience is not None and self.patience < 0):
            return False
        self.texts += texts
        return True


class _Answering(BaseHTTPRequestHandler):
    server: Served

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        rest = [0.0] * (self.server.dimension - 2)
        rows = [
            {"index": place, "embedding": [3.0 * (1 + len(text) % 5), 4.0, *rest]}
            for place, text in enumerate(body["input"])
        ]
        self.server.seen.append((self.path, body["model"], self.headers.get("Authorization")))
        answer = json.dumps({"data": rows[::-1]}).encode()
        self.send_response(200 if self.server.takes(body["input"]) else 500)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def answering(dimension: int = 4) -> Iterator[Served]:
    """The model, until the block ends."""
    served = Served(dimension)
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield served
    finally:
        served.shutdown()
        thread.join()
        served.server_close()
