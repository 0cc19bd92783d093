"""All tools, checked once: dispatch, listing, authorization, limits and documentation read the same declarations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import orjson
from pydantic import ValidationError

from app.context import SCOPES
from app.contract import Tool
from app.protocol.schema import SchemaError, input_schema, output_schema

__all__ = ["MAX_ALL_SCHEMAS", "MAX_DESCRIPTION", "MAX_SCHEMA", "Registry", "RegistryError"]

MAX_SCHEMA: Final = 16 * 1024
"""Largest schema of one tool, bytes: larger ones are dropped silently by a known client."""

MAX_ALL_SCHEMAS: Final = 96 * 1024
"""Largest sum of all schemas, bytes (design §8)."""

MAX_DESCRIPTION: Final = 2048
"""Longest description, characters: known clients cut there."""

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")

Wire = dict[str, Any]


class RegistryError(ValueError):
    """A declaration that breaks a rule; found when the process starts, never by a caller."""


class Registry:
    """The tools by name, in the order of their declaration.

    Raises:
        RegistryError: a name, title, description, scope, annotation, schema or example breaks a rule.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        found: dict[str, Tool] = {}
        self._wire: dict[str, Wire] = {}
        for tool in tools:
            if tool.name in found:
                raise RegistryError(f"{tool.name}: two tools have this name")
            _check(tool)
            found[tool.name] = tool
            self._wire[tool.name] = _wire(tool)
        self.tools: Mapping[str, Tool] = MappingProxyType(found)
        total = sum(_size(wire["inputSchema"]) + _size(wire["outputSchema"]) for wire in self._wire.values())
        if total > MAX_ALL_SCHEMAS:
            raise RegistryError(f"the schemas of all tools together are {total} bytes, over {MAX_ALL_SCHEMAS}")

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools.values())

    def __len__(self) -> int:
        return len(self.tools)

    def get(self, name: str) -> Tool | None:
        """The tool of this name."""
        return self.tools.get(name)

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """The advertised input schema of a tool; None for an unknown one."""
        wire = self._wire.get(name)
        return wire["inputSchema"] if wire is not None else None

    def output_schema(self, name: str) -> Mapping[str, Any] | None:
        """The advertised output schema of a tool; None for an unknown one."""
        wire = self._wire.get(name)
        return wire["outputSchema"] if wire is not None else None

    def listing(self, shown: Callable[[Tool], bool]) -> list[Wire]:
        """The tools for which ``shown`` says yes, as ``tools/list`` sends them."""
        return [self._wire[tool.name] for tool in self if shown(tool)]

    def table(self) -> str:
        """All tools as a Markdown table, for the documentation."""
        rows = [
            "| tool | what it does | scope | cost | deadline | kind |",
            "|---|---|---|---|---|---|",
        ]
        for tool in self:
            kind = "read" if tool.read_only else "destructive write" if tool.destructive else "write"
            kind += ", operators" if tool.operators_only else ""
            rows.append(
                f"| `{tool.name}` | {tool.title} | `{tool.scope}` | {int(tool.cost)} | {tool.deadline.value} | {kind} |"
            )
        return "\n".join(rows) + "\n"


def _wire(tool: Tool) -> Wire:
    try:
        wire = {
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": input_schema(tool.input),
            "outputSchema": output_schema(tool.output),
            "annotations": {
                "title": tool.title,
                "readOnlyHint": tool.read_only,
                "destructiveHint": tool.destructive,
                "idempotentHint": tool.idempotent,
                "openWorldHint": tool.open_world,
            },
        }
    except SchemaError as error:
        raise RegistryError(f"{tool.name}: {error}") from error
    for key in ("inputSchema", "outputSchema"):
        if _size(wire[key]) > MAX_SCHEMA:
            raise RegistryError(f"{tool.name}: {key} is {_size(wire[key])} bytes, over {MAX_SCHEMA}")
    return wire


def _size(schema: Any) -> int:
    return len(orjson.dumps(schema))


def _check(tool: Tool) -> None:
    for broken, rule in _rules(tool):
        if broken:
            raise RegistryError(f"{tool.name}: {rule}")
    try:
        tool.input.model_validate(dict(tool.example))
    except ValidationError as error:
        raise RegistryError(f"{tool.name}: the example is not valid: {error}") from error


def _rules(tool: Tool) -> Iterator[tuple[bool, str]]:
    yield NAME.match(tool.name) is None, "a name has 1 to 64 letters, digits, underscores and hyphens"
    yield not tool.title.strip(), "a tool needs a title"
    yield not tool.description.strip(), "a tool needs a description"
    yield len(tool.description) > MAX_DESCRIPTION, f"a description has at most {MAX_DESCRIPTION} characters"
    yield tool.scope not in SCOPES, f"{tool.scope!r} is not a scope"
    annotations = (tool.read_only, tool.destructive, tool.idempotent, tool.open_world)
    yield not all(isinstance(value, bool) for value in annotations), "each annotation is true or false"
    yield tool.read_only and tool.destructive, "what only reads destroys nothing"
    yield tool.read_only and tool.scope.endswith(":write"), "what only reads needs no scope to write"
    yield not tool.read_only and tool.scope.endswith(":read"), "what writes needs a scope to write"
    yield "ok" in tool.output.model_fields, "the envelope adds ok to a result, the tool does not"
    yield tool.operators_only and not tool.instead.strip(), "an operators' tool says what others use instead"
