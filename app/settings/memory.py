"""How the memory behaves."""

from __future__ import annotations

import re
from functools import cached_property

from pydantic import Field, field_validator

from app.config_file import Configured
from app.settings.room import CommaList, Room

__all__ = ["MemorySettings"]


_RATE = re.compile(r"[A-Za-z][A-Za-z0-9_]*\s*=\s*(?P<rate>[01](?:\.\d+)?)\Z")


class MemorySettings(Configured, Room):
    """How what is remembered grows stronger, fades and goes."""

    boost: float = Field(
        default=0.15, ge=0, le=1, description="What graph_boost adds to a weight, unless the call says how much."
    )
    weaken: float = Field(
        default=0.2, ge=0, le=1, description="What graph_weaken takes from a weight, unless the call says how much."
    )
    mention: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="What being mentioned again adds to a weight that the call does not raise.",
    )
    decay_rates: CommaList = Field(
        default=(
            "Person=0.998",
            "Project=0.995",
            "Preference=0.999",
            "Concept=0.999",
            "Decision=0.997",
            "Fact=0.996",
            "Event=0.993",
            "Object=0.996",
            "Reasoning=0.996",
        ),
        description="By type of entity: the part of its confidence that is left after each day without a mention. "
        "Types that are not named here have GRAPHKEEP_DECAY_OTHER_RATE.",
    )
    decay_other_rate: float = Field(default=0.996, gt=0, le=1, description="The same for every other type.")
    decay_edge_rate: float = Field(
        default=0.997, gt=0, le=1, description="The part of a relation's weight that is left after each day."
    )
    prune_node_threshold: float = Field(
        default=0.1, ge=0, le=1, description="Confidence below which graph_prune takes entities, unless the call says."
    )
    prune_edge_threshold: float = Field(
        default=0.05, ge=0, le=1, description="Weight below which graph_prune takes relations, unless the call says."
    )
    prune_orphan_days: int = Field(
        default=30, ge=0, le=36500, description="Days unseen after which graph_prune takes entities without relations."
    )

    @field_validator("decay_rates")
    @classmethod
    def _rates_are_rates(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for entry in given:
            match = _RATE.match(entry)
            if match is None or not 0 < float(match["rate"]) <= 1:
                raise ValueError(f"{entry!r} is not of the form Person=0.998 with a rate above 0 and at most 1")
        return given

    @cached_property
    def rates(self) -> dict[str, float]:
        """The rates of ``decay_rates`` by type."""
        pairs = (entry.split("=", 1) for entry in self.decay_rates)
        return {name.strip(): float(rate) for name, rate in pairs}
