"""Subtitles (SubRip, WebVTT) without numbers, times and styles: the words that were said."""

from __future__ import annotations

import html
import re
from typing import Final

__all__ = ["spoken"]

_TIMES: Final = re.compile(r"\s*(?:\d{1,3}:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->\s*")
_TAG: Final = re.compile(r"<[^<>]{0,200}>|\{\\[^{}]{0,200}\}")
_VOICE: Final = re.compile(r"<v(?:\.[^\s<>]{0,100})?\s{1,10}([^<>]{1,100})>")
_HUGE: Final = re.compile(r"&#\d{8,}")
"""A character that does not exist: some numbers are too long for Python to read."""
_SILENT: Final = ("WEBVTT", "NOTE", "STYLE", "REGION")


def spoken(text: str) -> str:
    """The words of the cues, one line each; a line said again at once (rolling subtitles) stands once."""
    said: list[str] = []
    for block in re.split(r"\n[ \t]*\n", text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")):
        for line in _words(block.strip("\n").split("\n")):
            if not said or said[-1] != line:
                said.append(line)
    return "\n".join(said) + "\n" if said else ""


def _words(lines: list[str]) -> list[str]:
    place = next((place for place, line in enumerate(lines) if _TIMES.match(line)), None)
    if place is None:  # a heading, a note, a style; or text that lost its times
        if lines[0].startswith(_SILENT) or lines[0].strip().isdigit():
            return []
        place = -1
    plain = (
        html.unescape(_HUGE.sub("", _TAG.sub("", _VOICE.sub(r"\1: ", line)))).strip() for line in lines[place + 1 :]
    )
    return [line for line in plain if line]
