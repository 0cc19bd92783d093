"""What each tool promises, and the tests that show it: ``docs/contracts.md``.

Write it again with ``python -m tests.contracts.table``. A tool's promises stand in ``tests/contracts/<tool>.toml``; a
test shows some of them by the mark ``shows(tool, *numbers)``.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["PAGE", "Contract", "contracts", "page", "shown"]

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
PAGE: Final = ROOT / "docs" / "contracts.md"


@dataclass(frozen=True)
class Contract:
    """What one tool promises."""

    tool: str
    section: str
    promises: tuple[str, ...]
    tests: dict[int, list[str]] = field(default_factory=dict)
    """By the number of the promise: the tests, as pytest names them."""


@cache
def contracts() -> dict[str, Contract]:
    """Every contract by its tool, with the tests that show its promises."""
    found = {path.stem: _read(path) for path in sorted(HERE.glob("*.toml"))}
    for tool, number, test in shown():
        if tool in found:
            found[tool].tests.setdefault(number, []).append(test)
    return found


@cache
def shown() -> tuple[tuple[str, int, str], ...]:
    """(tool, number of the promise, test) of every mark."""
    return tuple(
        (tool, number, f"{path.relative_to(ROOT)}::{name}")
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name, tool, numbers in _marks(ast.parse(path.read_text("utf-8")))
        for number in numbers
    )


def page() -> str:
    """``docs/contracts.md``."""
    lines = [
        "# Contracts",
        "",
        "What each tool promises and the tests that show it. Written by `make docs`.",
    ]
    for contract in contracts().values():
        lines += ["", f"## {contract.tool}", "", f"Contract: {contract.section}.", "", "| | promise | shown by |"]
        lines.append("|---|---|---|")
        for number, promise in enumerate(contract.promises, start=1):
            tests = "<br>".join(f"`{test}`" for test in contract.tests.get(number, ()))
            words = " ".join(promise.split()).replace("|", "\\|")
            lines.append(f"| {number} | {words} | {tests} |")
    return "\n".join(lines) + "\n"


def _read(path: Path) -> Contract:
    read = tomllib.loads(path.read_text("utf-8"))
    return Contract(path.stem, read["section"], tuple(read["promises"]))


def _marks(module: ast.Module) -> Iterator[tuple[str, str, list[int]]]:
    """(test, tool, numbers) of every ``@pytest.mark.shows(tool, *numbers)``."""
    for node in module.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.shows":
                tool, *numbers = map(ast.literal_eval, mark.args)
                yield node.name, tool, numbers


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
