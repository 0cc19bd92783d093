"""Names of files that people send, and what is done with each kind. Nothing on disk is ever called by such a name."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.errors import InvalidInput

__all__ = ["INLINE", "FileType", "Way", "file_type", "session_file"]

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
    ending = name[name.rfind(".") :].lower() if "." in name[1:] else ""
    found = _TYPES.get(ending)
    if found is None:
        known = " ".join(_TYPES)
        raise InvalidInput(f"files that can be read end in {known}. Nothing was stored.", field="name")
    return found


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
    if any(ch in _FORBIDDEN or unicodedata.category(ch) in {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"} for ch in name):
        return "has a separator of folders, a control character or a sign that some systems cannot store"
    return "is that of a device" if _DEVICES.match(name) else None
