"""The stage that asks whether this token may call this tool, once the tool is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.challenge import challenge, metadata_url
from app.access.layers import require_scope, visible
from app.access.snapshot import Snapshot
from app.context import Principal
from app.contract import Tool
from app.edge.answers import problem
from app.edge.context import context_of, with_context
from app.errors import CallError, Forbidden, InsufficientScope, Overloaded
from app.store.control.tenants import TenantState

__all__ = ["Authorize", "check_tool"]

FORBIDDEN: Final = 403
MOVING_RETRY_MS: Final = 5000


def check_tool(tool: Tool, principal: Principal, snapshot: Snapshot) -> None:
    """Let a call of ``tool`` pass, as far as token, tenant and snapshot are concerned.

    What the role can never reach passes too: dispatch refuses it with a tool error that says what to use instead.

    Raises:
        InsufficientScope: the person could grant the scope that the token lacks.
        DatabaseUnavailable: the snapshot is too old to trust. Overloaded: the tenant's data is being moved.
        Forbidden: the tenant is suspended.
    """
    snapshot.require_fresh()
    if not visible(tool, principal):
        return
    require_scope(tool, principal)
    tenant = snapshot.view.tenants.get(principal.tenant)
    state = TenantState.ACTIVE if tenant is None else tenant.state
    if state in (TenantState.SUSPENDED, TenantState.DELETED):  # a local caller brings no token that would tell
        raise Forbidden("this tenant is suspended, and nothing was applied; ask an operator of the gateway.")
    if state is TenantState.MOVING and not tool.read_only:
        raise Overloaded(
            "this tenant's data is being restored or imported, and nothing was applied; try again in a few seconds.",
            retry_after_ms=MOVING_RETRY_MS,
        )


class Authorize:
    """Answers 403 with a step-up challenge where a scope is missing that the person could grant.

    ``tool_named`` finds a tool's declaration (None: unknown, which dispatch answers); ``refuse`` makes the response
    of a failed call, in the form of the protocol.
    """

    def __init__(
        self,
        app: ASGIApp,
        snapshot: Snapshot,
        *,
        tool_named: Callable[[str], Tool | None],
        refuse: Callable[[Scope, CallError], ASGIApp],
    ) -> None:
        self._app = app
        self._snapshot = snapshot
        self._tool_named = tool_named
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the call pass, or refuse it."""
        if scope["type"] == "http":
            answer = self._answer(scope)
            await (answer or self._app)(self._asking(scope), receive, send)
        else:
            await self._app(scope, receive, send)

    def _asking(self, scope: Scope) -> Scope:
        """The same request; where its token is judged anew, what is asked here is asked again too."""
        context = context_of(scope)
        tool = None if context.tool is None else self._tool_named(context.tool)
        verify = context.again
        if tool is None or verify is None:
            return scope

        def again() -> Principal:
            principal = verify()
            check_tool(tool, principal, self._snapshot)
            return principal

        return with_context(scope, replace(context, again=again))

    def _answer(self, scope: Scope) -> ASGIApp | None:
        context = context_of(scope)
        tool = None if context.tool is None else self._tool_named(context.tool)
        if tool is None or context.principal is None:
            return None
        try:
            check_tool(tool, context.principal, self._snapshot)
        except InsufficientScope as error:
            return _step_up(scope, context.address, error)
        except CallError as error:
            return self._refuse(scope, error)
        return None


def _step_up(scope: Scope, address: str, error: InsufficientScope) -> ASGIApp:
    """403 as RFC 6750 §3.1 and the specification's "runtime insufficient scope" want it."""
    header = challenge(address, error.scopes, error=error.reason, description=error.message)
    return problem(
        scope,
        FORBIDDEN,
        error.reason,
        error.message,
        headers={"www-authenticate": header},
        error=error.reason,
        error_description=error.message,
        scopes=sorted(error.scopes),
        resource_metadata=metadata_url(address),
    )
