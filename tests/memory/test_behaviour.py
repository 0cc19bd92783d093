"""Every key of ``config.json`` changes what the memory does, and so does each that one tenant sets for itself."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from app.config_file import BEHAVIOUR, read
from app.context import TenantRules
from app.memory.prompts.loading import prompts, worded
from app.settings import MemorySettings
from app.store.database import Database
from tests.memory.conftest import Agent
from tests.memory.doing import backdate, do
from tests.memory.runs.test_http import asked

Probe = Callable[[Agent], Awaitable[Any]]

USES: Final = {"from_name": "Ann", "to_name": "Vim", "relation": "USES"}
OVER_TIME: Final = frozenset({"decay.rates.Person", "decay.edge_rate", "decay.prune_orphan_days"})
WRITING: Final = frozenset({"weights.boost_on_confirm", "weights.weaken_on_correct", "weights.boost_on_mention"})
ELSEWHERE: Final = frozenset({"dream.chunk_size_lines"})
"""Shown in tests/ingest/test_reading.py."""


def _advice(name: str, words: str) -> Probe:
    async def probe(agent: Agent) -> bool:
        prompt = next(each for each in prompts() if each.name == name)
        said = worded(prompt, agent.service.behaviour(agent.call("x").principal))
        return words in said.text or words in {argument.default for argument in said.arguments}

    return probe


def _tool(name: str, *path: str, **arguments: Any) -> Probe:
    async def probe(agent: Agent) -> Any:
        found: Any = await do(agent, name, **arguments)
        for key in path:
            found = found[key]
        return found

    return probe


async def _mentioned(agent: Agent) -> Any:
    return round((await agent.relate("Ann", "USES", "Vim", weight=0.1))["edge"]["weight"], 6)


async def _nodes(agent: Agent) -> int:
    return len((await agent.query("Ann"))["nodes"])


async def _limited(agent: Agent) -> tuple[int, int]:
    return len((await agent.query("Ann"))["nodes"]), len((await agent.entities())["entities"])


async def _factors(agent: Agent) -> list[float]:
    found = await agent.query("Ann", project_context="Atlas", min_weight=0, max_hops=4)
    return sorted({round(edge["effective_weight"] / edge["weight"], 2) for edge in found["edges"]})


async def _cooldown(agent: Agent) -> Any:
    return (await asked(agent))["cooldown_hours"]


async def _orphans(agent: Agent) -> list[str]:
    return sorted(node["id"] for node in (await do(agent, "graph_prune"))["nodes_to_prune"])


async def _fill(database: Database, agent: Agent, key: str) -> None:
    """Ann, four hops from the project; what she hardly likes; and Zoe, who stands alone. Where ``key`` needs them."""
    if PROBES[key][2] is False or key == "dream.cooldown_hours":
        return
    chain = ["Ann", "Vim", "Far", "Near", "Atlas"]
    types = dict.fromkeys([*chain, "Emacs", "Zoe"], "Concept") | {"Ann": "Person", "Zoe": "Person", "Atlas": "Project"}
    await agent.batch(
        [
            {"name": name, "type": type_, "properties": {"confidence": 0.6 if name == "Zoe" else 0.9}}
            for name, type_ in types.items()
        ],
        [
            *(
                {"from": one, "to": other, "relation": "USES", "weight": 0.6 if one == "Ann" else 0.9}
                for one, other in pairwise(chain)
            ),
            {"from": "Ann", "to": "Emacs", "relation": "LIKES", "weight": 0.2},
        ],
    )
    if key in OVER_TIME:
        await backdate(database, agent, 20)


PROBES: Final[dict[str, tuple[float, Probe, Any, Any]]] = {
    "weights.explicit_statement": (0.85, _advice("dream", "0.85 said explicitly"), False, True),
    "weights.inferred": (0.25, _advice("dream", "0.25 inferred"), False, True),
    "weights.from_memory_file": (0.55, _advice("bootstrap", "0.55 where it names"), False, True),
    "weights.project_context_boost": (0.15, _advice("capture", "0.15 more for what belongs"), False, True),
    "weights.boost_on_confirm": (0.05, _tool("graph_boost", "new_weight", **USES), 0.75, 0.65),
    "weights.weaken_on_correct": (0.3, _tool("graph_weaken", "new_weight", **USES), 0.4, 0.3),
    "weights.boost_on_mention": (0.1, _mentioned, 0.65, 0.7),
    "decay.rates.Person": (0.5, _tool("graph_decay", "nodes_flagged_for_pruning", dry_run=True), 0, 1),
    "decay.edge_rate": (0.5, _tool("graph_decay", "edges_below_threshold", dry_run=True), 0, 5),
    "decay.prune_node_threshold": (0.7, _tool("graph_prune", "node_count"), 0, 1),
    "decay.prune_edge_threshold": (0.3, _tool("graph_prune", "edge_count"), 0, 1),
    "decay.prune_orphan_days": (10, _orphans, [], ["zoe"]),
    "query.default_max_hops": (1, _nodes, 3, 2),
    "query.default_min_weight": (0.1, _nodes, 3, 4),
    "query.default_limit": (2, _limited, (3, 7), (2, 2)),
    "affinity.hop_1_multiplier": (2, _factors, [1.0, 1.15, 1.3], [1.0, 1.15, 2.0]),
    "affinity.hop_2_multiplier": (1.2, _factors, [1.0, 1.15, 1.3], [1.0, 1.2, 1.3]),
    "dream.cooldown_hours": (12, _cooldown, 4, 12),
    "dream.max_transcripts_per_run": (25, _advice("dream", "25"), False, True),
}
"""A value of each key, what shows it, and what that shows without the key and with it."""


def test_no_key_is_without_a_probe() -> None:
    assert set(PROBES) - {"decay.rates.Person"} == set(BEHAVIOUR) - ELSEWHERE


@pytest.mark.shows("graph_query", 11)
@pytest.mark.parametrize("key", PROBES)
async def test_a_key_changes_what_the_memory_does(
    key: str, database: Database, plain_agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, probe, usual, changed = PROBES[key]
    monkeypatch.setenv("GRAPHKEEP_HOME", str(tmp_path))
    nested: Any = value
    for name in reversed(key.split(".", 2)):
        nested = {name: nested}
    (tmp_path / "config.json").write_text(json.dumps(nested))
    read.cache_clear()
    own = Agent(plain_agent.service, plain_agent.tenant, ("",), "", TenantRules(behaviour=((key, value),)))
    assert own.service.behaviour(own.call("x").principal) == MemorySettings()
    await _fill(database, plain_agent, key)
    assert await probe(plain_agent) == usual
    if key in WRITING:
        own.tenant += "-own"
        await _fill(database, own, key)
    assert await probe(own) == changed
