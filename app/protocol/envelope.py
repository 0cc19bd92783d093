"""The one parse of a JSON-RPC body that authorization, limits and dispatch share.

What is wrong with a body is said here, cheaply, before anything else is spent on it. Whether headers and body agree
(``Mcp-Method``, ``Mcp-Name``, versions) stays with the SDK, which knows the rules of each protocol version.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import orjson
from mcp_types import CLIENT_INFO_META_KEY, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, PROTOCOL_VERSION_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.context import RequestContext
from app.edge.context import context_of, with_context
from app.errors import ProtocolError
from app.protocol.reading import Reading

__all__ = ["ENVELOPE", "MAX_DEPTH", "Admit", "Envelope", "EnvelopeStage", "envelope_of", "parse", "protocol_error_body"]

ENVELOPE: Final = "graphkeep.envelope"
"""Key of the :class:`Envelope` in the ASGI scope."""

STAGED_METHODS: Final = frozenset({"resources/read", "completion/complete"})
"""Requests besides ``tools/call`` that ask the database: authorization and limits hold for them too."""

MAX_DEPTH: Final = 16
"""Deepest nesting of a body, itself included (design §8)."""

MAX_VALUES: Final = 50_000
"""Most values in a body, containers included: what follows walks them, in the loop that serves every tenant."""
MAX_UNCALLED: Final = 64 * 1024
"""Largest body of a message that calls no tool, bytes: these are not limited in number."""
MAX_ID: Final = 256
MAX_METHOD: Final = 128

_OPENERS: Final = (b"[", b"{")
_VERSION_HEADER: Final = b"mcp-protocol-version"


@dataclass(frozen=True, slots=True)
class Envelope:
    """One JSON-RPC request or notification.

    ``id`` is None for a notification; ``tool`` and ``arguments`` belong to ``tools/call`` alone. ``client_info`` is
    what the client says of itself: for logs, never for a decision.
    """

    method: str
    id: int | str | None = None
    tool: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    protocol_version: str | None = None
    """From the header, else from ``_meta``; None when neither says."""
    modern: bool = False
    """Whether the call is answered in the per-request-envelope form of 2026-07-28 and later."""
    client_info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def notification(self) -> bool:
        """Whether no answer is awaited."""
        return self.id is None

    @property
    def staged(self) -> str | None:
        """What the stages of authorization and limits look up: the tool, or a method that touches the database too."""
        return self.method if self.method in STAGED_METHODS else self.tool

    @property
    def spends(self) -> bool:
        """Whether the call costs tokens of the bucket: handshake, discovery and lists never do (design §8)."""
        return self.tool is not None


Admit = Callable[[Envelope, RequestContext], AbstractAsyncContextManager[RequestContext]]
"""Lets what is ``staged`` in for as long as it runs: the context with its deadline, or a CallError."""


def parse(body: bytes, *, version: str | None = None) -> Envelope:
    """Read one JSON-RPC message; ``version`` is the ``MCP-Protocol-Version`` header.

    Raises:
        ProtocolError: -32700 for what is not JSON (NaN and Infinity are not), -32600 for what is not one request or
            notification or nests deeper than ``MAX_DEPTH``, -32602 for a ``tools/call`` without a name.
    """
    message = _load(body)
    if not isinstance(message, dict):
        _refuse("the body must be one JSON-RPC request or notification; batches are not served")
    request_id = _request_id(message)
    if "id" in message and request_id is None:
        _refuse(f"id must be a string of at most {MAX_ID} characters or an integer")
    if message.get("jsonrpc") != "2.0":
        _refuse('jsonrpc must be "2.0"', request_id)
    method, params = message.get("method"), message.get("params")
    if not isinstance(method, str) or not 0 < len(method) <= MAX_METHOD:
        _refuse("method must be a string; responses are not accepted, as this server sends no requests", request_id)
    if method != "tools/call" and len(body) > MAX_UNCALLED:
        _refuse(f"a message that calls no tool has at most {MAX_UNCALLED} bytes", request_id)
    if params is None:
        params = {}
    if not isinstance(params, dict):
        _refuse("params must be an object", request_id)
    tool, arguments = _call(params, request_id) if method == "tools/call" else (None, {})
    meta = _mapping(params.get("_meta"))
    claimed = meta.get(PROTOCOL_VERSION_META_KEY)
    return Envelope(
        method=method,
        id=request_id,
        tool=tool,
        arguments=arguments,
        meta=meta,
        protocol_version=version if version is not None else claimed if isinstance(claimed, str) else None,
        modern=version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS,
        client_info=_mapping(meta.get(CLIENT_INFO_META_KEY)),
    )


def _load(body: bytes) -> Any:
    try:
        message = _read_json(body)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(PARSE_ERROR, "the body is not valid JSON (UTF-8, no NaN, no Infinity)") from error
    # Fewer openers and commas than levels and values allowed: no need to walk. Counting is a fraction of the parse.
    openers = sum(body.count(opener) for opener in _OPENERS)
    if openers > MAX_DEPTH or openers + body.count(b",") > MAX_VALUES:
        rule = _shape(message)
        if rule is not None:
            _refuse(rule, _request_id(message))
    return message


def _read_json(body: bytes) -> Any:
    if len(body) <= MAX_UNCALLED or not gc.isenabled():
        return orjson.loads(body)
    # A million small containers are no garbage yet; looking for some among them takes five times as long as the parse.
    gc.disable()
    try:
        return orjson.loads(body)
    finally:
        gc.enable()


def _shape(message: Any) -> str | None:
    """What is wrong with the shape of a message. Stops early, so that refusing costs less than the parse did."""
    level = [message] if isinstance(message, dict | list) else []
    values = 0
    for _ in range(MAX_DEPTH):
        values += sum(map(len, level))
        if values > MAX_VALUES:
            return f"the body holds more than {MAX_VALUES} values; send it in parts"
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return None
    return f"the body nests deeper than {MAX_DEPTH} levels"


def _request_id(message: Any) -> int | str | None:
    found = message.get("id") if isinstance(message, dict) else None
    if isinstance(found, str):
        return found if len(found) <= MAX_ID else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _call(params: dict[str, Any], request_id: int | str | None) -> tuple[str, Mapping[str, Any]]:
    name, arguments = params.get("name"), params.get("arguments")
    if request_id is None:
        _refuse("tools/call must carry an id")
    if not isinstance(name, str) or not name:
        raise ProtocolError(INVALID_PARAMS, "params.name must name a tool", id=request_id)
    if arguments is not None and not isinstance(arguments, dict):
        raise ProtocolError(INVALID_PARAMS, "params.arguments must be an object", id=request_id)
    return name, arguments or {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _refuse(message: str, request_id: int | str | None = None) -> NoReturn:
    raise ProtocolError(INVALID_REQUEST, message, id=request_id)


def protocol_error_body(error: ProtocolError) -> bytes:
    """The JSON-RPC error response; ``id`` is null when none could be read (JSON-RPC 2.0 §5)."""
    return orjson.dumps(
        {"jsonrpc": "2.0", "id": error.id, "error": {"code": error.code, "message": error.message}},
    )


def envelope_of(scope: Scope) -> Envelope | None:
    """The envelope of this request; None before :class:`EnvelopeStage` and for what carries no body."""
    found = scope.get(ENVELOPE)
    return found if isinstance(found, Envelope) else None


class EnvelopeStage:
    """Read the bounded body of a POST once, parse it, and hand both on.

    What follows finds the :class:`Envelope` in the scope, the tool in the :class:`~app.context.RequestContext`, and the
    same body again from ``receive``.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._reading = Reading()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Parse and pass on, or answer with a protocol error (HTTP 400)."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        principal = context_of(scope).principal
        body = await self._reading.body(principal.tenant if principal is not None else "", receive)
        if body is None:
            return
        try:
            envelope = parse(body, version=_version(scope))
        except ProtocolError as error:
            await _answer(send, error)
            return
        inner = with_context(scope, context_of(scope).calling(envelope.staged))
        await self._app({**inner, ENVELOPE: envelope}, _replay(body, receive), send)


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting = True

    async def replay() -> Message:
        nonlocal waiting
        if waiting:
            waiting = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay


def _version(scope: Scope) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == _VERSION_HEADER), None)


async def _answer(send: Send, error: ProtocolError) -> None:
    body = protocol_error_body(error)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
