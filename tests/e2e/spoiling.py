"""Every argument of every tool, and correct arguments to spoil one of them in."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from app.contract import Tool

__all__ = ["BATCH", "Path", "arguments_of", "base_for", "bases", "label", "spoiled"]

BATCH = {
    "entities": [
        {"localId": "a", "name": "Ada", "type": "Person", "properties": {"role": "engineer"}},
        {"localId": "b", "name": "Atlas", "type": "Project", "properties": {"status": "active"}},
    ],
    "relations": [
        {"from": "a", "to": "b", "relation": "WORKS_ON", "weight": 0.7, "properties": {"role": "lead"}, "evidence": "."}
    ],
}

Path = tuple[str | int, ...]


def bases(tool: Tool) -> list[dict[str, Any]]:
    """Correct arguments to spoil."""
    return [dict(tool.example), *([{"batch": BATCH}] if "batch" in tool.input.model_fields else [])]


def leaves(schema: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every argument with its schema, those inside of lists and objects too."""
    if path:
        yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from leaves(inner, (*path, name))
    if "items" in schema:
        yield from leaves(schema["items"], (*path, 0))


def arguments_of(tool: Tool, *kinds: str) -> list[tuple[Path, Mapping[str, Any]]]:
    """Arguments whose JSON type is one of ``kinds``; all without any."""
    schema = tool.input.model_json_schema(by_alias=True)
    found = leaves(_plain(schema, schema))
    return [(path, inner) for path, inner in found if not kinds or inner.get("type") in kinds]


def _plain(node: Any, root: Mapping[str, Any]) -> Any:
    """The schema without references, an optional argument as what it is when given."""
    if isinstance(node, list):
        return [_plain(item, root) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    if "anyOf" in node:
        return _plain(next(kind for kind in node["anyOf"] if kind.get("type") != "null"), root)
    return {key: _plain(value, root) for key, value in node.items() if key != "$defs"}


def spoiled(base: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """The arguments with one of them replaced."""
    made = copy.deepcopy(dict(base))
    at: Any = made
    for part, following in pairwise(path):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(at, list):
            if not at:
                at.append(empty)
        else:
            at.setdefault(part, empty)
        at = at[part]
    if isinstance(at, list):
        at[:1] = [value]
    else:
        at[path[-1]] = value
    return made


def base_for(tool: Tool, path: Path) -> dict[str, Any]:
    choices = bases(tool)
    return choices[-1] if path[0] == "batch" else choices[0]


def label(path: Path) -> str:
    return ".".join("[]" if isinstance(part, int) else part for part in path)
