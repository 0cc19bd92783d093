"""Reading form bodies strictly: one encoding, bounded, every parameter at most once (RFC 6749 §3.2)."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from app.errors import OAuthError

__all__ = ["Parameters", "read_body", "read_form", "read_query"]

FORM: Final = "application/x-www-form-urlencoded"
MAX_BODY: Final = 64 * 1024
MAX_FIELDS: Final = 200


class Parameters:
    """Decoded parameters. A repeated one counts as an error where it is read as single."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def many(self, name: str) -> list[str]:
        """All values of ``name``, in order, empty ones left out (RFC 6749 §3.1: empty means absent)."""
        return [value for value in self._values.get(name, []) if value]

    def one(self, name: str) -> str | None:
        """The value of ``name``, None when absent or empty.

        Raises:
            OAuthError: invalid_request, it was sent more than once.
        """
        values = self._values.get(name, [])
        if len(values) > 1:
            raise OAuthError("invalid_request", f"{_shown(name)} was sent more than once")
        return values[0] or None if values else None

    def required(self, name: str) -> str:
        """The value of ``name``.

        Raises:
            OAuthError: invalid_request, it is absent, empty or repeated.
        """
        value = self.one(name)
        if value is None:
            raise OAuthError("invalid_request", f"{_shown(name)} is missing")
        return value


def _shown(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else "a parameter"


async def read_body(request: Request) -> bytes:
    """The body, at most 64 KiB.

    Raises:
        OAuthError: invalid_request with status 413, it is larger.
    """
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY:
            raise OAuthError("invalid_request", "the body is larger than 64 KiB", status=413)
        parts.append(part)
    return b"".join(parts)


async def read_form(request: Request) -> Parameters:
    """The parameters of a form body.

    Raises:
        OAuthError: invalid_request, another content type, too large or not decodable.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != FORM:
        raise OAuthError("invalid_request", f"the body must be {FORM}")
    return _parse(await read_body(request))


def read_query(request: Request) -> Parameters:
    """The parameters of the query.

    Raises:
        OAuthError: invalid_request, not decodable.
    """
    query: bytes = request.scope.get("query_string", b"")
    return _parse(query)


def _parse(raw: bytes) -> Parameters:
    try:
        text = raw.decode("ascii") if raw.isascii() else raw.decode("utf-8")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise OAuthError("invalid_request", "the parameters are not decodable UTF-8, or too many") from error
    return Parameters(pairs)
