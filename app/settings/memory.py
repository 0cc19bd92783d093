"""How the memory behaves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from pydantic import Field, field_validator

from app.config_file import BEHAVIOUR, RATES, Configured, bounds
from app.settings.room import CommaList, Room

__all__ = ["MemorySettings"]


_RATE = re.compile(r"[A-Za-z][A-Za-z0-9_]*\s*=\s*(?P<rate>[01](?:\.\d+)?)\Z")


class MemorySettings(Configured, Room):
    """How what is remembered grows stronger, fades and goes, and what holds where a call says nothing."""

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
    query_hops: int = Field(default=2, ge=0, le=4, description="max_hops of graph_query, unless the call says.")
    query_min_weight: float = Field(
        default=0.3, ge=0, le=1, description="min_weight of graph_query, unless the call says."
    )
    query_limit: int = Field(
        default=20, ge=1, le=200, description="limit of graph_query and graph_entities, unless the call says."
    )
    affinity_near: float = Field(
        default=1.3,
        ge=0,
        le=10,
        description="Factor of a relation's weight that touches an entity one hop from the active project.",
    )
    affinity_far: float = Field(default=1.15, ge=0, le=10, description="The same two hops from it.")
    transcript_page: int = Field(
        default=100, ge=1, le=500, description="limit of graph_read_transcript (messages), unless the call says."
    )
    dream_cooldown_hours: float = Field(
        default=4, ge=0, le=8760, description="Hours after a dream in which a session begins without a word of more."
    )
    dream_items: int = Field(default=10, ge=1, le=1000, description="max_items of the prompt `dream`, unless given.")
    weight_explicit: float = Field(
        default=0.7, ge=0, le=1, description="What the prompts advise as the weight of what was said explicitly."
    )
    weight_from_file: float = Field(
        default=0.5, ge=0, le=1, description="The same of what stands in a note or a memory file."
    )
    weight_inferred: float = Field(default=0.3, ge=0, le=1, description="The same of what was inferred.")
    weight_in_project: float = Field(
        default=0.1, ge=0, le=1, description="What they advise to add for what belongs to the conversation's project."
    )

    @field_validator("decay_rates")
    @classmethod
    def _rates_are_rates(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for entry in given:
            match = _RATE.match(entry)
            if match is None or not 0 < float(match["rate"]) <= 1:
                raise ValueError(f"{entry!r} is not of the form Person=0.998 with a rate above 0 and at most 1")
        return given

    def overlaid(self, own: Iterable[tuple[str, float]]) -> MemorySettings:
        """The same, but for the pairs of a key of config.json and a number in its range that one tenant has set."""
        fields: dict[str, float] = {}
        rates = dict(self.rates)
        for key, value in own:
            if key.startswith(RATES):
                rates[key.removeprefix(RATES)] = value
            elif key in BEHAVIOUR:  # not one that only a newer version knows
                fields[BEHAVIOUR[key]] = int(value) if bounds(type(self), key).whole else value
        if not fields and rates == self.rates:
            return self
        entries = tuple(f"{name}={rate:g}" for name, rate in rates.items())
        return self.model_construct(**{**self.model_dump(), **fields, "decay_rates": entries})

    @cached_property
    def rates(self) -> dict[str, float]:
        """The rates of ``decay_rates`` by type."""
        pairs = (entry.split("=", 1) for entry in self.decay_rates)
        return {name.strip(): float(rate) for name, rate in pairs}
