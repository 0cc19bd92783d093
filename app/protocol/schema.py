"""JSON schemas as connectors accept them.

Known clients drop a tool whose schema has ``anyOf``, ``oneOf``, ``allOf`` or ``$ref``, or is larger than 16 KiB
(Claude's connector among them), so references are inlined and unions are folded into one node.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import BaseModel

from app.errors import Outcome

__all__ = ["SchemaError", "input_schema", "output_schema"]

Schema = dict[str, Any]

PROPERTY_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")

_UNIONS: Final = ("anyOf", "oneOf")
_ANNOTATIONS: Final = frozenset({"description", "default", "examples", "deprecated"})
_OUTCOMES: Final[tuple[Outcome, ...]] = ("not_applied", "applied", "unknown")

# Without descriptions but for one: each byte here is paid once per tool in every client's context.
_OUTCOME_FIELDS: Final[dict[str, Schema]] = {
    "ok": {"type": "boolean", "description": "false: see reason, message, retryable, outcome"},
    "reason": {"type": "string"},
    "message": {"type": "string"},
    "retryable": {"type": "boolean"},
    "outcome": {"type": "string", "enum": list(_OUTCOMES)},
    "retry_after_ms": {"type": "integer"},
}


class SchemaError(ValueError):
    """A model that cannot be said in the form that connectors accept."""


def input_schema(model: type[BaseModel]) -> Schema:
    """The arguments of a tool. An optional argument is one that is not required; null is not advertised.

    Raises:
        SchemaError: the model is recursive, or a union of kinds that cannot be told apart by their JSON type.
    """
    return _object(_Converter(model, nullable=False).root())


def output_schema(model: type[BaseModel]) -> Schema:
    """The result of a tool as the envelope sends it, success and failure alike.

    Only ``ok`` is required: clients check a failed result against the same schema. More fields are always allowed.
    """
    schema = _object(_Converter(model, nullable=True).root())
    found = schema["properties"]
    for name, outcome in _OUTCOME_FIELDS.items():
        if name in found and found[name].get("type") != outcome["type"]:
            raise SchemaError(f"{model.__name__}.{name} differs in type from the failure field of that name")
    schema["properties"] = {**_OUTCOME_FIELDS, **found, "ok": _OUTCOME_FIELDS["ok"]}
    schema["required"] = ["ok"]
    return schema


def _object(schema: Schema) -> Schema:
    if schema.get("type") != "object":
        raise SchemaError("the root of a schema must be an object")
    schema.setdefault("properties", {})
    schema.pop("description", None)
    return schema


class _Converter:
    def __init__(self, model: type[BaseModel], *, nullable: bool) -> None:
        self._schema = model.model_json_schema()
        self._definitions: Schema = self._schema.pop("$defs", {})
        self._nullable = nullable
        self._open: list[str] = []

    def root(self) -> Schema:
        return self._node(self._schema)

    def _node(self, node: Schema) -> Schema:
        for key in ("$ref", "allOf", *_UNIONS):
            if key in node:
                return self._folded(key, node)
        found: Schema = {}
        for key, value in node.items():
            if key in ("title", "discriminator") or (key == "default" and value is None):
                continue
            if key == "additionalProperties" and value is False and self._nullable:
                continue
            found[key] = self._value(key, value)
        return found

    def _value(self, key: str, value: Any) -> Any:
        if key in ("properties", "patternProperties"):
            return {self._name(key, name): self._node(sub) for name, sub in value.items()}
        if key in ("items", "additionalProperties", "contains", "propertyNames") and isinstance(value, dict):
            return self._node(value)
        if key == "prefixItems":
            return [self._node(sub) for sub in value]
        return value

    @staticmethod
    def _name(key: str, name: str) -> str:
        if key == "properties" and not PROPERTY_NAME.match(name):
            raise SchemaError(f"property name {name!r} is not one that every client accepts")
        return name

    def _folded(self, key: str, node: Schema) -> Schema:
        beside = self._node({name: value for name, value in node.items() if name != key})
        if key == "$ref":
            return {**self._referred(node["$ref"]), **beside}
        options = [self._node(option) for option in node[key]]
        if key == "allOf":
            return self._merged(options, beside)
        kinds = [option for option in options if option.get("type") != "null"]
        folded = self._merged(kinds, beside) if len(kinds) == 1 else {**_union(kinds), **beside}
        return _or_null(folded) if self._nullable and len(kinds) < len(options) else folded

    @staticmethod
    def _merged(options: list[Schema], beside: Schema) -> Schema:
        if len(options) != 1:
            raise SchemaError("a schema that joins several cannot be said without allOf")
        return {**options[0], **beside}

    def _referred(self, reference: str) -> Schema:
        name = reference.rpartition("/")[2]
        if name in self._open:
            raise SchemaError(f"{name} contains itself")
        self._open.append(name)
        try:
            return self._node(self._definitions[name])
        finally:
            self._open.pop()


def _types(schema: Schema) -> list[str]:
    kind = schema.get("type")
    if kind is None:
        raise SchemaError("a union with a kind of no JSON type")
    return kind if isinstance(kind, list) else [kind]


def _union(kinds: list[Schema]) -> Schema:
    """One node for several kinds. Sound because every keyword but enum and const constrains one JSON type only."""
    folded: Schema = {"type": []}
    for kind in kinds:
        types = _types(kind)
        if set(types) & set(folded["type"]) or {"number", "integer"} <= {*types, *folded["type"]}:
            raise SchemaError("a union of kinds that share a JSON type")
        if "enum" in kind or "const" in kind:
            raise SchemaError("a union of an enumeration and something else")
        folded["type"] += types
        folded |= {key: value for key, value in kind.items() if key != "type" and key not in _ANNOTATIONS}
    return folded


def _or_null(schema: Schema) -> Schema:
    if "type" not in schema:
        return schema
    folded = {**schema, "type": [*_types(schema), "null"]}
    if "const" in folded:
        folded["enum"] = [folded.pop("const")]
    if "enum" in folded:
        folded["enum"] = [*folded["enum"], None]
    return folded
