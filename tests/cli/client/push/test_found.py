"""Transcripts and memory files of a device, under names that every system can store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.cli.client.push.found import find, folder, left_out
from app.ingest.names import file_type


def put(root: Path, name: str, at: int, text: str = "{}\n") -> Path:
    path = root / "projects" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))
    return path


def test_transcripts_and_memory_files_are_found_oldest_first(tmp_path: Path) -> None:
    put(tmp_path, "-home-ann-atlas/b.jsonl", 20)
    put(tmp_path, "-home-ann-atlas/a.jsonl", 30)
    put(tmp_path, "-home-ann-atlas/memory/style guide.md", 10)
    put(tmp_path, "-home-ann-atlas/memory/MEMORY.md", 5)
    put(tmp_path, "-home-ann-atlas/agent-1.jsonl", 1)
    put(tmp_path, "-home-ann-atlas/notes.txt", 1)
    (tmp_path / "projects" / "-home-ann-atlas" / "link.jsonl").symlink_to("/etc/hostname")
    found = find(tmp_path)
    assert [local.path.name for local in found] == ["style guide.md", "b.jsonl", "a.jsonl"]
    assert [local.session for local in found] == [None, "b", "a"]
    assert {local.path.name for local in find(tmp_path, agents=True)} >= {"agent-1.jsonl"}
    assert find(tmp_path / "nothing") == []


def test_what_is_left_out_is_named_with_the_reason(tmp_path: Path) -> None:
    put(tmp_path, "p/a.jsonl", 1)
    put(tmp_path, "p/agent-1.jsonl", 1)
    put(tmp_path, "p/memory/style.md", 1)
    put(tmp_path, "p/memory/MEMORY.md", 1)
    put(tmp_path, "p/memory/old/style.md", 1)
    (tmp_path / "CLAUDE.md").write_text("Be brief.")
    (tmp_path / "projects/p/link.jsonl").symlink_to("/etc/hostname")
    found = {str(each.path.relative_to(tmp_path)): each.why for each in left_out(tmp_path)}
    assert found == {
        "CLAUDE.md": "instructions, which every session reads itself",
        "projects/p/agent-1.jsonl": "the transcript of a helper; --agents sends it",
        "projects/p/link.jsonl": "a link, which may lead anywhere",
        "projects/p/memory/MEMORY.md": "it only lists the other memory files",
        "projects/p/memory/old/style.md": "it lies in a folder below `memory`",
    }
    asked = left_out(tmp_path, agents=True)
    assert "agent-1.jsonl" not in {each.path.name for each in asked}


@pytest.mark.parametrize(
    "name", ["s.jsonl", "memory/Gewohnheiten: früh.md", "memory/日本語.md", f"memory/{'x' * 240}.md"]
)
def test_every_name_is_one_that_the_gateway_takes(tmp_path: Path, name: str) -> None:
    put(tmp_path, f"-home-ann-atlas/{name}", 1)
    (local,) = find(tmp_path)
    file_type(local.name)


def test_files_whose_names_had_to_change_stay_two(tmp_path: Path) -> None:
    put(tmp_path, "p/memory/a b.md", 1)
    put(tmp_path, "p/memory/a:b.md", 2)
    first, second = find(tmp_path)
    assert first.name != second.name


def test_the_folder_is_the_one_that_claude_code_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert folder() == tmp_path
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert folder() == tmp_path / "home" / ".claude"
