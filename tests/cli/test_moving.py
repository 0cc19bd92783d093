"""What the commands say that move a memory."""

from __future__ import annotations

from app.cli import moving


def test_who_imported_reads_that_earlier_changes_cannot_be_undone_any_more() -> None:
    found = {
        "tenant": "home",
        "relations": 2,
        "created_relations": 1,
        "entities": 3,
        "created_entities": 3,
        "without_vector": 0,
    }
    learned, ended = moving._learned(found).splitlines()
    assert learned == "Tenant home learned 2 relations (1 of them new) among 3 entities (3 new)."
    assert "undo records" in ended
