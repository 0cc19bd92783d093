"""Two copies of one relation as one. Pure: from exact images to an exact image."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson

from app.memory.compose import RELATION_KEYS
from app.memory.moments import moment_text, read_properties, stored_moment
from app.store.images import Image

__all__ = ["consolidated", "described_relation", "joined_extra", "moment_of"]

_PAST: Final = 50
_EVIDENCE: Final = 32 * 1024
_VALIDITY: Final = ("valid_at", "invalid_at", "ended_at", "ingested_at")


def consolidated(kept: Image, other: Image, now: datetime) -> Image:
    """``other`` joined into ``kept``: the greater weight, all evidence, properties that ``kept`` lacks.

    What holds beats what ended, the later end an earlier one; the times that lose are kept in ``past``. Of two that
    hold the earlier known beginning counts.
    """
    mine, theirs = kept["properties"], other["properties"]
    moments = {*kept["moments"], *other["moments"], "last_confirmed"}
    values: dict[str, Any] = {**theirs, **mine}
    values["weight"] = max(float(mine.get("weight", 0.5)), float(theirs.get("weight", 0.5)))
    values["last_confirmed"] = moment_text(now)
    values["evidence"] = _evidence(mine.get("evidence"), theirs.get("evidence"))
    values["extra"] = joined_extra(mine.get("extra"), theirs.get("extra"))
    first, second = (mine, theirs) if _rank(mine) >= _rank(theirs) else (theirs, mine)
    values |= {name: first.get(name) for name in _VALIDITY}
    if "invalid_at" not in mine and "invalid_at" not in theirs:
        # Without a known beginning what is told later of an older time would put an end to it.
        values["valid_at"] = _earlier(mine, theirs, "valid_at")
        values["ingested_at"] = _earlier(mine, theirs, "ingested_at")
    values["past"] = _past(first, second)
    values.pop("decay_state", None)  # it is computed from a weight that no longer counts
    properties = {name: value for name, value in sorted(values.items()) if value is not None}
    return {"properties": properties, "moments": sorted(moments & properties.keys())}


def joined_extra(mine: str | None, theirs: str | None) -> str | None:
    """Two ``extra`` texts as one; the first wins."""
    joined = {**(orjson.loads(theirs) if theirs else {}), **(orjson.loads(mine) if mine else {})}
    return orjson.dumps(joined).decode() if joined else None


def described_relation(image: Image) -> dict[str, Any]:
    """A relation's own properties, native and extra ones together."""
    held = image["properties"]
    native = {name: value for name, value in held.items() if name not in RELATION_KEYS}
    return {**(orjson.loads(held["extra"]) if held.get("extra") else {}), **native}


def moment_of(properties: Mapping[str, Any], name: str) -> datetime | None:
    """A moment of an image."""
    return stored_moment(read_properties([(name, properties.get(name))])[name])


def _rank(properties: Mapping[str, Any]) -> tuple[bool, float]:
    end = moment_of(properties, "invalid_at")
    return end is None, end.timestamp() if end else 0.0


def _earlier(mine: Mapping[str, Any], theirs: Mapping[str, Any], name: str) -> Any:
    known = [(moment, side[name]) for side in (mine, theirs) if (moment := moment_of(side, name)) is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def _past(first: Mapping[str, Any], second: Mapping[str, Any]) -> str | None:
    past = [interval for side in (first, second) for interval in orjson.loads(side.get("past") or "[]")]
    if "invalid_at" in second and _interval(second) != _interval(first):
        past.append(_interval(second))
    past += _before(first, second)
    distinct = {orjson.dumps(interval): interval for interval in past}
    ordered = sorted(distinct.values(), key=lambda interval: str(interval.get("invalid_at") or ""))
    return orjson.dumps(ordered[-_PAST:]).decode() if ordered else None


def _before(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The time before the beginning that only one of two current copies knows: the other denies no moment of it.

    It is what ``graph_relate`` keeps when it is told a beginning; what was believed is said by the relation itself.
    """
    if "invalid_at" in first or "invalid_at" in second or ("valid_at" in first) == ("valid_at" in second):
        return []
    undated, dated = (second, first) if "valid_at" in first else (first, second)
    told = moment_text(moment_of(undated, "ingested_at"))
    until = moment_text(moment_of(dated, "valid_at"))
    return [{**_interval(undated), "invalid_at": until, "ingested_at": told, "ended_at": told}]


def _interval(properties: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: moment_text(moment_of(properties, name)) for name in _VALIDITY}
    return {**times, "weight": properties.get("weight", 0.5)}


def _evidence(mine: str | None, theirs: str | None) -> str | None:
    pieces = dict.fromkeys(piece for text in (mine, theirs) if text for piece in text.split("\n"))
    return "\n".join(pieces).encode()[:_EVIDENCE].decode("utf-8", "ignore") or None
