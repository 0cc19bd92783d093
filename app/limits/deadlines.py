"""How long a call may take, by the class its tool declares."""

from __future__ import annotations

from app.context import Deadline
from app.contract import DeadlineClass
from app.settings import LimitSettings

__all__ = ["Deadlines"]


class Deadlines:
    """The deadline table of the settings."""

    def __init__(self, settings: LimitSettings) -> None:
        self._seconds = {
            DeadlineClass.READ: settings.read_seconds,
            DeadlineClass.SEMANTIC: settings.semantic_seconds,
            DeadlineClass.WRITE: settings.write_seconds,
            DeadlineClass.CYPHER: settings.cypher_seconds,
            DeadlineClass.WHOLE_GRAPH: settings.whole_graph_seconds,
        }

    def of(self, kind: DeadlineClass) -> Deadline:
        """The moment by which a call of this class that begins now must be done."""
        return Deadline.after(self._seconds[kind])
