"""Arguments of a call: the general bounds of design §8, then the tool's own model, strictly.

Strict means that a number in quotes is refused, not guessed; each refusal names the argument, the rule and a correct
example, so that a model can mend its call in one step.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.contract import MAX_ARRAY, MAX_TEXT, Arguments, Tool
from app.errors import InvalidInput

__all__ = ["arguments_digest", "validated"]

SHOWN: Final = 3
"""Broken rules named in one message."""

EXAMPLE: Final = 500
"""Longest example quoted, characters."""

MAX_INTEGER: Final = 2**63 - 1
"""Largest integer of the database; JSON's parse admits one more bit."""

_NUMBERS: Final = ("int_type", "int_parsing", "float_type", "float_parsing", "bool_type", "bool_parsing")


def validated(tool: Tool, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Arguments:
    """The arguments as an instance of the tool's input; ``schema`` is its advertised form.

    Raises:
        InvalidInput: an argument breaks a rule; nothing was applied.
    """
    _bounded(tool, arguments, schema)
    try:
        return _validate(tool, arguments)
    except ValidationError as error:
        _refuse(tool, arguments, error.errors(include_url=False))


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """Hash of the arguments without ``idempotency_key``, independent of their order."""
    said = {name: value for name, value in arguments.items() if name != "idempotency_key"}
    return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _validate(tool: Tool, arguments: Mapping[str, Any]) -> Arguments:
    try:
        return tool.input.model_validate_json(orjson.dumps(arguments), strict=True)
    except ValidationError as error:
        mended = _whole_numbers(arguments, error.errors(include_url=False))
        if mended is None:
            raise
    return tool.input.model_validate_json(orjson.dumps(mended), strict=True)


def _whole_numbers(arguments: Mapping[str, Any], errors: list[ErrorDetails]) -> Mapping[str, Any] | None:
    """The arguments with 5.0 as 5: an integer by JSON Schema (2020-12 §6.1.1), but not by strict validation."""
    if not all(error["type"] == "int_type" and _whole(error["input"]) for error in errors):
        return None
    mended = copy.deepcopy(dict(arguments))
    for error in errors:
        *path, last = error["loc"]
        holder: Any = mended
        for part in path:
            try:
                holder = holder[part]
            except (LookupError, TypeError):
                return None  # the path runs through a union and names its kinds
        if not isinstance(holder, dict | list):
            return None
        holder[last] = int(error["input"])  # type: ignore[index]
    return mended


def _whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer() and abs(value) < 2**53


def _bounded(tool: Tool, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Refuse arrays and texts over the general bounds, unless the tool's own schema allows that argument more."""
    properties = schema.get("properties", {})
    for name, argument in arguments.items():
        declared = properties.get(name, {})
        items = max(MAX_ARRAY, declared.get("maxItems", 0))
        length = max(MAX_TEXT, declared.get("maxLength", 0))
        for path, value in _nested(name, argument):
            rule = _out_of_bounds(value, items, length)
            if rule is not None:
                raise InvalidInput(f"{tool.name}: {path} {rule}. Nothing was applied.", field=path)


def _out_of_bounds(value: Any, items: int, length: int) -> str | None:
    if isinstance(value, list) and len(value) > items:
        return f"has {len(value)} items; at most {items} are allowed. Send them in parts"
    if isinstance(value, str) and len(value) > length:
        return f"has {len(value)} characters; at most {length} are allowed. Shorten or split it"
    if isinstance(value, int) and value > MAX_INTEGER:
        return f"is over {MAX_INTEGER}, the largest integer that can be stored. Send it as text"
    return None


def _nested(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    waiting = [(path, value)]
    while waiting:
        path, value = waiting.pop()
        yield path, value
        if isinstance(value, dict):
            waiting += [(f"{path}.{key}"[:200], child) for key, child in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{index}]", child) for index, child in enumerate(value)]


def _refuse(tool: Tool, arguments: Mapping[str, Any], errors: list[ErrorDetails]) -> NoReturn:
    paths = [_path(error, arguments) for error in errors[:SHOWN]]
    rules = [_rule(tool, path, error) for path, error in zip(paths, errors, strict=False)]
    more = f"; and {len(errors) - SHOWN} more" if len(errors) > SHOWN else ""
    example = orjson.dumps(dict(tool.example)).decode()
    correct = f" A correct call: {example}" if tool.example and len(example) <= EXAMPLE else ""
    message = f"{tool.name}: {'; '.join(rules)}{more}. Nothing was applied.{correct}"
    raise InvalidInput(message, field=paths[0] or None)


def _path(error: ErrorDetails, arguments: Mapping[str, Any]) -> str:
    """Where the argument is, without the names of a union's kinds that pydantic puts between."""
    path = ""
    at: Any = arguments
    for position, part in enumerate(error["loc"], start=1):
        last_missing = error["type"] == "missing" and position == len(error["loc"])
        if isinstance(at, dict) and (part in at or last_missing):
            path = f"{path}.{part}" if path else str(part)
            at = at.get(part)
        elif isinstance(at, list) and isinstance(part, int) and part < len(at):
            path, at = f"{path}[{part}]", at[part]
    return path[:200]


def _rule(tool: Tool, path: str, error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return f"{path} is required"
    if error["type"] == "extra_forbidden":
        if "." in path or "[" in path:
            return f"{path} is not allowed there"
        return f"{path} is no argument of this tool; it takes {', '.join(tool.input.model_fields) or 'none'}"
    rule = error["msg"].removeprefix("Value error, ").removesuffix(".")
    rule = rule[:1].lower() + rule[1:]
    if error["type"] in _NUMBERS and isinstance(error["input"], str):
        rule += " (it came in quotes; write it without)"
    return f"{path}: {rule}" if path else rule
