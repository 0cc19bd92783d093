"""Secrets are taken out before anything leaves the device.

The rules that recognise a secret by its form are those of detect-secrets; the ones that guess (entropy, words such as
"password") call every second line a secret and are left out. A line of a transcript stays byte for byte as it is unless
a secret stands in it: the gateway compares what it has with what goes on from there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

__all__ = ["Redactor"]

_GUESSING: Final = frozenset(
    {"Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector", "IPPublicDetector", "PrivateKeyDetector"}
)
_OURS: Final = (
    ("Anthropic Key", re.compile(r"sk-ant-[A-Za-z0-9_-]{16,}")),
    ("OpenAI Key", re.compile(r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{32,}")),
    ("Google Key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    ("GitHub Token", re.compile(r"\bgithub_pat_[A-Za-z0-9_]{22,}")),
    (
        "Private Key",
        re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END \1-----|\Z)", re.DOTALL),
    ),
)


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
            text = found.sub(self._replacing(kind), text)
        return text

    def _line(self, line: bytes) -> bytes:
        text = line.decode("utf-8", "surrogateescape")
        if not any(found.search(text) for _, found in _rules()):
            return line
        body = text.rstrip("\r\n")
        try:
            record = json.loads(body)
        except ValueError:
            return (self.text(body) + text[len(body) :]).encode("utf-8", "surrogateescape")
        clean = json.dumps(self._value(record), ensure_ascii=False, separators=(",", ":"))
        return (clean + text[len(body) :]).encode("utf-8", "surrogatepass")

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self._value(item) for key, item in value.items()}
        return value

    def _replacing(self, kind: str) -> Callable[[re.Match[str]], str]:
        def replaced(_: re.Match[str]) -> str:
            self.count += 1
            return f"[redacted: {kind}]"

        return replaced


@cache
def _rules() -> tuple[tuple[str, re.Pattern[str]], ...]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    detectors: dict[str, Any] = dict(get_mapping_from_secret_type_to_class())
    theirs = [
        (kind, found)
        for kind, detector in detectors.items()
        if detector.__name__ not in _GUESSING
        for found in detector().denylist
    ]
    return (*_OURS, *theirs)
