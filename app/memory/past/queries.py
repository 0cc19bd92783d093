"""The statements of the reading tools as they look back: the same texts with "current" meaning "at the moment $at".

A relation has been true in intervals (``valid_at`` to ``invalid_at``) and believed in intervals (``ingested_at`` to
``ended_at``); the earlier ones stand in ``past`` (partition rule 12), as JSON that Cypher cannot read: it is cut at its
keys, whose values are moments or null and hold no comma.
"""

from __future__ import annotations

import re
from typing import Final

from app.memory import queries as present
from app.store.statement import Statement, statement

__all__ = ["ENTITY_AT", "EXPANSION_AT", "NEIGHBOURHOOD_AT", "PAGE_AT", "PICKED_AT", "WIDE_NEIGHBOURHOOD_AT"]

_CURRENT: Final = "r.invalid_at IS NULL"
_ENDED: Final = "r.invalid_at IS NOT NULL"
_COPY: Final = re.compile(r"\b([abemn])\.layer IN \$layers")


def _earlier(key: str) -> str:
    return f"replace(split(split(p, '\"{key}\":')[1], ',')[0], '\"', '')"


def _from(key: str, *, open_: str) -> str:
    moment = _earlier(key)
    return f"CASE WHEN coalesce({moment}, 'null') = 'null' THEN {open_} ELSE datetime({moment}) <= $at END"


_EARLIER: Final = f"""(r.past IS NOT NULL AND any(p IN split(r.past, '}},{{') WHERE CASE WHEN $believed
        THEN {_from("ingested_at", open_="false")} AND NOT {_from("ended_at", open_="false")}
        ELSE {_from("valid_at", open_="true")} AND NOT {_from("invalid_at", open_="false")} END))"""
_HELD: Final = f"""(CASE WHEN $believed
        THEN coalesce(r.ingested_at, r.last_confirmed) <= $at AND (r.ended_at IS NULL OR r.ended_at > $at)
        ELSE (r.valid_at IS NULL OR r.valid_at <= $at) AND (r.invalid_at IS NULL OR r.invalid_at > $at) END
        OR {_EARLIER})"""
_BEGUN: Final = f"""(CASE WHEN $believed THEN coalesce(r.ingested_at, r.last_confirmed) <= $at
        ELSE r.valid_at IS NULL OR r.valid_at <= $at END
        OR (r.past IS NOT NULL AND any(p IN split(r.past, '}},{{') WHERE CASE WHEN $believed
        THEN {_from("ingested_at", open_="false")} ELSE {_from("valid_at", open_="true")} END)))"""


def _looking_back(name: str, now: Statement) -> Statement:
    """The statement ``now`` at the moment $at; with $believed a copy that was first seen later is not there."""
    text = now.text.removeprefix("CYPHER 25 ").replace(_ENDED, f"({_BEGUN} AND NOT {_HELD})").replace(_CURRENT, _HELD)
    return statement(name, _COPY.sub(r"\1.layer IN $layers AND (NOT $believed OR \1.first_seen <= $at)", text))


NEIGHBOURHOOD_AT: Final = _looking_back("memory.read_neighbourhood_at", present.NEIGHBOURHOOD)
WIDE_NEIGHBOURHOOD_AT: Final = _looking_back("memory.read_wide_neighbourhood_at", present.WIDE_NEIGHBOURHOOD)
ENTITY_AT: Final = _looking_back("memory.read_entity_at", present.ENTITY)
PAGE_AT: Final = _looking_back("memory.list_entities_at", present.PAGE)
PICKED_AT: Final = _looking_back("memory.read_picked_at", present.PICKED)
EXPANSION_AT: Final = _looking_back("memory.expand_seeds_at", present.EXPANSION)
