"""Calls of the MCP endpoint in both protocol eras, as connectors send them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import httpx2

from app.cli.connector.discovery import ACCEPT, INITIALIZE, Documents, challenge_of
from app.cli.connector.report import NotTried, Trouble
from app.counting import counted

__all__ = ["LEGACY", "MODERN", "Calls"]

MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
META: Final = "io.modelcontextprotocol"
ENDS_WITHIN: Final = 5.0
"""Seconds after which a revoked grant must not work any more."""
PATIENCE: Final = 20.0
"""Longest wait for the refusal to come as 401."""
AGAIN: Final = 0.25
BUSY_TRIES: Final = 10
UNKNOWN: Final = {"graphkeep_doctor": True}
"""Arguments that every tool refuses before it does anything."""


@dataclass(slots=True)
class Calls:
    """What is asked with a token at the MCP endpoint."""

    documents: Documents
    tools: list[dict[str, Any]] = field(default_factory=list)

    async def discover(self, token: str) -> str:
        """``server/discover`` and ``tools/list`` in the era of 2026-07-28.

        Raises:
            Trouble: one of them fails.
        """
        found = _result(await self.send(token, MODERN, "server/discover"), "server/discover")
        if MODERN not in found.get("supportedVersions", []):
            raise Trouble(f"server/discover does not name {MODERN}", "Run one release of the gateway everywhere.")
        self.tools = _listed(_result(await self.send(token, MODERN, "tools/list"), "tools/list"))
        return f"{MODERN}: {counted(len(self.tools), 'tool')}"

    async def initialize(self, token: str) -> str:
        """``initialize``, ``notifications/initialized`` and ``tools/list`` in the era before.

        Raises:
            Trouble: one of them fails, or the lists of the two eras differ.
        """
        begun = _result(await self.send(token, None, "initialize", **INITIALIZE["params"]), "initialize")
        version = str(begun.get("protocolVersion"))
        if version != LEGACY:
            raise Trouble(f"initialize answers the version {version}", "Run one release of the gateway everywhere.")
        noted = await self.send(token, LEGACY, "notifications/initialized", notification=True)
        if noted.status_code != httpx2.codes.ACCEPTED:
            raise Trouble(f"notifications/initialized is answered {noted.status_code}", _UNCHANGED)
        listed = _listed(_result(await self.send(token, LEGACY, "tools/list"), "tools/list"))
        if {tool["name"] for tool in listed} != {tool["name"] for tool in self.tools}:
            raise Trouble("the two eras list different tools", "Run one release of the gateway everywhere.")
        return f"{LEGACY}: the same tools"

    async def call(self, token: str) -> str:
        """Call a tool that reads, in both eras.

        Raises:
            Trouble: the call fails. NotTried: no tool reads without arguments.
        """
        tool = next((tool for tool in self.tools if _reads(tool) and not _required(tool)), None)
        if tool is None:
            raise NotTried("no tool that reads is listed for this person")
        for era in (MODERN, LEGACY):
            result = await self._insisted(token, era, tool["name"])
            if result.get("isError"):
                raise Trouble(
                    f"{tool['name']} fails: {_message(result)}",
                    "`graphkeep doctor` on the gateway's machine says more.",
                )
        return f"{tool['name']} answers in both eras"

    def writer(self) -> str:
        """Name of a tool that would write, and that refuses arguments that it does not know.

        Raises:
            NotTried: there is none for this person.
        """
        for tool in self.tools:
            if not _reads(tool) and tool.get("inputSchema", {}).get("additionalProperties") is False:
                return str(tool["name"])
        raise NotTried("this person may only read, so nothing can be asked for beyond it")

    async def refused_scopes(self, token: str, tool: str) -> list[str]:
        """What the challenge asks for when a call needs more than the token has (403, RFC 6750 §3.1).

        Raises:
            Trouble: it is answered otherwise.
        """
        answer = await self.send(token, MODERN, "tools/call", name=tool, arguments=UNKNOWN)
        challenge = challenge_of(answer)
        if answer.status_code != httpx2.codes.FORBIDDEN or challenge.get("error") != "insufficient_scope":
            raise Trouble(
                f"a call beyond what was granted is answered {answer.status_code} instead of 403 insufficient_scope",
                "Let the proxy pass 403 and its WWW-Authenticate on unchanged, without a page of its own.",
            )
        if not challenge.get("scope") or not challenge.get("resource_metadata"):
            raise Trouble("the challenge of 403 lacks scope or resource_metadata", _UNCHANGED)
        return challenge["scope"].split()

    async def passes(self, token: str, tool: str) -> str:
        """A call of a tool that writes is let through: it fails for its unknown argument, so nothing is written.

        Raises:
            Trouble: it is still refused.
        """
        result = await self._insisted(token, MODERN, tool, UNKNOWN)
        if not result.get("isError"):
            raise Trouble(
                f"{tool} accepts an argument that it does not have", "Run one release of the gateway everywhere."
            )
        return "let through after consent"

    async def ends(self, token: str) -> str:
        """After revocation no call works 5 s later, and the token is refused with 401.

        Raises:
            Trouble: it still works, or is not refused.
        """
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            asked = time.monotonic() - began
            answer = await self.send(token, MODERN, "tools/call", name=self._reader(), arguments={})
            if answer.status_code == httpx2.codes.UNAUTHORIZED:
                return f"refused after {asked:.1f} s"
            if asked > ENDS_WITHIN and not _failed(answer):
                raise Trouble(
                    f"a call still works {asked:.1f} s after the grant was revoked",
                    "Every gateway behind this address must reach the database: `graphkeep doctor` on each.",
                )
            await asyncio.sleep(AGAIN)
        raise Trouble(f"no 401 within {PATIENCE:.0f} s after the grant was revoked", _UNCHANGED)

    def _reader(self) -> str:
        return next((str(tool["name"]) for tool in self.tools if _reads(tool) and not _required(tool)), "none")

    async def _insisted(
        self, token: str, era: str, tool: str, arguments: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, Any]:
        """Call a tool as clients should: again while the answer says that it helps."""
        for _ in range(BUSY_TRIES):
            answer = await self.send(token, era, "tools/call", name=tool, arguments=dict(arguments))
            result = _result(answer, f"tools/call {tool}")
            said = result.get("structuredContent") or {}
            if not said.get("retryable"):
                break
            await asyncio.sleep(said.get("retry_after_ms", 500) / 1000)
        return result

    async def send(
        self, token: str, era: str | None, method: str, /, *, notification: bool = False, **params: Any
    ) -> httpx2.Response:
        """One message in the form of its era; None sends no version, as the first message of a handshake does."""
        headers = {**ACCEPT, "Authorization": f"Bearer {token}"}
        if era is not None:
            headers["MCP-Protocol-Version"] = era
        if era == MODERN:
            headers |= {"Mcp-Method": method, **({"Mcp-Name": params["name"]} if "name" in params else {})}
            params["_meta"] = {
                f"{META}/protocolVersion": MODERN,
                f"{META}/clientCapabilities": {},
                f"{META}/clientInfo": INITIALIZE["params"]["clientInfo"],
            }
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not notification:
            body["id"] = 1
        return await self.documents.client.post(self.documents.url, json=body, headers=headers)


_UNCHANGED: Final = "The answers must be the gateway's own: let the proxy pass them on unchanged."


def _result(answer: httpx2.Response, what: str) -> dict[str, Any]:
    if answer.status_code != httpx2.codes.OK:
        raise Trouble(
            f"{what} is answered {answer.status_code}",
            "The token was accepted elsewhere: let the proxy keep the Authorization header, and give all gateways "
            "behind this address one database.",
        )
    message = next(_messages(answer), {})
    result = message.get("result")
    if not isinstance(result, dict):
        raise Trouble(f"{what} fails: {message.get('error', 'no answer')}", _UNCHANGED)
    return result


def _messages(answer: httpx2.Response) -> Iterator[dict[str, Any]]:
    """The answers in a body: one JSON message, or those of an event stream that are no notifications."""
    texts = [answer.text]
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        texts = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:")]
    for text in texts:
        try:
            message = json.loads(text)
        except ValueError:
            continue
        if isinstance(message, dict) and "id" in message:
            yield message


def _failed(answer: httpx2.Response) -> bool:
    if answer.status_code != httpx2.codes.OK:
        return True
    message = next(_messages(answer), {})
    return bool(message.get("result", {"isError": True}).get("isError"))


def _listed(result: dict[str, Any]) -> list[dict[str, Any]]:
    tools = result.get("tools")
    if not isinstance(tools, list) or not tools:
        raise Trouble("tools/list has no tools", "The person who allowed this must belong to a tenant.")
    return tools


def _reads(tool: dict[str, Any]) -> bool:
    return bool(tool.get("annotations", {}).get("readOnlyHint"))


def _required(tool: dict[str, Any]) -> bool:
    """Whether a call without arguments is refused."""
    return bool(tool.get("inputSchema", {}).get("required"))


def _message(result: dict[str, Any]) -> str:
    said = result.get("structuredContent") or {}
    return str(said.get("message", "no reason given"))
