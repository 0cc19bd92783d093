"""How every tool is called in the cells of the matrix. A tool without a recipe fails the harness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from tests.isolation.callers import HELD, PUBLISHED
from tests.isolation.sent import PAGE, SECOND, TALK, THIRD
from tests.isolation.world import OF_LAYER_B, OF_OTHER_TENANT, TOLD


@dataclass(frozen=True)
class Aim:
    """What a call is after: the name of an entity, words of its text, its type."""

    subject: str
    words: str
    type: str = "Person"


OWN: Final = Aim("Ada Lovelace", f"{TOLD} with numbers")
RETIRED: Final = Aim("Babbage Ltd", "at Babbage", "Organization")
OTHER_LAYER: Final = Aim(OF_LAYER_B, "qzxanchorb")
OTHER_TENANT: Final = Aim(OF_OTHER_TENANT, "qzxanchort")
GUESSED: Final = Aim("qzxmundanez", "qzxnullityz")
"""Nothing has this name anywhere; it has the length and the first letters of the hidden ones."""

CELLS: Final[Mapping[str, tuple[Aim, str]]] = {
    "own": (OWN, "what the caller may see is found, and the answer is that of a tenant that is alone in the world"),
    "other tenant": (OTHER_TENANT, "the name of another tenant's record is answered like a name that nothing has"),
    "other layer": (OTHER_LAYER, "the name of a record in a layer that was not granted is answered likewise"),
    "guessed id": (GUESSED, "a made-up name or id is answered the same in a crowded tenant and in a lonely one"),
    "retired": (RETIRED, "what ended shows where asked for; what ended or was superseded out of sight never does"),
}
"""The cells of the matrix, and what is held in each. Everywhere: no canary in any answer, error, count or cursor."""

HIDDEN_CELLS: Final = ("other tenant", "other layer")


@dataclass(frozen=True)
class Recipe:
    """One way to call a tool."""

    title: str
    arguments: Callable[[Aim], dict[str, Any]]


_PROGRESS: Final = {"action": "progress", "lease": HELD}
_FINISH: Final = {"action": "finish", "lease": HELD, "changelog": "done"}


def _one(aim: Aim, **more: Any) -> dict[str, Any]:
    ends = {"from_name": aim.subject, "from_type": aim.type, "to_name": "Apollo", "to_type": "Project"}
    return {**ends, "relation": "USES", **more}


def _edge(aim: Aim, relation: str = "WORKS_ON", **more: Any) -> dict[str, Any]:
    return {"from_name": aim.subject, "to_name": "Apollo", "relation": relation, "reason": "asked", **more}


def _victim(aim: Aim, own: str) -> str:
    """What a call destroys: a small thing of one's own, so that the rest of the world stays, or what it is after."""
    return own if aim in {OWN, RETIRED} else aim.subject


def _merge(source: str, target: str, **more: Any) -> dict[str, Any]:
    return {"source_id": source, "target_id": target, "reason": "asked", **more}


def _unmerge(entity: str, name: str, *edges: Sequence[str], **more: Any) -> dict[str, Any]:
    keys = ("other_entity_id", "relation_type", "direction")
    moved = [dict(zip(keys, (*edge, "out")[:3], strict=True)) for edge in edges]
    new = {"new_entity_name": name, "new_entity_type": "Concept", "edges_to_move": moved}
    return {"entity_id": entity, **new, "reason": "asked", **more}


def _batch(entities: Sequence[Any], relations: Sequence[Any]) -> dict[str, Any]:
    return {"batch": {"entities": list(entities), "relations": list(relations)}}


