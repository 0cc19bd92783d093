"""Every tool has a contract, every promise a test, and the published table is the tests' own."""

from __future__ import annotations

from app.cli.toolsets import every_tool
from tests.contracts.table import PAGE, contracts, page, shown

COUNTED = {
    "graph_audit": {"7.23": 6, "12": 1},
    "graph_boost": {"7.4": 7},
    "graph_build_context": {"7.17": 8},
    "graph_communities": {"7.20": 8},
    "graph_contradictions": {"7.7": 5},
    "graph_cypher": {"7.9": 7},
    "graph_decay": {"7.10": 13},
    "graph_delete": {"7.3": 5, "19": 1},
    "graph_entities": {"7.6": 6},
    "graph_export": {"7.21": 7},
    "graph_ingest": {"7.8": 12},
    "graph_merge": {"7.13": 12},
    "graph_merge_suggestions": {"7.14": 13},
    "graph_prune": {"7.11": 8},
    "graph_query": {"7.1": 16},
    "graph_read_transcript": {"7.22": 6, "10": 8},
    "graph_reembed": {"7.18": 5},
    "graph_relate": {"7.2": 26},
    "graph_search": {"7.19": 11},
    "graph_stats": {"7.15": 7},
    "graph_unmerge": {"7.12": 7},
    "graph_validate": {"7.16": 10},
    "graph_weaken": {"7.5": 4, "19": 1},
}
"""How many sentences each section of the contract has."""


def test_every_tool_has_a_contract_and_every_contract_a_tool() -> None:
    assert set(contracts()) == {tool.name for tool in every_tool()}


def test_every_promise_is_shown_by_a_test() -> None:
    assert {
        f"{contract.tool} {number}"
        for contract in contracts().values()
        for number in range(1, len(contract.promises) + 1)
        if number not in contract.tests
    } == set()


def test_every_sentence_of_the_contract_is_kept_by_a_promise_that_there_is() -> None:
    """As many as were counted in each section: one that is read anew is put in where it stands."""
    assert {contract.tool for contract in contracts().values() if not contract.sentences} == set()
    for contract in contracts().values():
        there = set(range(1, len(contract.promises) + 1))
        for section, sentences in contract.sentences.items():
            wrong = [number for number, by in enumerate(sentences, start=1) if not by or not there.issuperset(by)]
            assert wrong == [], f"{contract.tool} {section}"


def test_the_sections_of_the_contract_are_counted_whole() -> None:
    """What changes here is what somebody counted again, never what a promise was dropped for."""
    counted = {
        tool: {section: len(sentences) for section, sentences in contract.sentences.items() if section[0].isdigit()}
        for tool, contract in contracts().items()
    }
    assert {tool: sections for tool, sections in counted.items() if sections} == COUNTED


def test_every_mark_names_a_promise() -> None:
    there = {tool: range(1, len(contract.promises) + 1) for tool, contract in contracts().items()}
    assert [mark for mark in shown() if mark[1] not in there.get(mark[0], ())] == []


def test_the_published_table_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it again: make docs"
