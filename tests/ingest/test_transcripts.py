"""The parser of transcripts: what is good is kept, what is bad is counted, memory is bounded."""

from __future__ import annotations

import json
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.ingest import transcripts
from app.ingest.transcripts import LONGEST_LINE, MOST_BAD, MOST_VALUES, Facts, Place, examine, page


def said(text: Any, *, number: int = 0, kind: str = "user", **more: Any) -> bytes:
    record = {
        "type": kind,
        "sessionId": "s-1",
        "cwd": "/home/ada",
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}",
        "timestamp": f"2026-01-01T00:{number // 60:02d}:{number % 60:02d}Z",
        "message": {"role": kind, "content": text},
        **more,
    }
    return json.dumps(record).encode()


def written(folder: Path, *lines: bytes, end: bytes = b"\n") -> Path:
    path = folder / "t.jsonl"
    path.write_bytes(b"\n".join(lines) + end)
    return path


START = Place()


def read(path: Path, place: Place = START, **more: Any) -> Any:
    given = {"limit": 100, "budget": 40_000, "text_only": True, "since": None, "until": time.monotonic() + 60}
    return page(path, place, **{**given, **more})


def everything(path: Path, **more: Any) -> tuple[str, int]:
    """All texts of all pages, and how many pages they took."""
    texts, pages, place = [], 0, Place()
    while True:
        found = read(path, place, **more)
        texts += [message["text"] for message in found.messages]
        pages += 1
        if found.rest is None:
            return "".join(texts), pages
        place = found.rest


@pytest.mark.shows("graph_read_transcript", 4, 5)
def test_text_is_joined_from_text_blocks_and_roles_are_named(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": " one "}, {"type": "thinking", "thinking": "no"}, "two", {"type": "tool_use"}]
    path = written(
        tmp_path,
        said("Hello", number=1),
        said(blocks, number=2, kind="assistant"),
        said([{"type": "tool_result", "content": "no"}], number=3),
        said("note", number=4, kind="system"),
        said("x", number=5, kind="attachment"),
        json.dumps({"type": "user"}).encode(),
    )
    found = read(path)
    assert [(m["role"], m["text"]) for m in found.messages] == [
        ("human", "Hello"),
        ("assistant", "one \ntwo"),
        ("system", "note"),
    ]
    assert found.messages[0] == {
        "role": "human",
        "text": "Hello",
        "timestamp": "2026-01-01T00:00:01Z",
        "session_id": "s-1",
        "cwd": "/home/ada",
        "uuid": "u1",
        "parentUuid": "u0",
    }
    assert len(read(path, text_only=False).messages) == 4
    facts = examine(path)
    assert (facts.line_count, facts.message_count, facts.text_message_count, facts.bad_lines) == (6, 4, 3, 0)
    assert (facts.session_id, facts.cwd, facts.last_at) == ("s-1", "/home/ada", "2026-01-01T00:00:04Z")


@pytest.mark.shows("graph_read_transcript", 6)
def test_bad_lines_are_counted_and_good_ones_kept(tmp_path: Path) -> None:
    """Fault 27: half lines, NUL bytes, what is no object, no final newline."""
    path = written(
        tmp_path,
        said("good one", number=1),
        said("half", number=2)[:-9],
        b"\x00\x00\x00",
        b"[]",
        b'"x"',
        b"null",
        b'{"message": {}}',
        b"",
        b"   ",
        b'{"type": "user", "message": "\xff"}',
        said("good two", number=3),
        end=b"",
    )
    assert [m["text"] for m in read(path).messages] == ["good one", "good two"]
    facts = examine(path)
    assert (facts.line_count, facts.bad_lines) == (9, 7)
    assert facts.warnings[:3] == [
        "Line 2: invalid JSON, skipped",
        "Line 3: invalid JSON, skipped",
        "Line 4: not an object, skipped",
    ]
    assert 'Line 7: missing "type" field, skipped' in facts.warnings


def test_a_message_with_half_a_character_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path, said("cut \ud83d here"))
    assert read(path).messages[0]["text"] == "cut ? here"
    assert examine(path).bad_lines == 0


