"""The order of the run: files that take minutes begin first, so that no worker idles while another ends a long one.

``pytest -n 2 --dist loadfile --no-loadscope-reorder`` hands the files out in the order of collection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

__all__ = ["LONGEST", "ordered"]

ROOT = Path(__file__).parent

LONGEST: Final = (
    "cli/test_dev.py",
    "e2e/test_first_connection.py",
    "e2e/test_database_away.py",
    "isolation/test_cells.py",
    "e2e/test_bad_input.py",
    "e2e/test_conversation.py",
    "store/test_embedded.py",
    "isolation/test_foreign_writes.py",
    "isolation/test_interleavings.py",
    "e2e/test_lives.py",
    "store/test_planning.py",
    "attacks/test_fuzz.py",
    "conformance/test_running_gateway.py",
    "graph/test_search.py",
)
"""Below ``tests/``; each took more than half a minute. All others follow in their own order."""


def ordered(items: list[pytest.Item]) -> list[pytest.Item]:
    """The items with those of the longest files first; within a file nothing moves."""
    places = {ROOT / name: place for place, name in enumerate(LONGEST)}
    return sorted(items, key=lambda item: places.get(item.path, len(places)))
