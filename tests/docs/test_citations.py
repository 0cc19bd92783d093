"""What comments cite exists: nothing points to a document, section or rule that a reader cannot open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.table import FAULTS
from tests.isolation.matrix import RULES

ROOT = Path(__file__).parents[2]
SOURCES = ("app", "tests", "bench")
DOCUMENTS = tuple(str(page.relative_to(ROOT)) for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]))

SECTION = re.compile(r"design((?:[ ,\n]| and |§\d+)+)")
RULE = re.compile(r"partition rules?[ \n]((?:\d+|, | and | to |–)+)")
FAULT = re.compile(r"\bfaults?[ \n]((?:\d+|, | and | to )+)", re.IGNORECASE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")


def cited(pattern: re.Pattern[str]) -> Iterator[tuple[str, int]]:
    for path in (path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")):
        for found in pattern.findall(path.read_text("utf-8")):
            yield from ((path.name, int(number)) for number in re.findall(r"\d+", found))


def test_every_section_of_the_design_that_is_cited_exists() -> None:
    sections = {int(n) for n in re.findall(r"^## (\d+)\.", (ROOT / "docs/DESIGN.md").read_text("utf-8"), re.MULTILINE)}
    found = set(cited(SECTION))
    assert found
    assert {one for one in found if one[1] not in sections} == set()


def test_every_partition_rule_that_is_cited_or_proved_exists() -> None:
    rules = [int(n) for n in re.findall(r"^(\d+)\. ", (ROOT / "docs/PARTITION.md").read_text("utf-8"), re.MULTILINE)]
    found = set(cited(RULE))
    assert rules == list(RULES)
    assert found
    assert {one for one in found if one[1] not in rules} == set()


def test_every_fault_that_is_cited_is_in_the_table() -> None:
    known = {fault.number for fault in FAULTS}
    assert {one for one in cited(FAULT) if one[1] not in known} == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_documents_lead_somewhere(document: str) -> None:
    page = ROOT / document
    missing = [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert missing == []