@pytest.mark.shows("graph_read_transcript", 6, 10)
def test_a_line_of_twenty_megabytes_is_passed_over_without_being_held(tmp_path: Path) -> None:
    """Fault 27."""
    path = written(tmp_path, said("before", number=1), said("x" * 20 * 2**20, number=2), said("after", number=3))
    tracemalloc.start()
    try:
        facts = examine(path)
        found = read(path)
        assert tracemalloc.get_traced_memory()[1] < 3 * LONGEST_LINE
    finally:
        tracemalloc.stop()
    assert [m["text"] for m in found.messages] == ["before", "after"]
    assert (facts.bad_lines, facts.warnings) == (1, ["Line 2: longer than 8 MiB, skipped"])


@pytest.mark.shows("graph_read_transcript", 6)
@pytest.mark.parametrize(
    "values",
    [b"[]," * MOST_VALUES + b"0", b'"",' * (3 * MOST_VALUES) + b'"\\ud800"', b'{"\\\\":[]},' * MOST_VALUES + b"0"],
    ids=["lists", "half characters", "objects"],
)
def test_a_line_of_more_values_than_any_record_has_is_passed_over_unparsed(tmp_path: Path, values: bytes) -> None:
    """No other thread runs while a line is parsed: 8 MiB of lists would stop the gateway for seconds, a line."""
    path = written(
        tmp_path, said("before", number=1), b'{"type":"user","x":[' + values + b"]}", said("after", number=3)
    )
    facts = examine(path)
    assert (facts.bad_lines, facts.warnings) == (1, [f"Line 2: more than {MOST_VALUES} values, skipped"])
    assert [m["text"] for m in read(path).messages] == ["before", "after"]


@pytest.mark.parametrize(
    "text", ['1,"a",[2],{3}\n' * 2 * MOST_VALUES, "\\\\,\\" * MOST_VALUES], ids=["table", "backslashes"]
)
def test_what_looks_like_values_inside_a_text_is_text(tmp_path: Path, text: str) -> None:
    assert examine(written(tmp_path, said(text))).message_count == 1


@pytest.mark.shows("graph_read_transcript", 7)
def test_the_first_messages_decide_the_format_not_the_first_lines(tmp_path: Path) -> None:
    """W-M31: a good file that begins with many metadata records is no unknown one."""
    before = [json.dumps({"type": "file-history-snapshot", "n": n}).encode() for n in range(40)]
    assert examine(written(tmp_path, *before, said("x"))).format_version == "v1"
    strange = json.dumps({"type": "user", "message": {"content": "x"}}).encode()
    for lines in ((strange,), (*before,), ()):
        facts = examine(written(tmp_path, *lines))
        assert facts.format_version == "unknown"
        assert facts.warnings[0].startswith("Unrecognized transcript format")
    assert [m["text"] for m in read(written(tmp_path, strange)).messages] == ["x"]


@pytest.mark.shows("graph_read_transcript", 8)
def test_only_what_was_said_after_a_moment(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        *(said(f"m{number}", number=number) for number in range(5)),
        said("without a moment", timestamp=None),
    )
    found = read(path, since=1767225603.0)
    assert [m["text"] for m in found.messages] == ["m4", "without a moment"]


def test_a_clock_that_ran_ahead_does_not_say_when_the_last_message_was(tmp_path: Path) -> None:
    """Everything said until then would be hidden from the run that goes on behind it."""
    moments = ["2999-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"]
    path = written(tmp_path, *(said("odd", timestamp=moment) for moment in moments), said("real", number=3))
    facts = examine(path)
    assert facts.first_at == facts.last_at == "2026-01-01T00:00:03Z"
    # What stands behind a moment that cannot be is rather read again than never.
    assert [m["text"] for m in read(path, since=1767225602.0).messages] == ["odd", "odd", "odd", "real"]
    soon = datetime.fromtimestamp(time.time() + 3600, UTC).isoformat()
    assert examine(written(tmp_path, said("a"), said("b", timestamp=soon))).last_at == soon


