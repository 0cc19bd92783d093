"""How a toolset declares its tools, prompts and resources. Importable by every room; one declaration feeds all.

Dispatch, listing, annotations, scopes, limits, the documentation table and the isolation harness read the same
:class:`Tool`, so none of them can forget one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Final, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

from app.context import Deadline, Principal, Scope
from app.errors import InvalidInput

__all__ = [
    "Arguments",
    "Call",
    "Cost",
    "Cursor",
    "DeadlineClass",
    "Fill",
    "Json",
    "Progress",
    "Prompt",
    "PromptArgument",
    "ReadArguments",
    "Resource",
    "Tool",
    "ToolsetName",
    "WriteArguments",
]

ToolsetName = Literal["memory", "knowledge", "ledger", "ingest"]
Json = dict[str, Any]

MAX_TEXT: Final = 32 * 1024
MAX_NAME: Final = 512
MAX_ARRAY: Final = 500


class Cost(IntEnum):
    """Tokens of the bucket that a call spends. A whole-graph call also waits at a bulkhead of its own."""

    NOTHING = 0
    PLAIN = 1
    HEAVY = 5
    WHOLE_GRAPH = 20


class DeadlineClass(StrEnum):
    """Which row of the deadline table (settings of the limits room) a tool belongs to."""

    READ = "read"
    SEMANTIC = "semantic"
    WRITE = "write"
    CYPHER = "cypher"
    WHOLE_GRAPH = "whole_graph"


class Arguments(BaseModel):
    """Base of every tool's input: unknown names are refused, NaN and infinities too."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    def completed(self, **configured: Any) -> Self:
        """The same, with what is configured where the caller said nothing."""
        return self.model_copy(update={name: configured[name] for name in configured.keys() - self.model_fields_set})


class ReadArguments(Arguments):
    """Input of a tool that reads."""

    layers: list[str] | None = Field(
        default=None,
        max_length=100,
        description="Read only these layers (names; `tenant` is the tenant-wide one). Default: all that were granted.",
    )


class WriteArguments(Arguments):
    """Input of a tool that writes."""

    layers: list[str] | None = Field(
        default=None,
        max_length=1,
        description="Write into this one layer (`tenant` is the tenant-wide one). Default: the grant's write layer.",
    )
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="Same key and arguments within 24 hours: the first answer again, nothing applied twice.",
    )


class Progress(Protocol):
    """Reports how far a long call is; a client that did not ask for it costs nothing."""

    async def __call__(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report ``done`` of ``total``; ``done`` never falls."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool as its handler sees it: everything verified, nothing of the wire."""

    tool: str
    request_id: str
    principal: Principal
    scope: Scope
    deadline: Deadline
    progress: Progress
    arguments_digest: str = ""
    """Hash of the arguments without ``idempotency_key``, for the idempotency record."""


@dataclass(frozen=True, slots=True)
class Tool:
    """Declaration of a tool.

    ``run(service, call, arguments)`` is the handler: ``service`` is the toolset's service object, ``arguments`` an
    instance of ``input``; it returns a JSON object that fits ``output`` (without ``ok``, which the envelope adds).
    """

    name: str
    title: str
    description: str
    toolset: ToolsetName
    input: type[Arguments]
    output: type[BaseModel]
    run: Callable[[Any, Call, Any], Awaitable[Mapping[str, Any]]]
    scope: str
    cost: Cost
    deadline: DeadlineClass
    read_only: bool
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    operators_only: bool = False
    instead: str = ""
    """For an operators' tool: what everyone else should use, said in the refusal."""
    volatile: frozenset[str] = field(default=frozenset())
    """Output keys that differ between two equal calls (clock values, minted ids, cursors)."""
    example: Mapping[str, Any] = field(default_factory=dict)
    """Correct arguments, quoted in the message about wrong ones and used by the documentation."""


class Fill(StrEnum):
    """What an argument of a prompt or of a resource's address is completed from."""

    ENTITY = "entity"
    ENTITY_ID = "entity_id"
    TYPE = "type"
    VALUES = "values"
    NOTHING = ""


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One parameter of a prompt; all are text. ``values`` are the only ones allowed, where there are any."""

    name: str
    description: str
    required: bool = False
    default: str = ""
    values: tuple[str, ...] = ()
    fill: Fill = Fill.NOTHING


@dataclass(frozen=True, slots=True)
class Prompt:
    """Words that lead an agent through a piece of work; ``skill`` is the name of its shipped skill.

    It is shown to whose role could ever have ``scope``.
    """

    name: str
    skill: str
    title: str
    description: str
    scope: str
    text: str
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class Resource:
    """Something to read by its address. ``{id}`` in ``uri`` makes it a template.

    ``read(service, call, id)`` gives its text, or an object to be sent as JSON; ``id`` is empty without a template. It
    raises ``NotFound`` for what the caller may not see, as for what never was.
    """

    name: str
    title: str
    description: str
    uri: str
    media_type: str
    toolset: ToolsetName
    scope: str
    read: Callable[[Any, Call, str], Awaitable[str | Mapping[str, Any]]]
    fill: Fill = Fill.NOTHING
    """What ``{id}`` is completed from."""
    volatile: frozenset[str] = field(default=frozenset())
    """Keys of its JSON that differ between two equal reads."""

    @property
    def template(self) -> bool:
        """Whether its address has a place to fill in."""
        return "{id}" in self.uri


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a list goes on: opaque to callers, bound to the data id and the question it belongs to."""

    position: tuple[Any, ...]

    def encode(self, scope: Scope, question: Mapping[str, Any]) -> str:
        """The cursor as a URL-safe text."""
        body = json.dumps([_digest(scope, question), list(self.position)], separators=(",", ":"))
        return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str, scope: Scope, question: Mapping[str, Any], *forms: tuple[type, ...]) -> Cursor:
        """Read a cursor back. ``forms`` are what a position may be: ``str`` and, for any number, ``float`` by element.

        Raises:
            InvalidInput: it is not a cursor, or belongs to another question, another tenant's data or other layers.
        """
        try:
            raw = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            digest, position = raw
        except (ValueError, TypeError, binascii.Error, RecursionError) as error:
            raise InvalidInput(
                "cursor is not one that this tool gave out; start again without it", field="cursor"
            ) from error
        if digest != _digest(scope, question) or not isinstance(position, list):
            raise InvalidInput("cursor has expired or belongs to another call; start again without it", field="cursor")
        # The digest is no signature: beside it a caller may write any position. It may say where to go on, no more.
        if forms and tuple(map(_form, position)) not in forms:
            raise InvalidInput("cursor is not one that this tool gave out; start again without it", field="cursor")
        return cls(tuple(position))


def _form(value: Any) -> type:
    if isinstance(value, str):
        return object if any("\ud800" <= ch <= "\udfff" for ch in value) else str
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float if number and abs(value) < 2**63 else object  # NaN is not less than anything


def _digest(scope: Scope, question: Mapping[str, Any]) -> str:
    text = json.dumps([scope.tenant, sorted(scope.layers), question], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
