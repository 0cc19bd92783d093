"""The result envelope: what a call answers, in either protocol era.

Success is ``{ok: true, ...}``, failure ``{ok: false, reason, message, retryable, outcome, ...}``; both as structured
content and as JSON text with the same data, since some clients show their model only the one and some only the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, NamedTuple

import orjson
from mcp_types import INTERNAL_ERROR, SERVER_INFO_META_KEY

from app.contract import ToolsetName
from app.errors import CallError, InsufficientScope, InternalError, InvalidInput
from app.protocol.envelope import Envelope

__all__ = [
    "RESULT_CHARACTERS",
    "SERVER_NAME",
    "Answer",
    "Refusal",
    "TooLarge",
    "failed_request",
    "failure",
    "refusal",
    "server_version",
    "success",
    "unexpected",
]

SERVER_NAME: Final = "graphkeep"

RESULT_CHARACTERS: Final = 60_000
"""Largest result, characters of its text (design §8)."""

Wire = dict[str, Any]

_MAX_CUTS: Final = 8


class TooLarge(InvalidInput):
    """The answer does not fit, and cutting it would not be honest."""

    def __init__(self, characters: int, limit: int) -> None:
        super().__init__(
            f"the answer would have {characters} characters, over {limit}; ask for less (a smaller limit, a narrower "
            "question), nothing was changed"
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call answers. ``text`` is one JSON object: sent as text and, the same bytes, as structured content."""

    text: str
    failed: bool

    def result(self) -> Wire:
        """The JSON-RPC result as the SDK sends it; eras before 2026-07-28 drop ``resultType``."""
        return {**self._content(orjson.loads(self.text)), "resultType": "complete"}

    def body(self, envelope: Envelope) -> bytes:
        """The whole JSON-RPC response in the form of the caller's era."""
        result = self._content(orjson.Fragment(self.text))
        if envelope.modern:
            result["resultType"] = "complete"
            result["_meta"] = {SERVER_INFO_META_KEY: {"name": SERVER_NAME, "version": server_version()}}
        return orjson.dumps({"jsonrpc": "2.0", "id": envelope.id, "result": result})

    def _content(self, structured: Any) -> Wire:
        return {
            "content": [{"type": "text", "text": self.text}],
            "structuredContent": structured,
            "isError": self.failed,
        }


class Refusal(NamedTuple):
    """An HTTP answer made without the SDK."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


@cache
def server_version() -> str:
    """The installed version of graphkeep."""
    try:
        return version("graphkeep")
    except PackageNotFoundError:
        return "0"


def success(payload: Mapping[str, Any], *, limit: int = RESULT_CHARACTERS, cut: bool = True) -> Answer:
    """The result of a call that succeeded, at most ``limit`` characters of text.

    A longer one loses the ends of its longest lists and says so (``truncated: true``, ``omitted: {list: how many}``).

    Raises:
        TooLarge: it is longer and ``cut`` is False, or no list is left to cut.
        TypeError: the payload holds something that JSON cannot say.
    """
    text = _encoded({"ok": True, **payload})
    if len(text) > limit:
        if not cut:
            raise TooLarge(len(text), limit)
        text = _shortened(text, limit)
    return Answer(text, failed=False)


def failure(error: CallError, *, toolset: ToolsetName | None = None) -> Answer:
    """The result of a call that failed in a way its caller can act on."""
    payload: Wire = {
        "ok": False,
        "reason": error.reason,
        "message": error.message,
        "retryable": error.retryable,
        "outcome": error.outcome,
    }
    if error.retry_after_ms is not None:
        payload["retry_after_ms"] = error.retry_after_ms
        if toolset == "ledger":
            payload["retryAfterMs"] = error.retry_after_ms
    if isinstance(error, InvalidInput) and error.field is not None:
        payload["field"] = error.field
    if isinstance(error, InsufficientScope):
        payload["scopes"] = sorted(error.scopes)
    return Answer(_encoded(payload), failed=True)


def failed_request(error: CallError) -> Wire:
    """The JSON-RPC error of a request that is no call of a tool; ``data`` says what a failed call would say."""
    data: Wire = orjson.loads(failure(error).text)
    return {"code": INTERNAL_ERROR, "message": error.message, "data": data}


def refusal(envelope: Envelope, error: CallError, *, toolset: ToolsetName | None = None) -> Refusal:
    """A request refused before it reached the SDK: a tool error in the form of the caller's era, or for what is no
    call of a tool a JSON-RPC error; HTTP 200."""
    if envelope.tool is None:
        body = orjson.dumps({"jsonrpc": "2.0", "id": envelope.id, "error": failed_request(error)})
    else:
        body = failure(error, toolset=toolset).body(envelope)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    return Refusal(200, headers, body)


def unexpected(request_id: str, *, writes: bool) -> InternalError:
    """Our own fault, as the caller sees it: nothing of the cause, only where to find it."""
    return InternalError(
        f"something went wrong on our side; it is in the log under request {request_id}",
        outcome="unknown" if writes else "not_applied",
    )


def _encoded(payload: Mapping[str, Any]) -> str:
    return orjson.dumps(payload, option=orjson.OPT_UTC_Z | orjson.OPT_SERIALIZE_NUMPY).decode()


def _shortened(text: str, limit: int) -> str:
    payload = orjson.loads(text)
    omitted: dict[str, int] = {}
    payload |= {"truncated": True, "omitted": omitted}
    for _ in range(_MAX_CUTS):
        over = len(text := _encoded(payload)) - limit
        if over <= 0:
            return text
        longest = max(_lists(payload), key=lambda found: len(_encoded_list(found[1])), default=None)
        if longest is None:
            break
        name, items = longest
        dropped = _dropped(items, over)
        omitted[name] = omitted.get(name, 0) + dropped
    raise TooLarge(len(text), limit)


def _lists(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Each list that has items and is in no other list, with its dotted path."""
    for key, value in node.items():
        if isinstance(value, list) and value:
            yield f"{path}{key}", value
        elif isinstance(value, dict):
            yield from _lists(value, f"{path}{key}.")


def _encoded_list(items: list[Any]) -> bytes:
    return orjson.dumps(items)


def _dropped(items: list[Any], over: int) -> int:
    """Drop items from the end until ``over`` characters are gone; the number dropped."""
    before = len(items)
    while items and over > 0:
        over -= len(orjson.dumps(items.pop()).decode()) + 1
    return before - len(items)
