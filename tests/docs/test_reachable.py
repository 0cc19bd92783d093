"""What people and programs can call is said somewhere: commands and plain routes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

import app.main
from app.cli.root import commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "REMOTE.md", ROOT / "plugin" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SAID = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def routes() -> Iterator[str]:
    """The paths of the routes that stand in the pipeline, beside OAuth (announced by its metadata) and the pages."""
    tree = ast.parse(Path(app.main.__file__).read_text(encoding="utf-8"))
    (call,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Routes"
    ]
    for named in (call.args[0], *(word.value for word in call.keywords if word.arg == "below")):
        assert isinstance(named, ast.Dict)
        for key in named.keys:
            yield getattr(app.main, key.id) if isinstance(key, ast.Name) else ast.literal_eval(key or ast.Constant(""))


@pytest.mark.parametrize("path", list(routes()))
def test_a_route_is_in_the_documentation(path: str) -> None:
    assert re.search(rf"(?<![\w.]){re.escape(path)}\b", SAID), f"no page says what {path} is"


@pytest.mark.parametrize("name", sorted(getattr(get_command(commands), "commands", {})))
def test_a_command_is_in_the_documentation(name: str) -> None:
    assert re.search(rf"graphkeep {re.escape(name)}\b", SAID), f"no page says what `graphkeep {name}` does"


def test_the_routes_are_those_of_the_pipeline() -> None:
    assert {"/mcp", "/pending", "/ingest", "/exports", "/healthz", "/readyz"} <= set(routes())
