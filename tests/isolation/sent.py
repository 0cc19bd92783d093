"""What the tenants of the harness have sent to be learned from: the same names everywhere, and hidden contents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from tests.isolation.callers import PUBLISHED, UPLOAD, Caller, Step

__all__ = ["PAGE", "SECOND", "TALK", "THIRD", "fetched", "hidden", "visible"]

TALK: Final = "first-talk"
"""A session that every layer has a transcript of."""

SECOND: Final = "second-talk"
"""One of layers alone: nothing of it is tenant-wide."""


THIRD: Final = "third-talk"
"""One that the readers have tenant-wide alone."""


PAGE: Final = f"{PUBLISHED}/page.md"
"""The address of a document that those out of sight have had fetched, and the readers have not."""


def _talk(*texts: str) -> str:
    return "\n".join(
        json.dumps(
            {
                "type": "user" if number % 2 == 0 else "assistant",
                "sessionId": TALK,
                "uuid": f"u{number}",
                "timestamp": f"2026-01-01T00:00:{number:02d}Z",
                "cwd": "/home/ada",
                "message": {"role": "user" if number % 2 == 0 else "assistant", "content": text},
            }
        )
        for number, text in enumerate(texts)
    )


def _upload(caller: Caller, name: str, content: str) -> Step:
    return Step(caller, UPLOAD, {"name": name, "content": content})


def _queue(caller: Caller, name: str, content: str, **meta: Any) -> Step:
    return Step(caller, "graph_ingest", {"action": "queue", "file_name": name, "content": content, "meta": meta})


def _cloud(through: str) -> dict[str, str]:
    return {"source": "claude-code-cloud", "session_id": "s-1", "through": through, "last_event_id": "e-1"}


def visible(wide: Caller, in_a: Caller) -> Sequence[Step]:
    """What the readers may see."""
    return (
        _upload(wide, f"{TALK}.jsonl", _talk("Hello Ada", "Hello", "Numbers, please")),
        _upload(in_a, f"{TALK}.jsonl", _talk("In layer a", "Yes", "Tea", "Always")),
        _upload(in_a, f"{SECOND}.jsonl", _talk("Only here")),
        _upload(wide, f"{THIRD}.jsonl", _talk("Hello again", "Hello", "More numbers")),
        _queue(wide, "notes.md", "# Notes\nAda leads Apollo.", author="Ada"),
        _queue(in_a, "cloud-session_s-1-1.md", "A message", **_cloud("2026-01-01T00:00:00Z")),
        _upload(wide, "subtitles.srt", "1\n00:00:01,000 --> 00:00:02,000\nHello\n"),
    )


def hidden(caller: Caller, mark: str) -> Sequence[Step]:
    """What one hidden partition holds under the same names."""
    secret = f"qzx {mark}"
    return (
        _upload(caller, f"{TALK}.jsonl", _talk(f"{secret} one", f"{secret} two", f"{secret} three")),
        _upload(caller, f"{SECOND}.jsonl", _talk(f"{secret} four")),
        _upload(caller, f"{THIRD}.jsonl", _talk(f"{secret} five", f"{secret} six")),
        _upload(caller, f"qzx-{mark}.jsonl", _talk(secret)),
        _queue(caller, "notes.md", f"# {secret}", author=secret),
        _queue(caller, f"qzx-{mark}.md", secret, **_cloud("2026-01-02T00:00:00Z")),
        _upload(caller, "subtitles.srt", f"1\n00:00:01,000 --> 00:00:02,000\n{secret}\n"),
    )


def fetched(caller: Caller, mark: str) -> Step:
    """What one hidden partition has had fetched."""
    return Step(caller, "graph_ingest", {"action": "queue", "url": PAGE, "meta": {"author": f"qzx {mark}"}})
