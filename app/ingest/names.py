"""Names of files that people send, and what is done with each kind. Nothing on disk is ever called by such a name."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote, urlsplit

from app.errors import InvalidInput

__all__ = ["INLINE", "FileType", "Way", "file_type", "name_of_address", "session_file"]

LONGEST: Final = 200
"""Characters of a name; its bytes must fit into 255 beside a suffix of ours."""

_DEVICES: Final = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|\Z)", re.IGNORECASE)
_FORBIDDEN: Final = frozenset('/\\:*?"<>|')


class Way(StrEnum):
    """How a kind of file becomes text."""

    TEXT = "text"
    """It is text already."""
    CONVERT = "convert"
    """The converter makes Markdown of it, or of subtitles the words that were said."""
    TRANSCRIPT = "transcript"
    """A conversation, one JSON record a line."""


@dataclass(frozen=True, slots=True)
class FileType:
    """What a file's ending says."""

    ending: str
    media_type: str
    way: Way


_TYPES: Final = {
    kind.ending: kind
    for kind in (
        FileType(".md", "text/markdown", Way.TEXT),
        FileType(".txt", "text/plain", Way.TEXT),
        FileType(".json", "application/json", Way.TEXT),
        FileType(".srt", "application/x-subrip", Way.CONVERT),
        FileType(".vtt", "text/vtt", Way.CONVERT),
        FileType(".jsonl", "application/jsonl", Way.TRANSCRIPT),
        FileType(".pdf", "application/pdf", Way.CONVERT),
        FileType(".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", Way.CONVERT),
        FileType(".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", Way.CONVERT),
        FileType(".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation", Way.CONVERT),
        FileType(".epub", "application/epub+zip", Way.CONVERT),
        FileType(".msg", "application/vnd.ms-outlook", Way.CONVERT),
        FileType(".csv", "text/csv", Way.CONVERT),
        FileType(".xml", "application/xml", Way.CONVERT),
        FileType(".html", "text/html", Way.CONVERT),
        FileType(".htm", "text/html", Way.CONVERT),
        FileType(".zip", "application/zip", Way.CONVERT),
        FileType(".png", "image/png", Way.CONVERT),
        FileType(".jpg", "image/jpeg", Way.CONVERT),
        FileType(".jpeg", "image/jpeg", Way.CONVERT),
    )
}

_SPELLINGS: Final = {
    "application/csv": "text/csv",
    "application/x-ndjson": "application/jsonl",
    "application/x-pdf": "application/pdf",
    "application/x-zip-compressed": "application/zip",
    "application/xhtml+xml": "text/html",
    "image/jpg": "image/jpeg",
    "text/json": "application/json",
    "text/x-markdown": "text/markdown",
    "text/xml": "application/xml",
}
"""Other names of media types, as hosts spell them."""
_SAYING_NOTHING: Final = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/force-download"}
)
_PLAIN: Final = (".txt", ".md", ".json", ".jsonl", ".csv", ".xml", ".html", ".htm", ".srt", ".vtt")
_ZIPPED: Final = (".zip", ".docx", ".xlsx", ".pptx", ".epub")
_SHORT: Final = 150
"""Bytes of a name that is made of an address, before its ending."""

INLINE: Final = (".md", ".txt", ".json")
"""Endings of documents whose text a call may carry itself."""


def file_type(name: str) -> FileType:
    """What the name of a sent file stands for; the name is a bare one.

    Raises:
        InvalidInput: it names a folder or a device, has characters that some system cannot store, or an ending that
            nothing here reads.
    """
    rule = _broken(name)
    if rule is not None:
        raise InvalidInput(
            f"the file name {rule}; send a plain name such as notes.md. Nothing was stored.", field="name"
        )
    found = _TYPES.get(_ending(name))
    if found is None:
        known = " ".join(_TYPES)
        raise InvalidInput(f"files that can be read end in {known}. Nothing was stored.", field="name")
    return found


def name_of_address(url: str, content_type: str, given: str | None = None) -> str:
    """What a fetched document is called: as was asked for, else as its address ends; the ending suits what it is.

    Raises:
        InvalidInput: nothing here reads its type, the name that was asked for does not suit it, or nothing tells what
            it is.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    endings = tuple(_TYPES) if media_type in _SAYING_NOTHING else _endings(_SPELLINGS.get(media_type, media_type))
    if not endings:
        raise InvalidInput(
            "what lies at this address is of a type that nothing here reads. Nothing was stored.", field="url"
        )
    if given is not None:
        if file_type(given).ending not in endings:
            raise InvalidInput(
                f"what lies at this address is no {_ending(given)} file but would end in {endings[0]}. Nothing was "
                "stored.",
                field="file_name",
            )
        return given
    parts = urlsplit(url)
    last = unquote(parts.path.rpartition("/")[2], errors="replace")
    name = "".join("-" if _unstorable(ch) else ch for ch in last).strip(" .")
    ending = _ending(name)
    if ending not in endings:
        if media_type in _SAYING_NOTHING:
            raise InvalidInput(
                "its host does not say what lies at this address; say it by the ending of file_name. Nothing was "
                "stored.",
                field="file_name",
            )
        ending = endings[0]
        name += ending
    stem = name.removesuffix(name[-len(ending) :]).encode()[:_SHORT].decode(errors="ignore").rstrip(" .")
    made = f"{stem}{ending}"
    return f"{parts.hostname}{ending}" if not stem or _broken(made) else made


def session_file(session: str) -> str:
    """The name under which the transcript of a session is kept.

    Raises:
        InvalidInput: it cannot be one.
    """
    name = session if session.lower().endswith(".jsonl") else f"{session}.jsonl"
    if _broken(name) is not None:
        raise InvalidInput(
            "session_id is the name of a session, without a folder; nothing was read.", field="session_id"
        )
    return name


def _broken(name: str) -> str | None:
    if not name.strip() or name != name.strip() or name.startswith(".") or name.endswith("."):
        return "is blank, or begins or ends with a space or a dot"
    if len(name) > LONGEST or len(name.encode("utf-8", "surrogatepass")) > LONGEST:
        return f"is longer than {LONGEST} bytes"
    if any(map(_unstorable, name)):
        return "has a separator of folders, a control character or a sign that some systems cannot store"
    return "is that of a device" if _DEVICES.match(name) else None


def _unstorable(ch: str) -> bool:
    return ch in _FORBIDDEN or unicodedata.category(ch) in {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"}


def _ending(name: str) -> str:
    return name[name.rfind(".") :].lower() if "." in name[1:] else ""


def _endings(media_type: str) -> tuple[str, ...]:
    """Endings that a file of this type may have, the usual one first."""
    if media_type == "text/plain":
        return _PLAIN
    if media_type == "application/zip":
        return _ZIPPED
    own = tuple(ending for ending, kind in _TYPES.items() if kind.media_type == media_type)
    if own:
        return own
    suffix = media_type.rpartition("+")[2] if "+" in media_type else ""
    return {"json": (".json",), "xml": (".xml",)}.get(suffix, ())