RECIPES: Final[Mapping[str, Sequence[Recipe]]] = {
    "graph_relate": (
        Recipe(
            "a reference that leads nowhere",
            lambda aim: _batch([], [{"from": f"{aim.subject} lost", "relation": "USES", "to": aim.subject}]),
        ),
        Recipe("single", lambda aim: _one(aim, weight=0.6, evidence="said so")),
        Recipe("again", lambda aim: _one(aim, weight=0.2)),
        Recipe("another type", lambda aim: _one(aim) | {"from_type": "Concept"}),
        Recipe("idempotent", lambda aim: _one(aim, idempotency_key="the same key")),
        Recipe(
            "superseding",
            lambda aim: (
                _one(aim, valid_at="2023-01-01")
                | {"relation": "WORKS_AT", "to_name": "Lace", "to_type": "Organization"}
            ),
        ),
        Recipe(
            "late older fact",
            lambda aim: (
                _one(aim, valid_at="2010-01-01") | {"relation": "WORKS_AT", "to_name": "Tea", "to_type": "Object"}
            ),
        ),
        Recipe("bad type", lambda aim: _one(aim) | {"to_type": "`) MATCH (n"}),
        Recipe("bad relation", lambda aim: _one(aim) | {"relation": "X]-(n:Entity)-[y"}),
        Recipe(
            "batch",
            lambda aim: _batch(
                [
                    {
                        "localId": "x",
                        "name": aim.subject,
                        "type": aim.type,
                        "properties": {"mood": "calm", "note": "n"},
                    },
                    {"name": "Enchantress", "type": "Concept"},
                    {"name": "Tea", "type": "Object"},
                ],
                [
                    {"from": "x", "relation": "PREFERS", "to": "Tea", "evidence": "again"},
                    {"from": "x", "relation": "QUOTES", "to": "Enchantress", "weight": 7},
                    {"from": "Apollo", "relation": "RELATED_TO", "to": "x"},
                ],
            ),
        ),
        Recipe("alias", lambda aim: _one(aim) | {"relation": "ALIAS_OF", "from_name": f"alias of {aim.subject}"}),
        Recipe("tenant-wide", lambda aim: _one(aim, layers=["tenant"])),
        Recipe("a layer that was not granted", lambda aim: _one(aim, layers=["b"])),
        Recipe("a layer that does not exist", lambda aim: _one(aim, layers=["z"])),
    ),
    "graph_query": (
        Recipe("around", lambda aim: {"entities": [aim.subject], "project_context": "/home/ada/apollo"}),
        Recipe(
            "wide and ended",
            lambda aim: {
                "entities": [aim.subject, "Enchantress"],
                "max_hops": 4,
                "min_weight": 0,
                "current_only": False,
                "limit": 200,
            },
        ),
        Recipe("pages", lambda aim: {"entities": [aim.subject, "Apollo"], "limit": 4, "min_weight": 0}),
        Recipe(
            "minimal, of a type",
            lambda aim: {
                "entities": [aim.subject],
                "entity_types": [aim.type, "Concept"],
                "context_level": "minimal",
                "max_hops": 3,
                "min_weight": 0,
            },
        ),
        Recipe(
            "shape, misspelt",
            lambda aim: {"entities": [f"{aim.subject[:-1]}"], "context_level": "relations-only", "max_hops": 1},
        ),
        Recipe("of a hidden project", lambda aim: {"entities": ["Apollo"], "project_context": aim.subject}),
        Recipe(
            "of a hidden directory", lambda aim: {"entities": ["Apollo", aim.subject], "project_context": "/home/qzx"}
        ),
        Recipe("a layer not granted", lambda aim: {"entities": [aim.subject], "layers": ["b"]}),
        Recipe("what was true then", lambda aim: {"entities": [aim.subject], "as_of": "2021-06-01", "min_weight": 0}),
        Recipe(
            "what was believed then",
            lambda aim: {"entities": [aim.subject], "as_of": "2100-01-01", "as_of_basis": "ingestion", "max_hops": 3},
        ),
    ),
    "graph_entities": (
        Recipe("by id", lambda aim: {"id": aim.subject.lower().replace(" ", "-")}),
        Recipe("by name", lambda aim: {"id": aim.subject}),
        Recipe("by a hidden alias", lambda aim: {"id": "Enchantress"}),
        Recipe("by words", lambda aim: {"search": aim.words}),
        Recipe("by words, in pages", lambda aim: {"search": "engine numbers tea note", "limit": 3, "sort_by": "name"}),
        Recipe("by words, newest", lambda aim: {"search": "engine tea", "sort_by": "last_seen"}),
        Recipe("of a type", lambda aim: {"type": aim.type, "min_confidence": 0.3}),
        Recipe("of a hidden type", lambda aim: {"type": "QzxType"}),
        Recipe("all, in pages", lambda aim: {"limit": 7}),
        Recipe("all, newest", lambda aim: {"sort_by": "last_seen", "limit": 50}),
        Recipe("all, by name", lambda aim: {"sort_by": "name", "limit": 50}),
        Recipe("a layer not granted", lambda aim: {"layers": ["b", "c"], "search": aim.words}),
        Recipe("of a moment", lambda aim: {"as_of": "2021-06-01", "limit": 50}),
        Recipe("known at a moment", lambda aim: {"id": aim.subject, "as_of": "2100-01-01", "as_of_basis": "ingestion"}),
    ),
    "graph_search": (
        Recipe("question", lambda aim: {"query": f"What of {aim.subject}?", "min_similarity": 0, "explain": True}),
        Recipe("words", lambda aim: {"query": aim.words, "top_k": 50, "min_similarity": 0, "explain": True}),
        Recipe("one type", lambda aim: {"query": aim.words, "entity_types": [aim.type], "min_similarity": 0}),
        Recipe("shared text", lambda aim: {"query": TOLD, "top_k": 3, "min_similarity": 0, "explain": True}),
        Recipe("hidden words", lambda aim: {"query": "secret tea talk", "min_similarity": 0, "expand_min_weight": 0}),
        Recipe("a layer not granted", lambda aim: {"query": aim.words, "layers": ["b"], "min_similarity": 0}),
        Recipe("of a moment", lambda aim: {"query": aim.words, "as_of": "2021-06-01", "min_similarity": 0}),
    ),
    "graph_export": (
        Recipe("all that is readable", lambda aim: {"label": aim.type, "keep": 2}),
        Recipe("one layer", lambda aim: {"layers": ["tenant"], "keep": 30, "vectors": True}),
        Recipe("idempotent", lambda aim: {"label": aim.subject, "idempotency_key": "the same export"}),
        Recipe("one that never was", lambda aim: {"export_id": aim.subject}),
        Recipe("a layer that was not granted", lambda aim: {"layers": ["b"]}),
    ),
    # What these say is kept and shown to the same caller in the next cell: it must not be the name of a hidden thing.
    "graph_run": (
        Recipe("nothing under way", lambda aim: {"action": "heartbeat"}),
        Recipe("begin", lambda aim: {"action": "begin", "device": "desk", "source": "by hand"}),
        Recipe("taken up again", lambda aim: {"action": "begin", "device": "desk"}),
        Recipe("another device", lambda aim: {"action": "begin", "device": "another desk"}),
        Recipe("progress", lambda aim: {**_PROGRESS, "session_id": "third talk", "through": "2026-01-01"}),
        Recipe("progress without the lease", lambda aim: {"action": "progress", "session_id": "third talk"}),
        Recipe("a hidden talk", lambda aim: {**_PROGRESS, "session_id": "second talk", "entities": 1}),
        Recipe("watermarks", lambda aim: {"action": "status", "session_ids": [aim.subject, "second talk"]}),
        Recipe("a run that never was", lambda aim: {"action": "finish", "run_id": aim.subject}),
        Recipe("finish", lambda aim: {**_FINISH, "idempotency_key": aim.subject}),
        Recipe("status", lambda aim: {"action": "status", "limit": 2}),
        Recipe("status of a run that never was", lambda aim: {"action": "status", "run_id": aim.subject}),
        Recipe("a capture", lambda aim: {"action": "begin", "kind": "capture", "layers": ["tenant"]}),
        Recipe("given up", lambda aim: {"action": "abort", "reason": "no time"}),
        Recipe("a layer that was not granted", lambda aim: {"action": "begin", "layers": ["b"]}),
    ),
    "graph_audit": (
        Recipe("outside a run", lambda aim: {"event": "error", "data": {"context": "reading", "message": "odd"}}),
        Recipe("forged", lambda aim: {"event": "run_end", "data": {"tenant": aim.subject, "principal": "another"}}),
        Recipe("of a run that never was", lambda aim: {"event": "error", "run_id": aim.subject}),
        Recipe("idempotent", lambda aim: {"event": "ingest_start", "idempotency_key": "the same report"}),
        Recipe("too long", lambda aim: {"event": "error", "data": {"message": aim.type * 2000}}),
        Recipe("a layer that was not granted", lambda aim: {"event": "error", "layers": ["b"]}),
    ),
    **dict.fromkeys(
        ("graph_boost", "graph_weaken"),
        (
            Recipe("a relation", lambda aim: _edge(aim)),
            Recipe("misspelt", lambda aim: _edge(aim, amount=0.01) | {"from_name": f"{aim.subject[:-1]}x"}),
            Recipe("too much", lambda aim: _edge(aim, "USES", amount=-2)),
            Recipe("the other way round", lambda aim: _edge(aim) | {"from_name": "Apollo", "to_name": aim.subject}),
            Recipe("a hidden relation", lambda aim: _edge(aim, "RELATED_TO")),
            Recipe("idempotent", lambda aim: _edge(aim, amount=0.02, idempotency_key="the same key")),
            Recipe("tenant-wide", lambda aim: _edge(aim, amount=0.01, layers=["tenant"])),
            Recipe("a layer that was not granted", lambda aim: _edge(aim, layers=["b"])),
        ),
    ),
    "graph_contradictions": (
        Recipe("open ones", lambda aim: {}),
        Recipe("all, in pages", lambda aim: {"include_resolved": True, "limit": 1}),
        Recipe("a layer not granted", lambda aim: {"layers": ["b"]}),
    ),
    "graph_resolve": (
        Recipe(
            "two places",
            lambda aim: {"from_name": "Paris", "to_name": "London", "resolution": f"asked {aim.type}"},
        ),
        Recipe("one of it", lambda aim: {"from_name": "Lace", "to_name": aim.subject, "resolution": "neither"}),
        Recipe(
            "tenant-wide",
            lambda aim: {"from_name": "note 0", "to_name": "note 1", "resolution": "both", "layers": ["tenant"]},
        ),
    ),
    "graph_decay": (
        Recipe("dry", lambda aim: {"dry_run": True}),
        Recipe("run", lambda aim: {"limit": 5, "idempotency_key": f"for {aim.type}"}),
        Recipe("tenant-wide", lambda aim: {"layers": ["tenant"]}),
    ),
    "graph_prune": (
        Recipe("what would go", lambda aim: {}),
        # What was created in other cells under hidden names has relations, so that it is in none of these lists.
        Recipe("what stands alone", lambda aim: {"node_threshold": 1, "edge_threshold": 0, "max_age_days": 0}),
        Recipe("a page", lambda aim: {"node_threshold": 1, "edge_threshold": 0, "limit": 1}),
        Recipe("go", lambda aim: {"mode": "execute", "edge_threshold": 0.3, "max_age_days": 0, "limit": 4}),
        Recipe("idempotent", lambda aim: {"mode": "execute", "reason": "asked", "idempotency_key": "the same key"}),
        Recipe("tenant-wide", lambda aim: {"mode": "execute", "layers": ["tenant"]}),
    ),
    "graph_delete": (
        Recipe("nothing like it", lambda aim: {"entity_id": f"{aim.subject} lost"}),
        Recipe("misspelt", lambda aim: {"entity_id": aim.subject[:-1]}),
        Recipe("one", lambda aim: {"entity_id": _victim(aim, "note 7"), "reason": "asked"}),
        Recipe("again", lambda aim: {"id": _victim(aim, "note 7")}),
        Recipe("in a layer", lambda aim: {"entity_id": _victim(aim, "Tea"), "layers": ["a"]}),
        Recipe("idempotent", lambda aim: {"id": _victim(aim, "note 6"), "idempotency_key": "the same key"}),
    ),
    "graph_merge": (
        Recipe("nothing like it", lambda aim: _merge(f"{aim.subject} lost", "Apollo")),
        Recipe("into nothing", lambda aim: _merge("Apollo", f"{aim.subject} lost")),
        Recipe("with itself", lambda aim: _merge(aim.subject, aim.subject)),
        Recipe("rehearsed", lambda aim: _merge(aim.subject, "Analytical Engine", dry_run=True)),
        Recipe("rehearsed, the other way", lambda aim: _merge("Apollo", aim.subject, dry_run=True)),
        Recipe("one", lambda aim: _merge(_victim(aim, "note 5"), "note 4")),
        Recipe("in a layer", lambda aim: _merge(_victim(aim, "London"), "Paris", layers=["a"])),
        Recipe("idempotent", lambda aim: _merge(_victim(aim, "note 3"), "note 4", idempotency_key="the same key")),
    ),
    "graph_unmerge": (
        Recipe("nothing like it", lambda aim: _unmerge(f"{aim.subject} lost", "Part")),
        Recipe("a name that is taken", lambda aim: _unmerge("Apollo", aim.subject)),
        Recipe("no such relation", lambda aim: _unmerge("Apollo", "Part", (aim.subject, "QZX_VERB", "out"))),
        Recipe(
            "one",
            lambda aim: _unmerge(
                "Analytical Engine", f"half of {aim.subject}", ("Apollo", "USES_TECH", "in"), ("note 2", "RELATED_TO")
            ),
        ),
        Recipe("what hides", lambda aim: _unmerge(aim.subject, "Half", ("Apollo", "USES", "out"))),
        Recipe("in a layer", lambda aim: _unmerge(aim.subject, f"{aim.subject} too", layers=["a"])),
    ),
    "graph_undo": (
        Recipe("list", lambda aim: {"limit": 100}),
        Recipe("list, first page", lambda aim: {"limit": 1}),
        Recipe("list of a layer", lambda aim: {"layers": ["a"]}),
        Recipe("an unknown one", lambda aim: {"undo_id": aim.subject[:64]}),
    ),
    "graph_ingest": (
        Recipe("status", lambda aim: {"action": "status"}),
        Recipe("status, first page", lambda aim: {"action": "status", "limit": 1}),
        Recipe(
            "status of a session",
            lambda aim: {"action": "status", "meta": {"session_id": "s-1"}},
        ),
        Recipe(
            "queue",
            lambda aim: {"action": "queue", "file_name": "told.md", "content": aim.words},
        ),
        Recipe("queue what is there", lambda aim: {"action": "queue", "file_name": "notes.md", "content": "# qzx b"}),
        Recipe(
            "queue, idempotent",
            lambda aim: {
                "action": "queue",
                "file_name": "once.txt",
                "content": aim.words,
                "idempotency_key": f"once {aim.subject}",
            },
        ),
        Recipe("an address that others had fetched", lambda aim: {"action": "queue", "url": PAGE}),
        Recipe("an address of nothing", lambda aim: {"action": "queue", "url": f"{PUBLISHED}/{aim.subject}.md"}),
        Recipe("a path", lambda aim: {"action": "queue", "file_path": f"/home/{aim.subject}.md"}),
        Recipe("a folder in the name", lambda aim: {"action": "queue", "file_name": "../x.md", "content": "x"}),
        Recipe("claim", lambda aim: {"action": "claim"}),
        Recipe("claim a made-up id", lambda aim: {"action": "claim", "id": aim.subject}),
        Recipe("read a made-up id", lambda aim: {"action": "read", "id": aim.subject}),
        Recipe("complete a made-up id", lambda aim: {"action": "complete", "id": aim.subject, "lease": "le-1"}),
        Recipe("fail a made-up id", lambda aim: {"action": "fail", "id": aim.subject, "lease": "x", "reason": "no"}),
        Recipe("retry a made-up id", lambda aim: {"action": "retry", "id": aim.subject}),
        Recipe("cancel a made-up id", lambda aim: {"action": "cancel", "id": aim.subject}),
        Recipe("status again", lambda aim: {"action": "status", "limit": 100}),
        Recipe("status tenant-wide", lambda aim: {"action": "status", "layers": ["tenant"]}),
        Recipe("a layer that was not granted", lambda aim: {"action": "status", "layers": ["b"]}),
    ),
    "graph_read_transcript": (
        Recipe("that everyone has", lambda aim: {"session_id": TALK}),
        Recipe("in pages", lambda aim: {"session_id": THIRD, "limit": 1}),
        Recipe("from a moment on", lambda aim: {"session_id": THIRD, "since": "2026-01-01T00:00:00Z"}),
        Recipe("by a path", lambda aim: {"file_path": f"/home/qzx/{THIRD}.jsonl", "text_only": False}),
        Recipe("of layers alone", lambda aim: {"session_id": SECOND}),
        Recipe("a made-up id", lambda aim: {"id": aim.subject[:64]}),
        Recipe("of a made-up session", lambda aim: {"session_id": aim.subject}),
        Recipe("outside", lambda aim: {"file_path": f"../../{aim.subject}/../../etc/passwd"}),
        Recipe("a layer not granted", lambda aim: {"session_id": TALK, "layers": ["b"]}),
    ),
    "graph_stats": (
        Recipe("all", lambda aim: {}),
        Recipe("a layer not granted", lambda aim: {"layers": ["b"]}),
    ),
    "graph_validate": (
        Recipe("all", lambda aim: {"max_issues": 200}),
        Recipe("in pages", lambda aim: {"max_issues": 1}),
        Recipe("of a conversation", lambda aim: {"source_session": "first talk"}),
        Recipe("of an unknown conversation", lambda aim: {"source_session": aim.words}),
        Recipe("a layer not granted", lambda aim: {"layers": ["b"]}),
    ),
    "graph_build_context": (
        Recipe("without a topic", lambda aim: {"max_recent": 50, "hub_count": 20}),
        Recipe("a topic", lambda aim: {"topic": aim.subject, "project_cwd": "/home/ada/apollo"}),
        Recipe("a small budget", lambda aim: {"topic": "Apollo", "token_budget": 500}),
        Recipe("a layer not granted", lambda aim: {"topic": aim.subject, "layers": ["b"]}),
    ),
    "graph_communities": (
        Recipe("usual", lambda aim: {}),
        Recipe("all", lambda aim: {"weight_threshold": 0, "max_communities": 30}),
        Recipe("a layer not granted", lambda aim: {"layers": ["b"]}),
    ),
    "graph_merge_suggestions": (
        Recipe("usual", lambda aim: {}),
        Recipe("all, in pages", lambda aim: {"min_score": 0.1, "min_embedding_similarity": 0.5, "limit": 3}),
        Recipe("of an entity", lambda aim: {"entity_id": aim.subject, "min_score": 0}),
        Recipe("of a type", lambda aim: {"entity_type": aim.type, "min_score": 0}),
        Recipe("a layer not granted", lambda aim: {"layers": ["b"], "min_score": 0.1}),
    ),
    "graph_cypher": (
        Recipe("all of a type", lambda aim: {"cypher": "MATCH (n:Entity) RETURN n.name", "params": {}}),
        Recipe("by name", lambda aim: {"cypher": "MATCH (n:Entity {name: $n}) RETURN n", "params": {"n": aim.subject}}),
    ),
    "graph_reembed": (
        Recipe("what is missing", lambda aim: {}),
        Recipe("all", lambda aim: {"force": True, "idempotency_key": f"for {aim.type}"}),
        Recipe("tenant-wide", lambda aim: {"layers": ["tenant"], "force": True}),
        Recipe("of all tenants", lambda aim: {"all_tenants": True}),
    ),
}
"""Recipes by tool."""

