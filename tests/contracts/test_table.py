"""Every tool has a contract, every promise a test, and the published table is the tests' own."""

from __future__ import annotations

from app.cli.toolsets import every_tool
from tests.contracts.table import PAGE, contracts, page, shown


def test_every_tool_has_a_contract_and_every_contract_a_tool() -> None:
    assert set(contracts()) == {tool.name for tool in every_tool()}


def test_every_promise_is_shown_by_a_test() -> None:
    assert {
        f"{contract.tool} {number}"
        for contract in contracts().values()
        for number in range(1, len(contract.promises) + 1)
        if number not in contract.tests
    } == set()


def test_every_mark_names_a_promise() -> None:
    there = {tool: range(1, len(contract.promises) + 1) for tool, contract in contracts().items()}
    assert [mark for mark in shown() if mark[1] not in there.get(mark[0], ())] == []


def test_the_published_table_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it again: make docs"
