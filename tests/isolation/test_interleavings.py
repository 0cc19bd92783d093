"""Random interleavings: each caller's answers are those of a tenant where only what it may see was ever written.

The model knows no rules of its own: every caller has a twin tenant, into which each write to a layer that the caller
may read is replayed by the one who made it. Answers in the shared tenant and in the caller's twin must be equal.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from app.cli.toolsets import every_tool
from tests.isolation.callers import HELD, Caller, Gate, Reply

SEED = int(os.environ.get("GRAPHKEEP_ISOLATION_SEED", "20260728"))
EXAMPLES = 15
SOAK_EXAMPLES = 300

CALLERS = (
    Caller("wide", "one", ("",), ("",)),
    Caller("in_a", "one", ("", "a"), ("a",)),
    Caller("in_b", "one", ("", "b"), ("b",)),
    Caller("sees_all", "one", ("", "a", "b")),
    Caller("in_a", "two", ("", "a"), ("a", "")),
)

NAMES = ("Ada Lovelace", "ADA lovelace", "Ada.Lovelace", "Ada Lovelase", "Tea", "TEA", "Apollo", "Qzx", "Countess")
TYPES = ("Person", "Concept", "Project", "Fact")
WRITING = {tool.name for tool in every_tool() if not tool.read_only}
VERBS = ("USES", "WORKS_AT", "LOCATED_IN", "ALIAS_OF", "RELATED_TO", "CONTRADICTS")
TEXTS = ("tea with numbers", "the engine weaves patterns", "numbers of the engine", "secret tea")

names = st.sampled_from(NAMES)
maybe = st.none()


def _given(**parts: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments; what is drawn as None is left out."""
    return st.fixed_dictionaries(parts).map(
        lambda drawn: {key: value for key, value in drawn.items() if value is not None}
    )


writes = st.tuples(
    st.just("graph_relate"),
    _given(
        from_name=names,
        from_type=st.sampled_from(TYPES),
        relation=st.sampled_from(VERBS),
        to_name=names,
        to_type=st.sampled_from(TYPES),
        weight=st.sampled_from([0.2, 0.5, 0.9]),
        evidence=maybe | st.sampled_from(TEXTS),
        valid_at=maybe | st.sampled_from(["2020-01-01", "2022-01-01", "2024-01-01"]),
        properties=st.sampled_from([{}, {"role": "lead"}, {"note": "x"}]),
    ),
)
batches = st.tuples(
    st.just("graph_relate"),
    st.lists(
        st.fixed_dictionaries(
            {
                "name": names,
                "type": st.sampled_from(TYPES),
                "properties": st.sampled_from([{}, {"content": TEXTS[0]}, {"content": TEXTS[1]}, {"mood": "calm"}]),
            }
        ),
        min_size=1,
        max_size=3,
    ).flatmap(
        lambda entities: names.map(
            lambda lost: {
                "batch": {
                    "entities": entities,
                    "relations": [{"from": entities[0]["name"], "relation": "QUOTES", "to": lost}],
                }
            }
        )
    ),
)
sent = st.tuples(
    st.just("graph_ingest"),
    st.one_of(
        st.fixed_dictionaries(
            {
                "action": st.just("queue"),
                "file_name": st.sampled_from(["a.md", "b.md"]),
                "content": st.sampled_from(TEXTS),
            }
        ),
        st.fixed_dictionaries({"action": st.just("status")}, optional={"limit": st.sampled_from([1, 10])}),
    ),
)
reads = st.one_of(
    st.tuples(st.just("graph_read_transcript"), st.fixed_dictionaries({"session_id": names})),
    st.tuples(
        st.just("graph_query"),
        _given(
            entities=st.lists(names, min_size=1, max_size=2),
            max_hops=st.sampled_from([1, 2]),
            min_weight=st.sampled_from([0, 0.4]),
            limit=st.sampled_from([2, 20]),
            current_only=st.booleans(),
        ),
    ),
    st.tuples(st.just("graph_entities"), _given(id=names)),
    st.tuples(st.just("graph_entities"), _given(search=st.sampled_from(TEXTS), limit=st.sampled_from([1, 20]))),
    st.tuples(st.just("graph_entities"), _given(sort_by=st.sampled_from(["name", "last_seen", "confidence"]))),
    st.tuples(
        st.just("graph_search"),
        _given(query=st.sampled_from(TEXTS) | names, min_similarity=st.just(0), explain=st.just(True)),
    ),
    st.tuples(st.just("graph_stats"), st.just({})),
    st.tuples(st.just("graph_contradictions"), _given(include_resolved=st.booleans())),
    st.tuples(st.just("graph_validate"), _given(max_issues=st.sampled_from([1, 200]))),
    st.tuples(st.just("graph_build_context"), _given(topic=names, token_budget=st.sampled_from([500, 4000]))),
    st.tuples(st.just("graph_communities"), _given(weight_threshold=st.sampled_from([0, 0.4]))),
    st.tuples(
        st.just("graph_merge_suggestions"), _given(min_score=st.just(0.1), min_embedding_similarity=st.just(0.5))
    ),
)
embeds = st.tuples(st.just("graph_reembed"), _given(force=st.booleans()))
ends = {"from_name": names, "to_name": names}
changes = st.one_of(
    st.tuples(
        st.sampled_from(["graph_boost", "graph_weaken"]),
        _given(**ends, relation=st.sampled_from(VERBS), amount=maybe | st.just(0.1)),
    ),
    st.tuples(st.just("graph_resolve"), _given(**ends, resolution=st.just("decided"))),
    st.tuples(st.just("graph_delete"), _given(entity_id=names)),
    st.tuples(
        st.just("graph_prune"),
        _given(mode=st.sampled_from(["preview", "execute"]), edge_threshold=st.sampled_from([0.1, 0.4])),
    ),
    st.tuples(st.just("graph_decay"), _given(dry_run=st.booleans())),
    st.tuples(
        st.just("graph_merge"),
        _given(source_id=names, target_id=names, reason=st.just("one thing"), dry_run=st.booleans()),
    ),
    st.tuples(
        st.just("graph_unmerge"),
        _given(
            entity_id=names,
            new_entity_name=names,
            new_entity_type=st.sampled_from(TYPES),
            edges_to_move=names.map(
                lambda other: [{"other_entity_id": other, "relation_type": "USES", "direction": "out"}]
            ),
            reason=st.just("two things"),
        ),
    ),
    st.tuples(st.just("graph_undo"), st.just({})),
)
beside = st.one_of(
    st.tuples(
        st.just("graph_run"),
        _given(
            action=st.sampled_from(["begin", "finish", "abort", "status"]), device=st.just("d"), lease=st.just(HELD)
        ),
    ),
    st.tuples(st.just("graph_audit"), st.just({"event": "error", "data": {"context": "x", "message": "y"}})),
    st.tuples(st.just("graph_export"), st.just({})),
)
writing = st.one_of(writes, batches, sent, embeds, changes, beside)


