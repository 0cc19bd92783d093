"""Moments, browsers and events in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.console.words import ACTIONS, action_in_words, browser_in_words, moment
from app.memory.tools import TOOLS

APP = Path(__file__).parents[2] / "app"
NOTED = re.compile(r"""(?:\bnote\(\s*|\baction=)"([a-z_.]+)\"""")


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (0, "just now"),
        (-59, "just now"),
        (-60, "1 minute ago"),
        (-7200, "2 hours ago"),
        (-86_400 * 13, "13 days ago"),
        (-86_400 * 15, "17 Nov 2025"),
        (30, "in a moment"),
        (86_400, "in 1 day"),
        (86_400 * 90, "2 Mar 2026"),
    ],
)
def test_a_moment_is_relative_while_that_says_more_than_a_date(ahead: int, words: str) -> None:
    now = 1_764_676_800  # 2025-12-02T12:00:00Z
    shown = str(moment(now + ahead, now=now))
    assert words in shown
    assert re.search(r'<time datetime="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"', shown)


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0) AppleWebKit/605 Version/18.0 Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        ("", "A browser"),
        ("<script>", "A browser"),
    ],
)
def test_a_browser_is_called_by_what_it_says(agent: str, words: str) -> None:
    assert browser_in_words(agent) == words


def test_everything_that_is_audited_has_words() -> None:
    noted = {action for path in APP.rglob("*.py") for action in NOTED.findall(path.read_text("utf-8"))}
    assert len(noted) > 20
    assert noted - set(ACTIONS) == set()
    assert action_in_words("not.known.yet") == "not.known.yet"


def _notes(module: str) -> bool:
    """Whether a module of the room that ``module`` belongs to appends entries for its calls."""
    room = APP.parent.joinpath(*module.split(".")).parent
    return any("await noted(" in path.read_text("utf-8") for path in room.glob("*.py"))


def test_every_tool_whose_calls_are_audited_has_words() -> None:
    tools = {tool.name for tool in TOOLS if not tool.read_only and _notes(tool.run.__module__)}
    assert {"graph_merge", "graph_prune", "graph_undo", "graph_weaken"} <= tools
    assert {name.replace("graph_", "memory.", 1) for name in tools} - set(ACTIONS) == set()