PROMPTS: Final[Mapping[str, Callable[[Aim], dict[str, str]]]] = {
    **dict.fromkeys(("dream", "bootstrap", "weekly-maintenance", "graph-stats"), lambda aim: {}),
    "weekly-analysis": lambda aim: {"since": aim.words},
    "capture": lambda aim: {"topic": aim.subject},
    "graph": lambda aim: {"query": aim.subject, "type": aim.type},
    "graph-ask": lambda aim: {"question": aim.words},
    "graph-find": lambda aim: {"what": "stale"},
    "graph-boost": lambda aim: {"from": aim.subject, "relation": "USES", "to": "Apollo"},
    "graph-briefing": lambda aim: {"topic": aim.subject},
    "graph-backup": lambda aim: {"label": aim.type},
    "ingest": lambda aim: {"document": aim.subject},
    "ingest-audio": lambda aim: {"recording": aim.subject},
}
"""Arguments of every prompt."""

RESOURCES: Final[Mapping[str, Sequence[Callable[[Aim], str]]]] = {
    "entity": (
        lambda aim: f"graphkeep://entity/{aim.subject.lower().replace(' ', '-')}",
        lambda aim: f"graphkeep://entity/{quote(aim.subject)}",
        lambda aim: "graphkeep://entity/enchantress",
        lambda aim: "graphkeep://entity/apollo",
    ),
    "vocabulary": (lambda aim: "graphkeep://vocabulary",),
    "changelog": (lambda aim: "graphkeep://changelog",),
    "context": (lambda aim: "graphkeep://context",),
}
"""Addresses of every resource, templates filled in."""

