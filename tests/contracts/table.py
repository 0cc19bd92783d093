"""What each tool promises, and the tests that show it: ``docs/contracts.md``.

Write it again with ``python -m tests.contracts.table``. A tool's promises stand in ``tests/contracts/<tool>.toml``; a
test shows some of them by the mark ``shows(tool, *numbers)``. ``sentences.toml`` says which promises keep each sentence
of the contract.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["PAGE", "Contract", "contracts", "page", "shown"]

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
PAGE: Final = ROOT / "docs" / "contracts.md"
SENTENCES: Final = HERE / "sentences.toml"

INTRODUCTION: Final = """\
# Contracts

What each tool promises and the tests that show it. Written by `make docs`.

The contract describes the memory system whose prompts and skills go on working here. Its sentences are counted by
section, in reading order: the line of inputs, the line of outputs, each sentence, item of a list and row of a table
that can be kept or broken by itself. A sentence that only tells of a fault counts too: the promise beside it says what
is done instead. Lists of weaknesses do not count; `tests/faults` has those. `decisions` are the rows that settle what
the contract leaves open, `beyond` the sentences of what graphkeep promises beyond it, as far as they are about the
tool. A promise beside which no sentence stands goes further than all of these. A test compares the numbers: each
sentence has a promise, each promise a test.
"""


@dataclass(frozen=True)
class Contract:
    """What one tool promises."""

    tool: str
    section: str
    promises: tuple[str, ...]
    sentences: Mapping[str, list[list[int]]]
    """By counted section: of each sentence, in order, the numbers of the promises that keep it."""
    tests: dict[int, list[str]] = field(default_factory=dict)
    """By the number of the promise: the tests, as pytest names them."""

    def keeps(self, promise: int) -> str:
        """The sentences that this promise keeps, as the page shows them."""
        kept = {
            section: [str(number) for number, by in enumerate(each, start=1) if promise in by]
            for section, each in self.sentences.items()
        }
        return "; ".join(f"{section}: {', '.join(numbers)}" for section, numbers in kept.items() if numbers)


@cache
def contracts() -> dict[str, Contract]:
    """Every contract by its tool, with the tests that show its promises."""
    sentences = tomllib.loads(SENTENCES.read_text("utf-8"))
    found = {path.stem: _read(path, sentences) for path in sorted(HERE.glob("*.toml")) if path != SENTENCES}
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
    lines = [INTRODUCTION.rstrip()]
    for contract in contracts().values():
        counted = ", ".join(f"{section} ({len(each)})" for section, each in contract.sentences.items())
        lines += [
            "",
            f"## {contract.tool}",
            "",
            f"Contract: {contract.section}. Sentences counted: {counted or 'none'}.",
        ]
        lines += ["", "| | promise | keeps | shown by |", "|---|---|---|---|"]
        for number, promise in enumerate(contract.promises, start=1):
            tests = "<br>".join(f"`{test}`" for test in contract.tests.get(number, ()))
            words = " ".join(promise.split()).replace("|", "\\|")
            lines.append(f"| {number} | {words} | {contract.keeps(number)} | {tests} |")
    return "\n".join(lines) + "\n"


def _read(path: Path, sentences: Mapping[str, Mapping[str, list[list[int]]]]) -> Contract:
    read = tomllib.loads(path.read_text("utf-8"))
    return Contract(path.stem, read["section"], tuple(read["promises"]), sentences.get(path.stem, {}))


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
