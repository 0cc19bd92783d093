"""``config.json`` in the home folder: behaviour as the graph-memory server kept it, a layer under the environment.

What is unreadable or out of range costs no start: the default or the nearest value counts, and a warning says so once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from annotated_types import Ge, Gt, Le
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource

__all__ = ["BEHAVIOUR", "IN_ONE", "KEYS", "RATES", "Bounds", "Configured", "bounds", "read", "warnings"]

BEHAVIOUR: Final[Mapping[str, str]] = {
    "weights.explicit_statement": "weight_explicit",
    "weights.inferred": "weight_inferred",
    "weights.from_memory_file": "weight_from_file",
    "weights.project_context_boost": "weight_in_project",
    "weights.boost_on_confirm": "boost",
    "weights.weaken_on_correct": "weaken",
    "weights.boost_on_mention": "mention",
    "decay.edge_rate": "decay_edge_rate",
    "decay.prune_node_threshold": "prune_node_threshold",
    "decay.prune_edge_threshold": "prune_edge_threshold",
    "decay.prune_orphan_days": "prune_orphan_days",
    "query.default_max_hops": "query_hops",
    "query.default_min_weight": "query_min_weight",
    "query.default_limit": "query_limit",
    "affinity.hop_1_multiplier": "affinity_near",
    "affinity.hop_2_multiplier": "affinity_far",
    "dream.cooldown_hours": "dream_cooldown_hours",
    "dream.max_transcripts_per_run": "dream_items",
    "dream.chunk_size_lines": "transcript_page",
}
"""Each key that is a setting of ``MemorySettings``; ``decay.rates.<Type>`` joins its ``decay_rates``."""

KEYS: Final[Mapping[str, str]] = {**BEHAVIOUR, "query.cypher_timeout_ms": "cypher_seconds"}
"""The setting that each key is."""

RATES: Final = "decay.rates."
IN_ONE: Final[Mapping[str, float]] = {"query.cypher_timeout_ms": 1000.0}
"""How many of the key's units are one of the setting's."""
_DATABASE: Final = "neo4j."
_LEAST: Final = 0.001


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number may be."""

    least: float
    most: float
    whole: bool = False

    def __contains__(self, value: float) -> bool:
        return self.least <= value <= self.most and (not self.whole or value == int(value))

    def nearest(self, value: float) -> float:
        """The value that counts instead of one that is none."""
        inside = min(max(value, self.least), self.most)
        return float(int(inside)) if self.whole else inside


_RATE: Final = Bounds(_LEAST, 1.0)


def bounds(room: type[BaseSettings], key: str) -> Bounds:
    """What the number under ``key``, a setting of ``room``, may be."""
    if key.startswith(RATES):
        return _RATE
    field, in_one = room.model_fields[KEYS[key]], IN_ONE.get(key, 1.0)
    least, most = 0.0, float("inf")
    for rule in field.metadata:
        if isinstance(rule, Ge):
            least = float(str(rule.ge))
        elif isinstance(rule, Gt):
            least = float(str(rule.gt)) + _LEAST
        elif isinstance(rule, Le):
            most = float(str(rule.le))
    return Bounds(least * in_one, most * in_one, field.annotation is int)


class Configured(BaseSettings):
    """Settings below whose environment ``config.json`` counts."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The usual sources, and last the file."""
        file = InitSettingsSource(settings_cls, dict(cls._configured()[0]))
        return init_settings, env_settings, dotenv_settings, file_secret_settings, file

    @classmethod
    def warnings(cls) -> tuple[str, ...]:
        """What the file says of these settings that does not count as it stands there."""
        return cls._configured()[1]

    @classmethod
    def _configured(cls) -> tuple[dict[str, Any], tuple[str, ...]]:
        values: dict[str, Any] = {}
        said: list[str] = []
        for key, given in read(_path())[0].items():
            field = KEYS.get(key)
            if field is None or field not in cls.model_fields:
                continue
            within = bounds(cls, key)
            number = _number(key, given, within, said)
            if number is not None:
                values[field] = int(number) if within.whole else number / IN_ONE.get(key, 1.0)
        if "decay_rates" in cls.model_fields and (rates := _rates(said)):
            entries: tuple[str, ...] = cls.model_fields["decay_rates"].default
            known = dict(entry.split("=", 1) for entry in entries)
            values["decay_rates"] = tuple(f"{name}={rate}" for name, rate in (known | rates).items())
        return values, tuple(said)


def warnings() -> tuple[str, ...]:
    """What is wrong with the file as a whole, and which of its keys set nothing."""
    return read(_path())[1]


@cache
def read(path: Path) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """What ``path`` says by dotted key, and warnings. No file: nothing."""
    try:
        body = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}, ()
    except (OSError, ValueError):
        return {}, ("config.json cannot be read as JSON; the defaults count",)
    if not isinstance(body, dict):
        return {}, ("config.json is no JSON object; the defaults count",)
    flat = _flat(body)
    said: list[str] = []
    idle = sorted(key for key in flat if key not in KEYS and not key.startswith(RATES))
    if unknown := [key for key in idle if not key.startswith(_DATABASE)]:
        said.append(f"config.json: nothing here is set by {', '.join(unknown)}")
    if database := [key for key in idle if key.startswith(_DATABASE)]:
        said.append(f"config.json: {', '.join(database)}: only the environment names the database (NEO4J_URI, ...)")
    return flat, tuple(said)


def _path() -> Path:
    """The file in the home folder as the environment names it, before any setting is read."""
    named = os.environ.get("GRAPHKEEP_HOME") or os.environ.get("GRAPH_MEMORY_HOME") or "~/.graphkeep"
    return Path(named).expanduser() / "config.json"


def _rates(said: list[str]) -> dict[str, str]:
    rates: dict[str, str] = {}
    for key, given in read(_path())[0].items():
        name = key.removeprefix(RATES)
        if name == key:
            continue
        if not name.isidentifier():
            said.append(f"config.json: {key} names no type; it does not count")
            continue
        number = _number(key, given, _RATE, said)
        if number is not None:
            rates[name] = f"{number:g}"
    return rates


def _flat(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, inner in value.items():
        found |= _flat(inner, f"{above}{name}.") if isinstance(inner, dict) else {f"{above}{name}": inner}
    return found


def _number(key: str, value: Any, within: Bounds, said: list[str]) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        said.append(f"config.json: {key} is no number; the default counts")
        return None
    if value in within:
        return float(value)
    nearest = within.nearest(value)
    said.append(f"config.json: {key} is {value:g}, taken as {nearest:g}")
    return nearest
