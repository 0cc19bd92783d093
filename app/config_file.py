"""``config.json`` in the home folder: behaviour as the graph-memory server kept it, a layer under the environment.

What is unreadable or out of range costs no start: the default or the nearest value counts, and ``read`` says so once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource

__all__ = ["FIELDS", "Configured", "read"]

FIELDS: Final[Mapping[str, str]] = {
    "weights.boost_on_confirm": "boost",
    "weights.weaken_on_correct": "weaken",
    "weights.boost_on_mention": "mention",
    "decay.edge_rate": "decay_edge_rate",
    "decay.prune_node_threshold": "prune_node_threshold",
    "decay.prune_edge_threshold": "prune_edge_threshold",
    "decay.prune_orphan_days": "prune_orphan_days",
}
"""The setting of ``MemorySettings`` that each of its keys is; ``decay.rates.<Type>`` joins ``decay_rates``."""

_RATES: Final = "decay.rates."
_LEAST_RATE: Final = 0.001
_MOST_DAYS: Final = 36_500.0

Found = tuple[Mapping[str, Any], tuple[str, ...]]
"""Values by field, and warnings."""


def _home_folder() -> Path:
    """The home folder as the environment names it, before any setting is read."""
    named = os.environ.get("GRAPHKEEP_HOME") or os.environ.get("GRAPH_MEMORY_HOME") or "~/.graphkeep"
    return Path(named).expanduser()


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
        """What the file says that does not count as it stands there."""
        return cls._configured()[1]

    @classmethod
    def _configured(cls) -> Found:
        return read(_home_folder() / "config.json", cls.model_fields["decay_rates"].default)


@cache
def read(path: Path, rates: tuple[str, ...] = ()) -> Found:
    """What ``path`` says; ``rates`` are the default ``Type=rate`` entries that it overlays. No file: nothing."""
    try:
        body = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}, ()
    except (OSError, ValueError):
        return {}, ("config.json cannot be read as JSON; the defaults count",)
    if not isinstance(body, dict):
        return {}, ("config.json is no JSON object; the defaults count",)
    warnings: list[str] = []
    flat = _flat(body)
    values = _values(flat, warnings)
    decay = _decay(flat, warnings)
    idle = sorted(key for key, _ in flat if key not in FIELDS and not key.startswith(_RATES))
    if idle:
        warnings.append(f"config.json: nothing here is set by {', '.join(idle)}")
    if decay:
        values["decay_rates"] = tuple(f"{name}={rate}" for name, rate in (_pairs(rates) | decay).items())
    return values, tuple(warnings)


def _values(flat: list[tuple[str, Any]], warnings: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in flat:
        if key not in FIELDS:
            continue
        days = key.endswith("_days")
        number = _number(
            key, value, _LEAST_RATE if key.endswith("rate") else 0.0, _MOST_DAYS if days else 1.0, warnings
        )
        if number is not None:
            values[FIELDS[key]] = int(number) if days else number
    return values


def _decay(flat: list[tuple[str, Any]], warnings: list[str]) -> dict[str, str]:
    rates: dict[str, str] = {}
    for key, value in flat:
        name = key.removeprefix(_RATES)
        if name == key:
            continue
        if not name.isidentifier():
            warnings.append(f"config.json: {key} names no type; it does not count")
            continue
        number = _number(key, value, _LEAST_RATE, 1.0, warnings)
        if number is not None:
            rates[name] = f"{number:g}"
    return rates


def _pairs(entries: tuple[str, ...]) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in entries)


def _flat(value: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, inner in value.items():
        found += _flat(inner, f"{above}{name}.") if isinstance(inner, dict) else [(f"{above}{name}", inner)]
    return found


def _number(key: str, value: Any, least: float, most: float, warnings: list[str]) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        warnings.append(f"config.json: {key} is no number; the default counts")
        return None
    clamped = min(max(float(value), least), most)
    if clamped != value:
        warnings.append(f"config.json: {key} is {value:g}, taken as {clamped:g}")
    return clamped
