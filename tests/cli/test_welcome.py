"""The command that the welcome names is one that can be pasted where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.dev.welcome import Welcome, called_as


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command in a checkout, in whose folder the person is."""
    made = tmp_path / "my checkout" / ".venv" / "bin" / "graphkeep"
    made.parent.mkdir(parents=True)
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    monkeypatch.chdir(tmp_path / "my checkout")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return made


def test_a_command_that_the_shell_does_not_find_is_named_by_its_path(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert called_as(".venv/bin/graphkeep") == called_as(str(program)) == ".venv/bin/graphkeep"
    monkeypatch.chdir(program.parent)
    assert called_as("graphkeep") == "./graphkeep"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert called_as(str(program)) == f"'{program}'"


def test_a_command_that_the_shell_finds_is_named_by_its_name(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "graphkeep").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert called_as(str(program)) == "graphkeep"
    assert called_as("-c") == "graphkeep"


def test_the_line_for_a_token_can_be_pasted_and_says_what_it_may_do() -> None:
    words = Welcome("https://x", "http://x", Path("/h"), {}, "o@example.com", Path("/r"), ".venv/bin/graphkeep").words()
    assert ".venv/bin/graphkeep token create --user o@example.com --tenant home --scope memory:read\n" in words
    assert "without one it may do all that you may" in words
