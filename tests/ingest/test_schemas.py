"""What arguments may hold."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.ingest.schemas import MOST_LEARNED, IngestInput


@pytest.mark.parametrize("counted", ["entities", "edges"])
def test_a_count_that_the_database_could_not_hold_is_refused(counted: str) -> None:
    given = {"action": "complete", "id": "in-1", "lease": "le-1"}
    IngestInput.model_validate({**given, counted: MOST_LEARNED})
    with pytest.raises(ValidationError):
        IngestInput.model_validate({**given, counted: 2**63})
