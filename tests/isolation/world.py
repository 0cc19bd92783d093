"""What the tenants of the harness hold: the same names, ids and texts, and beside them what must never show.

Everything hidden carries ``CANARY`` or one of the ``SPELLINGS``. A toolset that writes adds its own steps here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.isolation import sent
from tests.isolation.callers import HELD, Caller, Gate, Step

CANARY = "qzx"
"""In every text, type, relation and name of a hidden record, in whatever case."""

SPELLINGS = ("ADA_LOVELACE", "Ada.Lovelace", "ANALYTICAL engine", "APOLLO", "babbage LTD", "TEA")
"""How hidden records spell the names of visible ones: the ids are the same."""

OF_LAYER_B, OF_OTHER_TENANT = "qzxharbourb", "qzxlanternt"
"""Names that only layer b, and only the other tenant, knows."""

TOLD = "The analytical engine weaves algebraic patterns"
"""A sentence that visible and hidden records share word for word."""

WIDE = Caller("wide", "", ("",), ("",))
IN_A = Caller("in_a", "", ("", "a"), ("a",))
IN_B = Caller("in_b", "", ("", "b"), ("b",))
IN_C = Caller("in_c", "", ("c",), ("c",))

READERS = (
    Caller("reads_a", "", ("", "a")),
    Caller("reads_wide", "", ("",)),
    Caller("reads_a_alone", "", ("a",)),
    Caller("reads_nothing", "", ()),
)
"""Who the cells are asked by. None of them may read b or c."""


def _entity(name: str, type_: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "properties": properties}


def _relation(source: str, verb: str, target: str, **more: Any) -> dict[str, Any]:
    return {"from": source, "relation": verb, "to": target, **more}


def _batch(caller: Caller, entities: Sequence[Any], relations: Sequence[Any] = (), **more: Any) -> Step:
    return Step(caller, "graph_relate", {"batch": {"entities": list(entities), "relations": list(relations), **more}})


def _led(caller: Caller, session: str, changelog: str) -> list[Step]:
    """A run that read a conversation, said something of it, and is over."""
    return [
        Step(caller, "graph_run", {"action": "begin", "source": changelog}),
        Step(
            caller,
            "graph_run",
            {"action": "progress", "lease": HELD, "session_id": session, "through": "2025-06-01", "edges": 2},
        ),
        Step(caller, "graph_audit", {"event": "transcript_end", "data": {"session_id": session, "note": changelog}}),
        Step(caller, "graph_run", {"action": "finish", "lease": HELD, "changelog": changelog}),
    ]


VISIBLE: dict[str, Sequence[Step]] = {
    "memory": (
        _batch(
            WIDE,
            [
                _entity("Ada Lovelace", "Person", description="countess of numbers", confidence=0.9),
                _entity("Apollo", "Project", directory="/home/ada/apollo", source_file="apollo.md"),
                _entity("Analytical Engine", "Technology", content=TOLD),
                *(_entity(f"note {number}", "Concept", summary=f"note on engine part {number}") for number in range(8)),
            ],
            [
                _relation("Ada Lovelace", "WORKS_ON", "Apollo", weight=0.8, evidence="Ada leads Apollo."),
                _relation("Apollo", "USES_TECH", "Analytical Engine", weight=0.7, properties={"role": "core"}),
                *(_relation("Analytical Engine", "RELATED_TO", f"note {number}", weight=0.5) for number in range(8)),
            ],
            source_session="first talk",
        ),
        _batch(
            WIDE,
            [
                _entity("Babbage Ltd", "Organization"),
                _entity("Royal Society", "Organization"),
                _entity("Lace", "Concept"),
            ],
            [
                _relation("Ada Lovelace", "WORKS_AT", "Babbage Ltd", valid_at="2020-01-01", evidence="at Babbage"),
                _relation("Ada Lovelace", "WORKS_AT", "Royal Society", valid_at="2022-05-01"),
            ],
        ),
        _batch(
            IN_A,
            [
                _entity("Ada Lovelace", "Person", mood="curious"),
                _entity("Tea", "Object"),
                _entity("talk 1/1: Ada", "Fact", content=TOLD, source_ref="talk-1/1"),
                _entity("talk 1/2: Ada", "Fact", content="She prefers tea with numbers", source_ref="talk-1/2"),
            ],
            [
                _relation("Ada Lovelace", "PREFERS", "Tea", weight=0.6, evidence="She prefers tea with numbers"),
                _relation("Ada Lovelace", "WORKS_ON", "Apollo", weight=0.9, evidence="still Apollo"),
                _relation("talk 1/1: Ada", "ATTRIBUTED_TO", "Ada Lovelace", weight=0.7),
            ],
        ),
        Step(
            IN_A,
            "graph_relate",
            {
                "from_name": "Countess",
                "from_type": "Person",
                "to_name": "Ada Lovelace",
                "to_type": "Person",
                "relation": "ALIAS_OF",
            },
        ),
        _batch(
            IN_A,
            [_entity("London", "Object"), _entity("Paris", "Object")],
            [
                _relation("Ada Lovelace", "LOCATED_IN", "London", valid_at="2019-01-01"),
                _relation("Ada Lovelace", "LOCATED_IN", "Paris", valid_at="2021-01-01"),
                _relation("London", "CONTRADICTS", "Paris", properties={"description": "where she lives"}),
                _relation("Ada Lovelace", "WORKS_AT", "Apollo", valid_at="2023-01-01"),
            ],
        ),
        _batch(
            WIDE,
            [],
            [
                _relation("note 0", "CONTRADICTS", "note 1", properties={"detected_date": "2026-01-02"}),
                _relation("note 2", "CONTRADICTS", "note 3", properties={"detected_date": "2026-01-01"}),
            ],
        ),
        *_led(WIDE, "first talk", "Ada leads Apollo"),
    ),
    "ingest": sent.visible(WIDE, IN_A),
}
"""What the readers may see, by toolset."""


def _hidden(caller: Caller, mark: str) -> list[Step]:
    """What one hidden partition holds: the same things under other spellings and types, and things of its own."""
    secret = f"Qzx {mark}"
    own = {"b": OF_LAYER_B, "t": OF_OTHER_TENANT}.get(mark, f"qzxelsewhere{mark}")
    return [
        _batch(
            caller,
            [
                _entity("ADA_LOVELACE", "QzxType", description=f"{secret} secret", confidence=1.0, mood=secret),
                _entity("APOLLO", "Project", directory="/home/ada/apollo", note=secret),
                _entity("Apollo", "QzxType", directory="/home/ada/qzx", source_file="qzx.md"),
                _entity("ANALYTICAL engine", "Person", content=f"{TOLD} qzx"),
                _entity("babbage LTD", "Person", content=f"{secret} numbers note engine tea"),
                _entity("TEA", "Person"),
                _entity("Lace", "QzxType"),
                _entity(own, "Person", content=f"qzxanchor{mark} {TOLD}", directory="/home/qzx"),
                _entity("talk 1/1: Ada", "QzxType", content=f"{TOLD} {secret}", source_ref="talk-1/1"),
                *(
                    _entity(f"qzx note {number}", "Concept", summary=f"note on engine part {number}")
                    for number in range(8)
                ),
            ],
            [
                _relation("ADA_LOVELACE", "QZX_VERB", own, weight=1.0, evidence=f"tea numbers {secret}"),
                _relation(
                    "ADA_LOVELACE", "WORKS_ON", "Apollo", weight=1.0, evidence=secret, properties={"role": secret}
                ),
                _relation("ADA_LOVELACE", "WORKS_AT", "babbage LTD", valid_at="2024-01-01", evidence=secret),
                _relation("ANALYTICAL engine", "RELATED_TO", own, weight=1.0),
                _relation("Lace", "CONTRADICTS", own, weight=1.0),
                *(
                    _relation("ANALYTICAL engine", "RELATED_TO", f"qzx note {number}", weight=1.0)
                    for number in range(8)
                ),
            ],
            source_session="qzx talk",
        ),
        _batch(
            caller,
            [_entity("Ada.Lovelace", "Person"), _entity("Qzx Old", "Organization"), _entity("Qzx New", "Organization")],
            [
                _relation("Ada.Lovelace", "LOCATED_IN", "Qzx Old", valid_at="2018-01-01"),
                _relation("Ada.Lovelace", "LOCATED_IN", "Qzx New", valid_at="2025-01-01"),
                _relation("Ada.Lovelace", "PREFERS", "TEA", weight=1.0, evidence="qzx tea"),
            ],
        ),
        Step(
            caller,
            "graph_relate",
            {
                "from_name": "Enchantress",
                "from_type": "Person",
                "to_name": "Ada.Lovelace",
                "to_type": "Person",
                "relation": "ALIAS_OF",
                "evidence": "qzx",
                "idempotency_key": "the same key",
            },
        ),
        *_led(caller, "second talk", f"{secret} learnt"),
    ]


HIDDEN: dict[str, Sequence[Step]] = {
    "memory": (*_hidden(IN_B, "b"), *_hidden(IN_C, "c")),
    "ingest": (*sent.hidden(IN_B, "b"), *sent.hidden(IN_C, "c")),
    "addresses": (sent.fetched(IN_B, "b"), sent.fetched(IN_C, "c")),
}
"""What the tenant's other layers hold, by toolset; and what came from addresses, where the gateway fetches."""

