"""What a session's hook counts without asking anybody."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from app.cli.client.push.sent import Sent, unsent


def test_a_session_at_rest_counts_until_it_was_dealt_with_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "claude" / "projects" / "-work"
    folder.mkdir(parents=True)
    assert unsent(tmp_path / "nothing") == 0
    old = time.time() - 3600
    for name in ("one.jsonl", "two.jsonl", "agent-x.jsonl"):
        (folder / name).write_text("{}\n")
        os.utime(folder / name, (old, old))
    (folder / "empty.jsonl").touch()
    (folder / "under-way.jsonl").write_text("{}\n")
    assert unsent(tmp_path / "claude") == 2
    sent = Sent()
    sent.add(folder / "one.jsonl", (folder / "one.jsonl").stat(), "abc")
    sent.add(folder / "gone.jsonl", (folder / "one.jsonl").stat(), "abc")
    sent.write()
    assert unsent(tmp_path / "claude") == 1
    assert "gone" not in (tmp_path / "config" / "graphkeep" / "sent.json").read_text()
    assert Sent().sha256(folder / "one.jsonl", (folder / "one.jsonl").stat()) == "abc"
    (folder / "one.jsonl").write_text("{}\n{}\n")
    os.utime(folder / "one.jsonl", (old, old))
    assert unsent(tmp_path / "claude") == 2
    assert Sent().sha256(folder / "one.jsonl", (folder / "one.jsonl").stat()) is None
