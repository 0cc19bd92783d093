"""The requests about prompts and resources, between the SDK and :class:`~app.protocol.offering.Offering`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)
from starlette.types import Scope

from app.context import Principal, RequestContext
from app.contract import Prompt as Offered
from app.edge.context import context_of
from app.errors import CallError, InternalError, ProtocolError
from app.protocol.envelope import Admit, envelope_of
from app.protocol.offering import MOST_VALUES, Offering
from app.protocol.result import failed_request

__all__ = ["HINTS", "Handlers"]

_LIST_TTL: Final = 60_000

HINTS: Final[Mapping[CacheableMethod, CacheHint]] = {
    "prompts/list": CacheHint(_LIST_TTL, "private"),
    "resources/list": CacheHint(_LIST_TTL, "private"),
    "resources/templates/list": CacheHint(_LIST_TTL, "private"),
    "resources/read": CacheHint(0, "private"),
}
"""How long clients may keep what was listed; it depends on who asks, so it is never shared."""

_Context = ServerRequestContext[Any, Any]


class Handlers:
    """Answers the requests; ``scope_of`` finds the ASGI scope of one.

    ``admit`` lets in what asks the database; None where the stages of HTTP did.
    """

    def __init__(self, offering: Offering, scope_of: Callable[[_Context], Scope], admit: Admit | None = None) -> None:
        self._offering = offering
        self._scope_of = scope_of
        self._admit = admit

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments for the SDK's server."""
        return {
            "on_list_prompts": self._list_prompts,
            "on_get_prompt": self._get_prompt,
            "on_list_resources": self._list_resources,
            "on_list_resource_templates": self._list_templates,
            "on_read_resource": self._read_resource,
            "on_completion": self._complete,
        }

    async def _list_prompts(self, ctx: _Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
        _one_page(params)
        return ListPromptsResult(prompts=[_prompt(prompt) for prompt in self._offering.prompts_for(self._caller(ctx))])

    async def _get_prompt(self, ctx: _Context, params: GetPromptRequestParams) -> GetPromptResult:
        try:
            prompt, text = self._offering.prompt(params.name, params.arguments or {}, self._caller(ctx))
        except ProtocolError as error:
            raise MCPError(code=error.code, message=error.message) from None
        said = PromptMessage(role="user", content=TextContent(text=text))
        return GetPromptResult(description=prompt.description, messages=[said])

    async def _list_resources(self, ctx: _Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        _one_page(params)
        shown = self._offering.resources_for(self._caller(ctx), templates=False)
        return ListResourcesResult(
            resources=[
                Resource(
                    name=found.name,
                    title=found.title,
                    uri=found.uri,
                    description=found.description,
                    mime_type=found.media_type,
                )
                for found in shown
            ]
        )

    async def _list_templates(
        self, ctx: _Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        _one_page(params)
        shown = self._offering.resources_for(self._caller(ctx), templates=True)
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(
                    name=found.name,
                    title=found.title,
                    uri_template=found.uri,
                    description=found.description,
                    mime_type=found.media_type,
                )
                for found in shown
            ]
        )

    async def _read_resource(self, ctx: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        try:
            async with self._admitted(ctx) as context:
                resource, text = await self._offering.read(params.uri, context)
        except ProtocolError as error:
            raise MCPError(code=error.code, message=error.message, data={"uri": params.uri[:500]}) from None
        except CallError as error:
            raise _failed(error) from None
        return ReadResourceResult(
            contents=[TextResourceContents(uri=params.uri, mime_type=resource.media_type, text=text)]
        )

    async def _complete(self, ctx: _Context, params: CompleteRequestParams) -> CompleteResult:
        ref, asked = params.ref, params.argument
        owner = (ref.type, ref.name if isinstance(ref, PromptReference) else ref.uri)
        try:
            async with self._admitted(ctx) as context:
                found = await self._offering.complete(owner, asked.name, asked.value, context)
        except ProtocolError as error:
            raise MCPError(code=error.code, message=error.message) from None
        except CallError as error:
            raise _failed(error) from None
        return CompleteResult(completion=Completion(values=found[:MOST_VALUES], has_more=len(found) > MOST_VALUES))

    @asynccontextmanager
    async def _admitted(self, ctx: _Context) -> AsyncIterator[RequestContext]:
        if self._admit is None:
            yield self._context(ctx)
            return
        envelope = envelope_of(self._scope_of(ctx))
        if envelope is None:
            raise InternalError("a request came past the parse of its line")
        async with self._admit(envelope, self._context(ctx)) as context:
            yield context

    def _context(self, ctx: _Context) -> RequestContext:
        return context_of(self._scope_of(ctx))

    def _caller(self, ctx: _Context) -> Principal:
        principal = self._context(ctx).principal
        if principal is None:
            raise MCPError(code=INTERNAL_ERROR, message="nobody is signed in")
        return principal


def _one_page(params: PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(code=INVALID_PARAMS, message="this list has one page; ask for it without a cursor")


def _failed(error: CallError) -> MCPError:
    said = failed_request(error)
    return MCPError(code=said["code"], message=said["message"], data=said["data"])


def _prompt(prompt: Offered) -> Prompt:
    return Prompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            PromptArgument(name=given.name, description=_description(given), required=given.required)
            for given in prompt.arguments
        ],
    )


def _description(given: Any) -> str:
    values = f" One of: {', '.join(given.values)}." if given.values else ""
    default = f" Default: {given.default}." if given.default else ""
    return f"{given.description}{values}{default}"
