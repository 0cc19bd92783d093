"""The shape of the house: arrows of imports, where the query language and the driver may stand, sizes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
APP = ROOT / "app"
MODULES = sorted(path for path in APP.rglob("*.py"))
LONGEST = 400

CYPHER = re.compile(
    r"(?:\A|\n)\s*(?:CYPHER \d+|EXPLAIN|PROFILE|(?:OPTIONAL )?MATCH \(|MERGE \(|UNWIND \$?\w+ AS |DETACH DELETE|"
    r"CALL db\.|CREATE (?:\(|CONSTRAINT|INDEX|FULLTEXT|VECTOR))"
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def knows_queries(path: Path) -> bool:
    return path.is_relative_to(APP / "store") or path.name == "queries.py"


def texts(tree: ast.Module) -> Iterator[str]:
    """The text constants of a module, without docstrings."""
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_imports_run_in_one_direction():
    linter = Path(sys.executable).parent / "lint-imports"
    run = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("package", ["memory", "ingest", "oauth", "store"])
def test_no_two_rooms_of_a_package_import_each_other(package: str) -> None:
    rooms: dict[str, set[str]] = {}
    for path in (APP / package).glob("*/**/*.py"):
        room = path.relative_to(APP / package).parts[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used = {name.split(".")[2] for name in imported(tree) if name.startswith(f"app.{package}.")}
        rooms.setdefault(room, set()).update(used - {room})
    TopologicalSorter({room: used & rooms.keys() for room, used in rooms.items()}).prepare()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_keeps_its_place(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) <= LONGEST
    if not knows_queries(path):
        assert [found for found in texts(tree) if CYPHER.search(found)] == []
    if not path.is_relative_to(APP / "store"):
        assert [name for name in imported(tree) if name.partition(".")[0] == "neo4j"] == []


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.name not in {"__init__.py", "__main__.py"}], ids=name_of
)
def test_a_module_says_what_it_offers(path):
    tree = ast.parse(path.read_text())
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    assert "__all__" in assigned


def test_the_check_for_the_query_language_finds_it():
    assert CYPHER.search("MATCH (n) RETURN n")
    assert CYPHER.search("\n    MERGE (n:Entity {id: $id})\n")
    assert CYPHER.search("CYPHER 25 RETURN 1")
    assert CYPHER.search("UNWIND $rows AS row RETURN row")
    assert not CYPHER.search("names that match (more or less)")
