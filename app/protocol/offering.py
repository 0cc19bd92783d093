"""Prompts and resources: what is listed, filled in, read and completed, for whom.

Lists and prompts need no database. A read of a resource passes the same stages as a call of a tool; so does a
completion, but it spends nothing. ``stage`` is what those stages look the method up with.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn
from urllib.parse import unquote

from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import BaseModel

from app.access.layers import allowed_scopes, require_scope, scope_for
from app.context import SCOPES, Deadline, Principal, RequestContext
from app.contract import (
    Arguments,
    Call,
    Cost,
    DeadlineClass,
    Fill,
    Prompt,
    PromptArgument,
    Resource,
    Tool,
    ToolsetName,
)
from app.errors import InternalError, NotFound, ProtocolError
from app.protocol.progress import silent
from app.protocol.result import RESULT_CHARACTERS, success

__all__ = ["COMPLETING", "READING", "Completing", "Offering", "OfferingError", "filled"]

LONGEST_ARGUMENT: Final = 2000
MOST_VALUES: Final = 100
"""Most values of a completion; the protocol allows no more."""

_SECONDS: Final = 15.0

Completing = Callable[[Any, Call, Fill, str], Awaitable[Sequence[str]]]
"""``complete(service, call, fill, beginning)``: at most ``MOST_VALUES`` + 1 values, in order."""


class OfferingError(ValueError):
    """A prompt or resource that breaks a rule; found when the process starts."""


async def _never(service: Any, call: Call, arguments: Any) -> NoReturn:
    raise InternalError("this is no tool")


def _stage(name: str, title: str, cost: Cost) -> Tool:
    return Tool(
        name=name,
        title=title,
        description=title,
        toolset="memory",
        input=Arguments,
        output=BaseModel,
        run=_never,
        scope="memory:read",
        cost=cost,
        deadline=DeadlineClass.READ,
        read_only=True,
        idempotent=True,
    )


READING: Final = _stage("resources/read", "Read a resource", Cost.PLAIN)
COMPLETING: Final = _stage("completion/complete", "Complete an argument", Cost.NOTHING)
_STAGED: Final = MappingProxyType({tool.name: tool for tool in (READING, COMPLETING)})


class Offering:
    """All prompts and resources, checked once. ``services`` holds the service object of each toolset,
    ``worded`` writes into a prompt what holds for the caller.

    Raises:
        OfferingError: two have one name or address, a scope does not exist, an address is not of this gateway.
    """

    def __init__(
        self,
        prompts: Iterable[Prompt],
        resources: Iterable[Resource],
        services: Mapping[ToolsetName, Any],
        complete: Completing,
        *,
        result_characters: int = RESULT_CHARACTERS,
        worded: Callable[[Prompt, Principal], Prompt] = lambda prompt, _: prompt,
    ) -> None:
        self.prompts: Mapping[str, Prompt] = MappingProxyType(_by_name(prompts))
        self.resources: Mapping[str, Resource] = MappingProxyType(_by_name(resources))
        self._services = services
        self._complete = complete
        self._characters = result_characters
        self._worded = worded
        for resource in self.resources.values():
            if not resource.uri.startswith("graphkeep://") or resource.uri.count("{") > resource.template:
                raise OfferingError(f"{resource.name}: {resource.uri} is not an address of a resource")

    @staticmethod
    def stage(name: str) -> Tool | None:
        """What the stages of the pipeline hold a request of this method to; None for one that passes freely."""
        return _STAGED.get(name)

    def prompts_for(self, principal: Principal) -> list[Prompt]:
        """The prompts that this role could ever use."""
        shown = [prompt for prompt in self.prompts.values() if _reachable(prompt.scope, principal)]
        return [self._worded(prompt, principal) for prompt in shown]

    def resources_for(self, principal: Principal, *, templates: bool) -> list[Resource]:
        """The resources, or the templates, that this role could ever read."""
        return [
            resource
            for resource in self.resources.values()
            if resource.template is templates and _reachable(resource.scope, principal)
        ]

    def prompt(self, name: str, arguments: Mapping[str, str], principal: Principal) -> tuple[Prompt, str]:
        """A prompt with its parameters filled in.

        Raises:
            ProtocolError: there is no such prompt for this role, or an argument breaks a rule (-32602).
        """
        prompt = self.prompts.get(name)
        if prompt is None or not _reachable(prompt.scope, principal):
            raise ProtocolError(INVALID_PARAMS, "unknown prompt; prompts/list names those that exist")
        prompt = self._worded(prompt, principal)
        return prompt, filled(prompt, arguments)

    async def read(self, uri: str, context: RequestContext) -> tuple[Resource, str]:
        """A resource and its text, as the caller's layers show it.

        Raises:
            ProtocolError: there is no such resource among what the caller may see (-32602).
            CallError: the scope is missing, or what the store raises.
        """
        resource, id_ = self._named(uri)
        call = _call(context, READING)
        require_scope(READING, call.principal)
        try:
            found = await resource.read(self._services[resource.toolset], call, id_)
            return resource, self._text(found)
        except NotFound:
            raise _unknown() from None

    async def complete(
        self, owner: tuple[str, str], argument: str, beginning: str, context: RequestContext
    ) -> list[str]:
        """Values that ``argument`` of a prompt (``("ref/prompt", name)``) or of a template may have.

        Raises:
            ProtocolError: there is no such prompt, template or argument (-32602).
            CallError: the scope is missing, or what the store raises.
        """
        call = _call(context, COMPLETING)
        fill, values = self._argument(owner, argument, call.principal)
        if fill is Fill.NOTHING:
            return []
        if fill is Fill.VALUES:
            return [value for value in values if value.startswith(beginning)]
        require_scope(COMPLETING, call.principal)
        return list(await self._complete(self._services["memory"], call, fill, beginning[:LONGEST_ARGUMENT]))

    def _text(self, found: str | Mapping[str, Any]) -> str:
        if isinstance(found, str):
            return found if len(found) <= self._characters else found[: self._characters - 1] + "…"
        return success(found, limit=self._characters).text

    def _named(self, uri: str) -> tuple[Resource, str]:
        for resource in self.resources.values():
            if resource.uri == uri:
                return resource, ""
            before, hole, after = resource.uri.partition("{id}")
            inside = uri[len(before) : len(uri) - len(after)] if uri.startswith(before) and uri.endswith(after) else ""
            if hole and 0 < len(inside) <= LONGEST_ARGUMENT and "/" not in inside:
                return resource, unquote(inside)
        raise _unknown()

    def _argument(self, owner: tuple[str, str], argument: str, principal: Principal) -> tuple[Fill, tuple[str, ...]]:
        kind, name = owner
        if kind == "ref/prompt":
            prompt = self.prompts.get(name)
            known = {} if prompt is None or not _reachable(prompt.scope, principal) else _arguments(prompt)
            if argument in known:
                return known[argument].fill, known[argument].values
        else:
            resource = next((found for found in self.resources.values() if found.uri == name), None)
            if resource is not None and resource.template and argument == "id":
                return resource.fill, ()
        raise ProtocolError(INVALID_PARAMS, "there is no such argument of a prompt or of a resource's address")


def filled(prompt: Prompt, arguments: Mapping[str, str]) -> str:
    """The words of a prompt with its parameters before them.

    Raises:
        ProtocolError: an argument is unknown, missing, too long, or not one of its values (-32602).
    """
    known = _arguments(prompt)
    for name, value in arguments.items():
        if name not in known:
            takes = ", ".join(known) or "none"
            raise ProtocolError(INVALID_PARAMS, f"{name[:100]} is no argument of this prompt; it takes {takes}")
        if len(value) > LONGEST_ARGUMENT:
            raise ProtocolError(INVALID_PARAMS, f"{name}: at most {LONGEST_ARGUMENT} characters")
        if known[name].values and value not in known[name].values:
            raise ProtocolError(INVALID_PARAMS, f"{name}: one of {', '.join(known[name].values)}")
    missing = [name for name, argument in known.items() if argument.required and not arguments.get(name)]
    if missing:
        raise ProtocolError(INVALID_PARAMS, f"{', '.join(missing)} is required")
    if not known:
        return prompt.text
    said = [
        f"- `{name}`: {arguments.get(name) or argument.default or '(not given)'}" for name, argument in known.items()
    ]
    return "\n".join(["Parameters:", *said, "", prompt.text])


def _arguments(prompt: Prompt) -> dict[str, PromptArgument]:
    return {argument.name: argument for argument in prompt.arguments}


def _reachable(scope: str, principal: Principal) -> bool:
    return scope in allowed_scopes(principal.role, operator=principal.operator)


def _by_name(offered: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in offered:
        if one.name in found:
            raise OfferingError(f"{one.name}: two have this name")
        if one.scope not in SCOPES:
            raise OfferingError(f"{one.name}: {one.scope!r} is not a scope")
        found[one.name] = one
    return found


def _call(context: RequestContext, stage: Tool) -> Call:
    if context.principal is None:
        raise ProtocolError(INTERNAL_ERROR, "nobody is signed in")
    return Call(
        tool=stage.name,
        request_id=context.request_id,
        principal=context.principal,
        scope=scope_for(context.principal, None, writes=False),
        deadline=context.deadline or Deadline.after(_SECONDS),
        progress=silent,
    )


def _unknown() -> ProtocolError:
    return ProtocolError(INVALID_PARAMS, "there is no such resource; resources/list and its templates name them")
