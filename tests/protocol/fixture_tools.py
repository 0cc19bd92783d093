"""A small toolset of our own to try the protocol room with: it declares tools as real toolsets do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.context import EVERY_LAYER, SCOPES, Grant, Principal, Role
from app.contract import Arguments, Call, Cost, Cursor, DeadlineClass, ReadArguments, Tool, WriteArguments
from app.errors import DatabaseUnavailable, RateLimited


class Point(BaseModel):
    x: float
    label: str | None = None


class EchoInput(ReadArguments):
    text: str = Field(max_length=1000, description="What to say again.")
    times: int = Field(default=1, ge=1, le=50_000)
    kind: Literal["plain", "loud"] = "plain"
    points: list[Point] | None = Field(default=None, max_length=20)
    values: dict[str, Any] = Field(default_factory=dict)
    weight: float = 0.5


class EchoOutput(BaseModel):
    said: list[str]
    kind: str
    layers: list[str]
    values: dict[str, Any] = Field(default_factory=dict)
    point: Point | None = None


class Nothing(ReadArguments):
    pass


class Done(BaseModel):
    done: bool
    seconds: float | None = None


class WriteInput(WriteArguments):
    name: str = Field(min_length=1, max_length=512)


class Written(BaseModel):
    name: str
    layer: str
    report: list[str] = Field(default_factory=list)


class PageInput(ReadArguments):
    limit: int = Field(default=1000, ge=1, le=5000)
    cursor: str | None = None


class Page(BaseModel):
    items: list[str]
    next_cursor: str | None = None


@dataclass
class Service:
    """What the tools work on; counts let tests see what really ran."""

    written: list[str] = field(default_factory=list)
    begun: int = 0
    cancelled: int = 0
    finished: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def note(self, what: str) -> None:
        async with self.changed:
            setattr(self, what, getattr(self, what) + 1)
            self.changed.notify_all()

    async def until(self, what: str, count: int) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: getattr(self, what) >= count)


async def echo(_: Service, call: Call, given: EchoInput) -> Mapping[str, Any]:
    return {
        "said": [given.text] * given.times,
        "kind": given.kind,
        "layers": list(call.scope.layers),
        "values": given.values,
        "point": None,
    }


async def slow(service: Service, call: Call, _: Nothing) -> Mapping[str, Any]:
    await service.note("begun")
    try:
        for step in range(5):
            await call.progress(step, 5, "working")
        await service.release.wait()
    except asyncio.CancelledError:
        await asyncio.shield(service.note("cancelled"))
        raise
    await call.progress(5, 5, "done")
    await service.note("finished")
    return {"done": True}


async def fail(_: Service, __: Call, given: EchoInput) -> Mapping[str, Any]:
    if given.text == "database":
        raise DatabaseUnavailable("the database cannot be reached; try again in a moment", retry_after_ms=500)
    if given.text == "limit":
        raise RateLimited("too many calls", retry_after_ms=1500)
    raise RuntimeError(f"secret memory text: {given.text}")


async def write(service: Service, call: Call, given: WriteInput) -> Mapping[str, Any]:
    service.written.append(given.name)
    if given.name == "break":
        raise RuntimeError("after the commit?")
    size = 5000 if given.name == "long report" else 1
    return {"name": given.name, "layer": str(call.scope.write_layer), "report": ["line of the report"] * size}


async def page(_: Service, call: Call, given: PageInput) -> Mapping[str, Any]:
    question = {"list": "all"}
    start = Cursor.decode(given.cursor, call.scope, question).position[0] if given.cursor else 0
    items = [f"{number:05d}" + "x" * 95 for number in range(start, min(start + given.limit, 2000))]
    end = start + len(items)
    return {"items": items, "next_cursor": Cursor((end,)).encode(call.scope, question) if end < 2000 else None}


async def wrong_shape(_: Service, __: Call, ___: Arguments) -> Mapping[str, Any]:
    return {"done": "perhaps"}


def tool(**changes: Any) -> Tool:
    """A valid declaration, with changes."""
    fields: dict[str, Any] = {
        "name": "echo",
        "title": "Echo",
        "description": "Says what it was told.",
        "toolset": "memory",
        "input": EchoInput,
        "output": EchoOutput,
        "run": echo,
        "scope": "memory:read",
        "cost": Cost.PLAIN,
        "deadline": DeadlineClass.READ,
        "read_only": True,
        "example": {"text": "hello", "times": 2},
    }
    return Tool(**(fields | changes))


def writer(**changes: Any) -> Tool:
    fields: dict[str, Any] = {
        "name": "store",
        "title": "Store",
        "input": WriteInput,
        "output": Written,
        "run": write,
        "scope": "memory:write",
        "deadline": DeadlineClass.WRITE,
        "read_only": False,
        "example": {"name": "Ada"},
    }
    return tool(**(fields | changes))


TOOLS: tuple[Tool, ...] = (
    tool(),
    tool(name="slow", title="Slow", input=Nothing, output=Done, run=slow, example={}, toolset="ledger"),
    tool(name="fail", title="Fail", run=fail),
    tool(name="fail_ledger", title="Fail", run=fail, toolset="ledger"),
    tool(name="page", title="Page", input=PageInput, output=Page, run=page, example={"limit": 10}),
    tool(name="wrong_shape", title="Wrong shape", input=Nothing, output=Done, run=wrong_shape, example={}),
    writer(),
    tool(name="repair", title="Repair", operators_only=True, instead="Use echo.", scope="admin"),
)


def principal(name: str = "ada", **changes: Any) -> Principal:
    scopes = frozenset(changes.pop("scopes", SCOPES))
    fields: dict[str, Any] = {
        "subject": name,
        "client": "test",
        "tenant": f"t-{name}",
        "tenant_name": name,
        "data": f"data-{name}",
        "role": Role.MEMBER,
        "operator": False,
        "grant": Grant("g", scopes, frozenset({EVERY_LAYER}), frozenset({EVERY_LAYER}), ""),
        "tenant_layers": frozenset({"", "work"}),
    }
    return Principal(**(fields | changes))