@pytest.mark.shows("graph_read_transcript", 9)
@pytest.mark.parametrize("text", ["a" * 5000, 'quoted " and \\ ' * 200, "日本語🦊" * 700, "\x01\x02" * 400])
def test_pages_lose_no_character_also_inside_a_long_message(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, *(said(f"{number}{text}{number}", number=number) for number in range(3)), said("end"))
    whole = "".join(f"{number}{text}{number}" for number in range(3)) + "end"
    for budget in (400, 3000, 100_000):
        got, pages = everything(path, budget=budget)
        assert got == whole
        assert pages > 1 or budget == 100_000
    assert everything(path, limit=1) == (whole, 4)


def test_several_sessions_in_one_file_are_named(tmp_path: Path) -> None:
    """W-M31: a resumed session."""
    path = written(tmp_path, said("a"), said("b", sessionId="s-2"))
    assert examine(path).sessions == ["s-1", "s-2"]


def test_a_page_ends_in_time_and_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path, *(said(f"m{number}", number=number % 3000) for number in range(400)))
    found = read(path, until=0.0, limit=500, budget=1_000_000)
    assert len(found.messages) == 1
    assert found.rest is not None
    assert len(read(path, found.rest, limit=500, budget=1_000_000).messages) == 399


@pytest.mark.parametrize("line", [b"", b" ", b"1", b'{"type":1}'], ids=["empty", "blank", "bad", "other"])
def test_a_page_ends_in_time_whatever_the_lines_are(tmp_path: Path, line: bytes) -> None:
    path = written(tmp_path, *[line] * 1000, said("end"))
    found = read(path, until=0.0)
    assert (found.messages, found.rest) == ([], Place(len(line) + 1, int(line.strip() != b"")))
    assert [message["text"] for message in read(path, found.rest).messages] == ["end"]


def test_what_is_no_transcript_is_read_no_further(tmp_path: Path) -> None:
    """64 MiB of such lines would take a core for two minutes."""
    facts = examine(written(tmp_path, said("a"), *[b"1"] * (MOST_BAD + 5), said("b")))
    assert (facts.bad_lines, facts.line_count, facts.message_count) == (MOST_BAD, MOST_BAD + 1, 1)
    assert facts.format_version == "unknown"
    assert facts.warnings[0] == f"Unrecognized transcript format: read up to line {MOST_BAD + 1} only"


@pytest.mark.parametrize("line", [b"", b'{"type":1}'], ids=["blank", "other"])
def test_examining_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr(transcripts, "EXAMINE_SECONDS", 0.0)
    facts = examine(written(tmp_path, *[line] * 1000, said("end")))
    assert (facts.message_count, facts.format_version) == (0, "unknown")
    assert "read up to line" in facts.warnings[0]


def test_a_longer_session_has_more_time_to_be_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 512 MiB takes ten seconds of computing, more on a slower machine, and was taken for something else."""
    monkeypatch.setattr(transcripts, "EXAMINE_SECONDS", 1e-6)
    monkeypatch.setattr(transcripts, "EXAMINE_BYTES", 0.1)
    facts = examine(written(tmp_path, *[said("word")] * 1000))
    assert (facts.message_count, facts.format_version) == (1000, "v1")


def _large(path: Path, megabytes: int) -> int:
    line = said("w" * 1000, number=7) + b"\n"
    many = megabytes * 2**20 // len(line)
    with path.open("wb") as file:
        for _ in range(many // 1000):
            file.write(line * 1000)
    return many // 1000 * 1000


def _bounded(path: Path, many: int) -> Facts:
    Path("/proc/self/clear_refs").write_text("5")  # the highest memory use counts from here
    before = _highest()
    began = time.monotonic()
    facts = examine(path)
    read(path, limit=500)
    print(f"{path.stat().st_size / 2**20:.0f} MiB in {time.monotonic() - began:.1f} s")
    assert _highest() - before < 16 * 2**20
    assert facts.message_count == many
    return facts


def _highest() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


@pytest.mark.shows("graph_read_transcript", 10)
def test_memory_stays_bounded_on_sixty_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    _bounded(path, _large(path, 60))


@pytest.mark.soak
def test_memory_stays_bounded_on_five_hundred_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "larger.jsonl"
    _bounded(path, _large(path, 500))
