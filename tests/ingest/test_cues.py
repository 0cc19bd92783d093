"""Subtitles lose their numbers, times and styles, and nothing that was said."""

from __future__ import annotations

import time

from app.ingest.cues import spoken

SRT = (
    "\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>Hello</i> there\r\nAda\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000\r\n{\\an8}1843\r\n"
)

VTT = """WEBVTT - a title

NOTE made by hand
and more

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Ada Lovelace>The engine &amp; I

00:02.000 --> 00:03.000
The engine<00:00:02.500><c> weaves</c>

00:03.000 --> 00:04.000
The engine weaves
"""


def test_subrip() -> None:
    assert spoken(SRT) == "Hello there\nAda\n1843\n"


def test_webvtt_with_voices_notes_and_rolling_lines() -> None:
    assert spoken(VTT) == "Ada Lovelace: The engine & I\nThe engine weaves\n"


def test_text_without_cues_stays() -> None:
    assert spoken("Only words\nin two lines\n") == "Only words\nin two lines\n"
    assert spoken("") == spoken("WEBVTT\n") == ""


def test_a_hostile_line_costs_no_more_than_its_length() -> None:
    assert _seconds(8) < 8 * 4 * _seconds(1) + 0.02
    assert spoken("00:01.000 --> 00:02.000\nnine &#" + "9" * 5_000 + ";\n") == "nine ;\n"


def _seconds(times: int) -> float:
    """Of the quicker of two, on this thread."""
    text = "00:01.000 --> 00:02.000\n" + "<v." * 2_000 * times + "\n" + "{\\" * 2_000 * times
    taken = []
    for _ in range(2):
        began = time.thread_time()
        spoken(text)
        taken.append(time.thread_time() - began)
    return min(taken)
