"""What holds for one tenant alone, as its record keeps it: one JSON object with the rules that were set."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any, Final

from app.context import TenantRules

__all__ = ["read_rules", "write_rules"]

_NAMES: Final = frozenset(each.name for each in fields(TenantRules))


def read_rules(text: str | None) -> TenantRules:
    """The rules in a record; a rule that only a newer version knows is passed over."""
    kept: dict[str, Any] = json.loads(text) if text else {}
    known = {name: value for name, value in kept.items() if name in _NAMES}
    if known.get("single_valued") is not None:
        known["single_valued"] = frozenset(known["single_valued"])
    if known.get("behaviour") is not None:
        known["behaviour"] = tuple(sorted((str(key), float(value)) for key, value in known["behaviour"].items()))
    return TenantRules(**known)


def write_rules(rules: TenantRules) -> str | None:
    """The text of a record, equal for equal rules; None when nothing is set."""
    given = {name: value for name, value in asdict(rules).items() if value is not None}
    if "single_valued" in given:
        given["single_valued"] = sorted(given["single_valued"])
    if "behaviour" in given:
        given["behaviour"] = dict(given["behaviour"])
    return json.dumps(given, sort_keys=True) if given else None
