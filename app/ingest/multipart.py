"""A form with files, written to the disk as it arrives (RFC 7578)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.errors import InvalidInput
from app.ingest.files import Staged

__all__ = ["Multipart"]

HEADERS: Final = 8 * 1024
FIELD: Final = 16 * 1024
FIELDS: Final = 10


class _Part:
    """One part: a file, or a short field."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.name = ""
        self.file: str | None = None
        self.staged: Staged | None = None
        self.value = bytearray()


class Multipart:
    """``files`` are (name, staged file) in the order of the form, ``fields`` its other parts by name."""

    def __init__(self, content_type: str, *, files: int) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not 1 <= len(boundary) <= 200:
            raise InvalidInput("POST /ingest takes multipart/form-data with a boundary. Nothing was stored.")
        self.files: list[tuple[str, Staged]] = []
        self.fields: dict[str, str] = {}
        self._most = files
        self._stage: Callable[[], Staged] | None = None
        self._events: list[tuple[str, bytes]] = []
        self._part: _Part | None = None
        self._header = bytearray()
        self._value = bytearray()
        self._ended = False
        self._parts = 0
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": lambda: self._note("begin"),
                "on_header_field": lambda data, start, end: self._note("field", data[start:end]),
                "on_header_value": lambda data, start, end: self._note("value", data[start:end]),
                "on_header_end": lambda: self._note("header"),
                "on_headers_finished": lambda: self._note("headers"),
                "on_part_data": lambda data, start, end: self._note("data", data[start:end]),
                "on_part_end": lambda: self._note("part"),
                "on_end": lambda: self._note("end"),
            },
        )

    @asynccontextmanager
    async def into(self, stage: Callable[[], Staged]) -> AsyncIterator[None]:
        """Take the form in; what was not used up at the end is removed."""
        self._stage = stage
        try:
            yield
        finally:
            if self._part is not None and self._part.staged is not None:
                self._part.staged.discard()
            for _, staged in self.files:
                staged.discard()

    async def feed(self, chunk: bytes) -> None:
        """The next bytes of the body.

        Raises:
            InvalidInput: they are no such form. TooLargeFile: a file has too many.
        """
        try:
            self._parser.write(chunk)
        except FormParserError:
            raise InvalidInput("the form could not be read. Nothing was stored.") from None
        events, self._events = self._events, []
        for kind, data in events:
            await self._follow(kind, data)

    def end(self) -> None:
        """The body is over.

        Raises:
            InvalidInput: the form is not.
        """
        if not self._ended:
            raise InvalidInput("the form ends too early. Nothing was stored.")

    def _note(self, kind: str, data: bytes = b"") -> None:
        self._events.append((kind, bytes(data)))

    async def _follow(self, kind: str, data: bytes) -> None:
        if kind == "end":
            self._ended = True
        elif kind == "begin":
            self._parts += 1
            if self._parts > self._most + FIELDS:
                raise InvalidInput(f"a form has at most {self._most} files and {FIELDS} fields. Nothing was stored.")
            self._part = _Part()
        elif self._part is None:
            return
        elif kind == "data":
            await self._data(self._part, data)
        elif kind == "part":
            self._close(self._part)
            self._part = None
        else:
            await self._head(self._part, kind, data)

    async def _head(self, part: _Part, kind: str, data: bytes) -> None:
        if kind == "field":
            self._header += data
        elif kind == "value":
            self._value += data
        elif kind == "header":
            part.headers[self._header.decode("latin-1").lower()] = self._value.decode("utf-8", "replace")
            self._header, self._value = bytearray(), bytearray()
        elif kind == "headers":
            await self._begin(part)
        if len(self._header) + len(self._value) > HEADERS or len(part.headers) > FIELDS:
            raise InvalidInput("a part of the form has headers that are too long. Nothing was stored.")

    async def _begin(self, part: _Part) -> None:
        _, options = parse_options_header(part.headers.get("content-disposition", "").encode())
        part.name = options.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" not in options:
            return
        part.file = options[b"filename"].decode("utf-8", "replace")
        if len(self.files) >= self._most or self._stage is None:
            raise InvalidInput(f"a form has at most {self._most} files. Nothing was stored.")
        part.staged = await asyncio.to_thread(self._stage)

    async def _data(self, part: _Part, data: bytes) -> None:
        if part.staged is not None:
            await part.staged.write(data)
            return
        part.value += data
        if len(part.value) > FIELD:
            raise InvalidInput("a field of the form is too long. Nothing was stored.")

    def _close(self, part: _Part) -> None:
        if part.staged is not None and part.file is not None:
            self.files.append((part.file, part.staged))
        else:
            self.fields[part.name] = part.value.decode("utf-8", "replace")
