"""Secrets are taken out before anything leaves the device.

The rules that recognise a secret by its form are those of detect-secrets; the ones that guess (entropy, words such as
"password") call every second line a secret and are left out. Some of them take the square of a text's length, so they
are shown long texts in pieces. A line of a transcript stays byte for byte as it is unless a secret stands in it: the
gateway compares what it has with what goes on from there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

__all__ = ["Redactor"]

_GUESSING: Final = frozenset(
    {"Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector", "IPPublicDetector", "PrivateKeyDetector"}
)
_SLOW: Final = frozenset({"NpmDetector"})
"""Seconds for 40 KB of slashes: one of our own stands for it."""

_OURS: Final = (
    ("Anthropic Key", re.compile(r"sk-ant-[A-Za-z0-9_-]{16,}")),
    ("OpenAI Key", re.compile(r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{32,}")),
    ("Google Key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    ("GitHub Token", re.compile(r"\bgithub_pat_[A-Za-z0-9_]{22,}")),
    ("Hugging Face Token", re.compile(r"\bhf_[A-Za-z0-9]{30,}")),
    ("NPM tokens", re.compile(r"\bnpm_[A-Za-z0-9]{36}|_authToken=[ \t]*[\"']?[A-Za-z0-9+/=_.-]{16,}")),
    (
        "Private Key",
        re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END \1-----|\Z)", re.DOTALL),
    ),
)
_PIECE: Final = 4096
_OVERLAP: Final = 1024
"""Characters: within so many of its beginning every secret is recognised, and then taken out to its end."""
_ESCAPED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SHORT_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


class Redactor:
    """Takes secrets out and counts them; one for each file."""

    def __init__(self) -> None:
        self.count = 0

    def lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines of a transcript, each with its end."""
        return map(self._line, lines)

    def text(self, text: str) -> str:
        """A text of several lines."""
        for kind, found in _rules():
            at, parts = 0, []
            for start, end in _spans(found, text):
                parts += [text[at:start], f"[redacted: {kind}]"]
                at = end
                self.count += 1
            if parts:
                text = "".join([*parts, text[at:]])
        return text

    def _line(self, line: bytes) -> bytes:
        text = line.decode("utf-8", "surrogateescape")
        body = text.rstrip("\r\n")
        if not _holds_any(plain := _unescaped(body)):
            return line
        end, before = text[len(body) :], self.count
        try:
            clean = json.dumps(self._value(json.loads(body)), ensure_ascii=False, separators=(",", ":"))
            if self.count > before:
                return (self.text(clean) + end).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):  # cut off, or nested thousands deep
            self.count = before
        # It stands across values, under a key that is there twice, or in what is no record.
        clean = self.text(body)
        if self.count == before or _holds_any(_unescaped(clean)):
            clean = self.text(plain)
        return (clean + end).encode("utf-8", "surrogateescape")

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self._value(item) for key, item in value.items()}
        return value


def _holds_any(text: str) -> bool:
    return any(next(_spans(found, text), None) for _, found in _rules())


def _spans(found: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Where the secrets stand, looked for in pieces."""
    at = 0
    while at < len(text):
        end = min(at + _PIECE, len(text))
        match = found.search(text, at, end)
        if match is None:
            at = end if end == len(text) else end - _OVERLAP
            continue
        if match.end() == end < len(text):
            whole = found.match(text, match.start())
            if whole is None:  # only where the piece was cut it looked like one
                at = match.start() + 1
                continue
            match = whole
        yield match.span()
        at = max(match.end(), at + 1)


def _unescaped(text: str) -> str:
    """The characters that a JSON text stands for, its structure left in place."""
    return _ESCAPED.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    number, letter = match.groups()
    return chr(int(number, 16)) if number else _SHORT_ESCAPES.get(letter, letter)


@cache
def _rules() -> tuple[tuple[str, re.Pattern[str]], ...]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    detectors: dict[str, Any] = dict(get_mapping_from_secret_type_to_class())
    theirs = [
        (kind, found)
        for kind, detector in detectors.items()
        if detector.__name__ not in _GUESSING | _SLOW
        for found in detector().denylist
    ]
    return (*_OURS, *theirs)
