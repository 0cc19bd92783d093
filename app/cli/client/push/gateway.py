"""The gateway as the client sees it: what is there of a file, and tus (tus.io) for what is not."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

import httpx2

from app.cli.client.console import EX_CONFIG, EX_UNAVAILABLE
from app.errors import StartError

__all__ = ["Gateway", "Known", "Refused", "Upload"]

_ATTEMPTS: Final = 6
_LONGEST_WAIT: Final = 60.0
_BUSY: Final = frozenset({423, 429, 500, 502, 503, 504})
_TUS: Final = {"tus-resumable": "1.0.0"}


class Refused(Exception):
    """The gateway does not take this file; ``str()`` is its reason, in words."""


@dataclass(frozen=True, slots=True)
class Known:
    """The newest version of a file that the gateway has."""

    sha256: str
    size: int
    cancelled: bool = False
    """Whether somebody took it out of the queue there."""


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload that was begun: where its bytes go, and how many are there."""

    url: str
    offset: int


class Gateway:
    """Asks again while the gateway is away or busy: a laptop changes networks in the middle of a file."""

    def __init__(self, client: httpx2.Client, address: str, *, wait: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._address = address.rstrip("/")
        self._wait = wait

    def known(self, name: str, layer: str | None = None) -> Known | None:
        """What is there under this name, in ``layer`` or where the token writes.

        Raises:
            StartError: the gateway does not answer, or refuses the token.
        """
        asked = "" if layer is None else f"?layer={quote(layer, safe='')}"
        answer = self._ask("GET", f"{self._address}/ingest/{quote(name, safe='')}{asked}")
        if answer.status_code == 404:
            return None
        found = self._json(answer)
        return Known(str(found["sha256"]), int(found["size_bytes"]), found.get("state") == "cancelled")

    def begin(self, metadata: Mapping[str, str], size: int) -> Upload:
        """Begin an upload of ``size`` bytes.

        Raises:
            Refused: the gateway does not take it.
            StartError: as for ``known``.
        """
        said = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in metadata.items())
        headers = {**_TUS, "upload-length": str(size), "upload-metadata": said}
        answer = self._ask("POST", f"{self._address}/ingest/uploads", headers=headers)
        if answer.status_code != 201:
            raise Refused(_reason(answer))
        url = urljoin(f"{self._address}/", answer.headers["location"])
        if urlsplit(url)[:2] != urlsplit(self._address)[:2]:  # the token goes to no other host
            raise Refused("the gateway names an upload at another address")
        return Upload(url, int(answer.headers["upload-offset"]))

    def offset(self, url: str) -> int | None:
        """How many bytes of an upload are there; None when there is no such upload any more."""
        answer = self._ask("HEAD", url, headers=_TUS)
        return int(answer.headers["upload-offset"]) if answer.status_code == 200 else None

    def send(self, url: str, offset: int, block: bytes) -> int:
        """Send bytes from ``offset`` on; how many are there now.

        Raises:
            Refused: the gateway does not take them.
            StartError: as for ``known``.
        """
        headers = {**_TUS, "content-type": "application/offset+octet-stream"}
        end = offset + len(block)
        for _ in range(_ATTEMPTS):
            headers["upload-offset"] = str(offset)
            try:
                answer = self._client.patch(url, headers=headers, content=block)
            except httpx2.TransportError:
                there = self.offset(url)
                if there is None:  # all of it had arrived, only its answer was lost
                    return end
            else:
                if answer.status_code == 204:
                    return int(answer.headers["upload-offset"])
                if answer.status_code in _BUSY:
                    self._wait(_patience(answer))
                elif answer.status_code != 409:
                    raise Refused(_reason(answer))
                there = self.offset(url)
                if there is None:
                    raise Refused(_reason(answer))
            if not offset <= there <= end:
                return there
            # What has arrived is accepted only once its last PATCH is answered, and be it one without bytes.
            block, offset = block[there - offset :], there
        raise Refused("the gateway stayed busy; run the command again, it goes on from here")

    def end(self, url: str) -> None:
        """Let the gateway forget an upload; one that it does not know is forgotten.

        Raises:
            StartError: as for ``known``.
        """
        self._ask("DELETE", url, headers=_TUS)

    def _ask(self, method: str, url: str, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        answer = None
        for attempt in range(_ATTEMPTS):
            try:
                answer = self._client.request(method, url, headers=dict(headers or {}))
            except httpx2.TransportError as error:
                self._require_trust(error)
                self._wait(min(0.5 * 2**attempt, _LONGEST_WAIT))
                continue
            if answer.status_code in (401, 403):
                raise StartError(f"the gateway refuses this token: {_reason(answer)}", exit_code=EX_CONFIG)
            if answer.status_code not in _BUSY:
                return answer
            self._wait(_patience(answer))
        if answer is None:
            raise StartError(f"no gateway answers at {self._address}", exit_code=EX_UNAVAILABLE)
        return answer

    def _require_trust(self, error: BaseException) -> None:
        """An untrusted certificate stays one however often is asked."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            raise StartError(
                f"the certificate of {self._address} is not trusted: {cause.verify_message}. Name the root certificate "
                "of its authority with --authority ROOT, or in SSL_CERT_FILE. Nothing was sent.",
                exit_code=EX_CONFIG,
            ) from error

    def _json(self, answer: httpx2.Response) -> dict[str, Any]:
        try:
            found = answer.json() if answer.status_code == 200 else None
        except ValueError:
            found = None
        if not isinstance(found, dict) or "sha256" not in found:
            raise StartError(f"no gateway of graphkeep answers at {self._address}", exit_code=EX_UNAVAILABLE)
        return found


def _patience(answer: httpx2.Response) -> float:
    told = answer.headers.get("retry-after", "1")
    return min(float(told), _LONGEST_WAIT) if told.isascii() and told.isdigit() else 1.0


def _reason(answer: httpx2.Response) -> str:
    try:
        said = answer.json()
    except ValueError:
        said = None
    message = said.get("message") or said.get("error_description") if isinstance(said, dict) else None
    return str(message or f"HTTP {answer.status_code}")