FOREIGN: dict[str, Sequence[Step]] = {
    "memory": (
        *_hidden(WIDE, "t"),
        *_hidden(IN_A, "u"),
        *_hidden(IN_B, "v"),
        *VISIBLE["memory"],
    ),
    "ingest": (
        *sent.hidden(WIDE, "t"),
        *sent.hidden(IN_A, "u"),
        *sent.hidden(IN_B, "v"),
        *VISIBLE["ingest"],
    ),
    "addresses": (sent.fetched(WIDE, "t"), sent.fetched(IN_A, "u"), sent.fetched(IN_B, "v")),
}
"""What the other tenant holds, likewise: in the layers of the same names too, by the same people."""


@dataclass(frozen=True)
class Worlds:
    """Data ids: a tenant among hidden layers and another tenant, and its twin that is alone in the world."""

    crowded: str
    lonely: str
    foreign: str


async def play(gate: Gate, tenant: str, steps: Mapping[str, Sequence[Step]]) -> None:
    """Do the steps in a tenant; each must be applied."""
    for step in (step for some in steps.values() for step in some):
        reply = await gate.ask(step.caller.of(tenant), step.tool, step.arguments)
        assert not reply.failed, reply.text


async def build(gate: Gate, name: str) -> Worlds:
    """Both worlds. What is hidden is written before and again after what is visible."""
    worlds = Worlds(f"d{name}crowded", f"d{name}lonely", f"d{name}foreign")
    await play(gate, worlds.crowded, HIDDEN)
    await play(gate, worlds.foreign, FOREIGN)
    await play(gate, worlds.crowded, VISIBLE)
    await play(gate, worlds.lonely, VISIBLE)
    await play(gate, worlds.crowded, HIDDEN)
    return worlds


def leaks(text: str, said: str = "") -> list[str]:
    """What of the hidden records shows in ``text``, the words that the caller said itself apart."""
    plain = text.replace(said, "") if said else text
    found = [spelling for spelling in SPELLINGS if spelling in plain]
    return [*found, CANARY] if CANARY in plain.lower() else found
