"""Reading what was sent: the text of a document, and transcripts, page by page."""

from __future__ import annotations

import codecs
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson

from app.context import layer_name
from app.contract import Call, Cursor
from app.errors import Conflict, InvalidInput, NotFound
from app.ingest import showing
from app.ingest.files import Files
from app.ingest.meta import instant
from app.ingest.names import Way, file_type, session_file
from app.ingest.reach import require_reading
from app.ingest.schemas import IngestInput, TranscriptInput
from app.ingest.threads import in_thread
from app.ingest.transcripts import Facts, Place, page
from app.store.control.queue import Item, QueueStore

__all__ = ["Reading"]

MARGIN: Final = 8_000
"""Characters of an answer that are not the text itself."""
SCAN_SECONDS: Final = 4.0


class Reading:
    """Readers over the files of the queue. ``characters``: of the largest answer."""

    def __init__(self, files: Files, store: QueueStore, *, characters: int) -> None:
        self._files = files
        self._store = store
        self._budget = max(200, min(45_000, characters - MARGIN))

    async def document(self, call: Call, arguments: IngestInput) -> Mapping[str, Any]:
        """The text of a queued document, from the cursor on."""
        require_reading(call.principal, "read")
        if arguments.id is None:
            raise InvalidInput("read needs the id of an item; status shows them.", field="id")
        item = await self._store.find(call.scope.tenant, call.scope.layers, arguments.id)
        if item is None:
            raise NotFound("there is no such item in the queue that this connection may read; status shows them.")
        path = self._text_of(item)
        question = {"tool": call.tool, "action": "read", "id": item.id}
        offset = 0
        if arguments.cursor is not None:
            offset = int(Cursor.decode(arguments.cursor, call.scope, question, (float,)).position[0])
        try:
            text, rest = await in_thread(_text_page, path, max(0, offset), self._budget)
        except FileNotFoundError:
            raise _gone() from None
        after = None if rest is None else Cursor((rest,)).encode(call.scope, question)
        return {"action": "read", **showing.named(item), "text": text, "next_cursor": after}

    async def transcript(self, call: Call, arguments: TranscriptInput) -> Mapping[str, Any]:
        """Messages of a transcript, from the cursor on."""
        found = await self._meant(call, arguments)
        item = found[0]
        one = item.id if len(found) == 1 else None
        question = {"tool": call.tool, "item": one, "text_only": arguments.text_only, "since": arguments.since}
        place = Place()
        if arguments.cursor is not None:
            given = Cursor.decode(arguments.cursor, call.scope, question, (float, float, float, float)).position
            offset, line, inside = (max(0, int(value)) for value in given[:3])
            place = Place(offset, line, inside, float(given[3]))
        if one is None:
            return _several(found, arguments)
        try:
            read = await in_thread(
                page,
                self._files.original(item.tenant, item.id),
                place,
                limit=arguments.limit,
                budget=self._budget,
                text_only=arguments.text_only,
                since=_since(arguments.since),
                until=time.monotonic() + min(SCAN_SECONDS, call.deadline.remaining() * 0.7),
            )
        except FileNotFoundError:
            raise _gone() from None
        rest = read.rest
        facts = orjson.loads(item.facts or "{}")
        shown = {key: value for key, value in facts.items() if key not in {"first_at", "last_at"}}
        return {
            **shown,
            "id": item.id,
            "sender": item.subject,
            "layer": layer_name(item.layer),
            "session_id": facts.get("session_id") or item.name.removesuffix(".jsonl"),
            "state": item.state,
            "since": arguments.since,
            "messages": read.messages,
            "next_cursor": None
            if rest is None
            else Cursor((rest.offset, rest.line, rest.inside, rest.seen_at)).encode(call.scope, question),
        }

    async def _meant(self, call: Call, arguments: TranscriptInput) -> list[Item]:
        """The transcript that a call asks for; several, if it does not say which of them.

        Of a name that several sent the caller's own is meant: what others send under it must not stand in its place.
        """
        tenant, layers = call.scope.tenant, call.scope.layers
        if arguments.id is not None:
            item = await self._store.find(tenant, layers, arguments.id)
            if item is None or item.kind != "transcript":
                raise NotFound("there is no such transcript that this connection may read; status shows them.")
            return [item]
        name = _asked(arguments)
        found = await self._store.transcripts(tenant, layers, name, first=call.principal.subject)
        if not found:
            raise NotFound(
                f"No transcript found for session_id: {name.removesuffix('.jsonl')}. Transcripts come by "
                "PUT /ingest/{session}.jsonl or graphkeep push; graph_ingest status lists those that are here."
            )
        own = [item for item in found if item.subject == call.principal.subject]
        return own if len(own) == 1 else found

    def _text_of(self, item: Item) -> Path:
        way = file_type(item.name).way
        if way is Way.TRANSCRIPT:
            raise Conflict("this is a transcript: read it with graph_read_transcript.")
        if item.text:
            return self._files.text(item.tenant, item.id)
        if way is Way.TEXT:
            return self._files.original(item.tenant, item.id)
        if item.state == "failed":
            raise Conflict(f"this document has no text: {item.reason}.")
        raise Conflict("this document is still being converted; read it in a few seconds.", retry_after_ms=2000)


def _several(found: list[Item], arguments: TranscriptInput) -> dict[str, Any]:
    return {
        **asdict(Facts(warnings=["Several were sent under this name and nothing was read: read one by its id"])),
        "session_id": _asked(arguments).removesuffix(".jsonl"),
        "state": "several",
        "since": arguments.since,
        "candidates": [showing.candidate(item) for item in found],
        "messages": [],
        "next_cursor": None,
    }


def _asked(arguments: TranscriptInput) -> str:
    """The name of the file that the call is after: of a path its last part, since paths belong to other machines."""
    if arguments.file_path is not None:
        return session_file(PurePosixPath(arguments.file_path.replace("\\", "/")).name or "?")
    if arguments.session_id is None:
        raise InvalidInput("Provide either session_id or file_path.", field="session_id")
    return session_file(arguments.session_id)


def _since(text: str | None) -> float | None:
    try:
        return None if text is None else instant(text)
    except ValueError as error:
        raise InvalidInput(f"since {error}.", field="since") from None


def _gone() -> NotFound:
    return NotFound("a longer version of this file has taken its place meanwhile; ask again.")


def _text_page(path: Path, offset: int, budget: int) -> tuple[str, int | None]:
    """Text of at most ``budget`` characters as JSON, and the byte where the rest begins."""
    with path.open("rb") as file:
        file.seek(offset)
        raw = file.read(budget)
        more = bool(file.read(1))
    while True:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(raw, final=not more)
        if len(orjson.dumps(text)) <= budget or len(raw) <= 8:
            left = len(decoder.getstate()[0]) if more else 0
            text = text.removeprefix("\ufeff") if offset == 0 else text
            return text, offset + len(raw) - left if more else None
        raw, more = raw[: len(raw) // 2], True
