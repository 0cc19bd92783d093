"""The published matrix is the harness's own, and no rule is forgotten."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from app.protocol.registry import Registry
from tests.isolation.matrix import PAGE, RULES, page

ROOT = Path(__file__).parents[2]


@cache
def _tests(path: str) -> frozenset[str]:
    module = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_the_published_matrix_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it again: python -m tests.isolation.matrix"


def test_every_rule_has_tests_or_waits_for_tools() -> None:
    assert list(RULES) == list(range(1, 23))
    assert all(bool(rule.tests) != bool(rule.awaits) for rule in RULES.values())


def test_every_test_that_holds_a_rule_exists() -> None:
    missing = [
        test
        for rule in RULES.values()
        for test in rule.tests
        if test.partition("::")[2] not in _tests(test.partition("::")[0])
    ]
    assert missing == []


def test_no_rule_waits_for_what_is_there(registry: Registry) -> None:
    there = {tool.name for tool in registry} | {str(tool.toolset) for tool in registry}
    assert {number: there & set(rule.awaits) for number, rule in RULES.items() if there & set(rule.awaits)} == {}