@dataclass(frozen=True)
class Move:
    """One call of one caller."""

    who: int
    tool: str
    arguments: dict[str, Any]

    @property
    def caller(self) -> Caller:
        return CALLERS[self.who]


@st.composite
def moves(draw: st.DrawFn) -> Move:
    who = draw(st.integers(0, len(CALLERS) - 1))
    tool, arguments = draw(st.one_of(writing, reads) if CALLERS[who].writes else reads)
    return Move(who, tool, arguments)


rounds = st.lists(st.lists(moves(), min_size=1, max_size=3, unique_by=lambda move: move.who), min_size=2, max_size=6)


class Play:
    """One example: the shared tenants, and a twin for each caller."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._name = secrets.token_hex(6)

    async def run(self, rounds: Sequence[Sequence[Move]]) -> None:
        for round_ in rounds:
            if _independent(round_):
                replies = await asyncio.gather(*(self._shared(move) for move in round_))
                for move, reply in zip(round_, replies, strict=True):
                    await self._replay(move, reply)
            else:
                for move in round_:
                    await self._replay(move, await self._shared(move))

    async def _shared(self, move: Move) -> Reply:
        return await self._gate.ask(move.caller.of(f"d{self._name}{move.caller.tenant}"), move.tool, move.arguments)

    async def _replay(self, move: Move, reply: Reply) -> None:
        mine = await self._twin(move, move.who)
        assert reply.steady == mine.steady, f"{move} was answered by {reply.text}, alone it would be {mine.text}"
        if reply.failed or not _writes(move):
            return
        layer = move.caller.writes[0]
        for who, other in enumerate(CALLERS):
            if who != move.who and other.tenant == move.caller.tenant and layer in other.reads:
                assert not (await self._twin(move, who)).failed

    async def _twin(self, move: Move, whose: int) -> Reply:
        return await self._gate.ask(move.caller.of(f"d{self._name}twin{whose}"), move.tool, move.arguments)


def _writes(move: Move) -> bool:
    return move.tool in WRITING and move.arguments.get("action") != "status"


def _independent(round_: Sequence[Move]) -> bool:
    """Whether the calls may overlap in any order: in each tenant at most one writes, and where nobody else reads.

    (Two writers of one tenant would leave the order of their moments to chance, which a later reader of both sees.)
    """
    for move in filter(_writes, round_):
        for other in round_:
            same = other is not move and other.caller.tenant == move.caller.tenant
            if same and (_writes(other) or move.caller.writes[0] in other.caller.reads):
                return False
    return True


async def _hold(gate: Gate, examples: int, with_seed: int) -> None:
    print(f"GRAPHKEEP_ISOLATION_SEED={with_seed}")
    loop = asyncio.get_running_loop()

    @seed(with_seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
    )
    @given(rounds)
    def hold(drawn: list[list[Move]]) -> None:
        asyncio.run_coroutine_threadsafe(Play(gate).run(drawn), loop).result()

    await asyncio.to_thread(hold)


def test_every_tool_is_among_the_moves(gate_tools: set[str]) -> None:
    drawn: set[str] = set()

    @seed(1)
    @settings(max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.one_of(writing, reads))
    def collect(move: tuple[str, Any]) -> None:
        drawn.add(move[0])

    collect()
    assert drawn == gate_tools


@pytest.fixture
def gate_tools(registry: Any) -> set[str]:
    return {tool.name for tool in registry if not tool.operators_only}


async def test_nobody_notices_what_others_do_out_of_sight(gate: Gate) -> None:
    await _hold(gate, EXAMPLES, SEED)


@pytest.mark.soak
async def test_nobody_notices_what_others_do_out_of_sight_for_long(gate: Gate) -> None:
    await _hold(gate, SOAK_EXAMPLES, int(os.environ.get("GRAPHKEEP_ISOLATION_SEED", secrets.randbelow(2**31))))