COMPLETIONS: Final[Sequence[tuple[str, str, str, Callable[[Aim], str]]]] = (
    ("ref/prompt", "graph", "query", lambda aim: aim.subject[:3]),
    ("ref/prompt", "graph", "query", lambda aim: ""),
    ("ref/prompt", "graph", "type", lambda aim: "q"),
    ("ref/prompt", "graph", "type", lambda aim: ""),
    ("ref/prompt", "graph-find", "what", lambda aim: "s"),
    ("ref/resource", "graphkeep://entity/{id}", "id", lambda aim: aim.subject),
    ("ref/resource", "graphkeep://entity/{id}", "id", lambda aim: "QZX"),
    ("ref/resource", "graphkeep://entity/{id}", "id", lambda aim: ""),
)
"""What is completed: kind, owner, argument, beginning."""

SURFACES: Final[Mapping[str, frozenset[str]]] = {
    "prompts": frozenset(PROMPTS),
    "resources": frozenset(name for name in RESOURCES if name != "entity"),
    "resources/templates": frozenset({"entity"}),
}
"""Names of what is listed besides tools; one without a recipe fails the gateway's test."""

PAGES_WITHOUT_MEMORY: Final = frozenset(
    {
        *("/register", "/token", "/revoke", "/introspect", "/authorize", "/consent"),
        *("/sign-in", "/sign-in/link", "/sign-in/recovery", "/sign-in/access", "/sign-in/passkey"),
        *("/sign-in/provider", "/sign-in/provider/callback", "/signed-in", "/sign-out"),
        *("/passkeys", "/recovery-codes", "/invitation"),
    }
)
"""Pages of the gateway that read no memory record."""
