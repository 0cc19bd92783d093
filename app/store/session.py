"""The doors to the database: one for a tenant's graph, one for control records.

A :class:`TenantSession` adds tenant and layers to every statement itself (design §4, "One door").
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from app.context import Deadline, Scope
from app.contract import Json
from app.errors import Forbidden
from app.store.execution import Execution, Run, Trace
from app.store.idempotency import Idempotency, claim, record
from app.store.partition import NO_PARTITION, partition_token
from app.store.statement import INJECTED, REGISTERED, Statement

__all__ = ["ControlSession", "TenantSession", "Writing"]

T = TypeVar("T")
Bind = Callable[[Statement, Mapping[str, Any]], Mapping[str, Any]]

CONTROL_SECONDS: Final = 10.0


def _check(statement: Statement, *, control: bool) -> None:
    if REGISTERED.get(statement.name) is not statement:
        raise TypeError("only registered statements run")
    if statement.control is not control:
        raise TypeError(f"{statement.name} belongs to the {'control' if statement.control else 'tenant'} session")


def _control(statement: Statement, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    _check(statement, control=True)
    return parameters


class TenantSession:
    """What one call may do with its tenant's graph. Cheap to open; holds no connection between statements."""

    __slots__ = ("_bound", "_execution", "_trace", "deadline", "scope")

    def __init__(self, execution: Execution, scope: Scope, deadline: Deadline, request_id: str) -> None:
        self.scope = scope
        self.deadline = deadline
        self._execution = execution
        self._trace = Trace(request_id, scope.tenant, writes=bool(scope.writable))
        self._bound: dict[str, Any] = {"tenant": scope.tenant}

    async def read(self, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        """Rows of a reading statement, in one round trip. A cancelled read stops on the server too.

        Moments come back as ISO 8601 text in UTC.

        Raises:
            CallError: see ``Execution.read``.
            TypeError: the statement writes or is not registered, or a parameter is one that only the session sets.
        """
        if statement.writes:
            raise TypeError(f"{statement.name} writes; run it in write()")
        return await self._execution.read(statement, self.bind(statement, parameters), self.deadline, self._trace)

    async def write(
        self, work: Callable[[Writing], Awaitable[Json]], *, idempotency: Idempotency | None = None
    ) -> Json:
        """Do ``work`` in one transaction; its answer is returned once the commit is acknowledged.

        ``work`` may be run several times and must change nothing outside the database. With ``idempotency`` the first
        answer to the same key is returned again and nothing is applied.

        Raises:
            CallError: with what is known of the outcome.
            Conflict: the key was used with other arguments or layers.
            Forbidden: the scope writes nowhere.
        """
        if not self.scope.writable:
            raise Forbidden("this connection may not write; grant it a layer to write to")

        async def whole(run: Run) -> Json:
            writing = Writing(self.bind, run, self._into)
            if idempotency is None:
                return await work(writing)
            answer = await claim(run, self.scope, idempotency)
            if answer is None:
                answer = await work(writing)
                await record(run, self.scope, idempotency, answer)
            return answer

        return await self._execution.write(whole, self.deadline, self._trace)

    @property
    def mark(self) -> int:
        """The place of this moment among the commits of this process, for ``touched_since``."""
        return self._execution.lately.mark

    def touched_since(self, mark: int) -> set[str] | None:
        """Ids of the entities in the scope's layers that commits of this process, ended since, may have changed.

        An entity whose relations changed is among them. None: any may have changed.
        """
        layers = {*self.scope.layers, *self.scope.writable}
        return self._execution.lately.touched_since(self.scope.tenant, layers, mark)

    def bind(self, statement: Statement, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of ``statement``, with the session's own put in."""
        _check(statement, control=False)
        if not INJECTED.isdisjoint(parameters):
            raise TypeError("tenant and layers are set by the session alone")
        bound = dict(parameters)
        for name in statement.injected:
            bound[name] = self._bound[name] if name in self._bound else self._inject(name)
        return bound

    def _into(self, layer: str) -> Bind:
        if layer not in self.scope.writable:
            raise Forbidden("this connection may not write to every layer that this changes; grant it those layers")
        scope = replace(self.scope, write_layer=layer)
        return TenantSession(self._execution, scope, self.deadline, self._trace.request_id).bind

    def _inject(self, name: str) -> Any:
        scope = self.scope
        value: Any
        if name == "layers":
            value = list(scope.layers)
        elif name == "writable":
            value = list(scope.writable)
        elif name == "partitions":
            value = [partition_token(scope.tenant, layer) for layer in scope.layers] or [NO_PARTITION]
        else:
            layer = self._write_layer()
            value = layer if name == "layer" else partition_token(scope.tenant, layer)
        self._bound[name] = value
        return value

    def _write_layer(self) -> str:
        if self.scope.write_layer is None:
            raise Forbidden("this connection has no layer to write new records to; grant it one or name one in layers")
        return self.scope.write_layer


class Writing:
    """The inside of a write, of a tenant's records or of control records."""

    __slots__ = ("_bind", "_into", "_run")

    def __init__(self, bind: Bind, run: Run, into: Callable[[str], Bind] | None = None) -> None:
        self._bind = bind
        self._run = run
        self._into = into

    async def run(self, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        """Rows of a statement, reading or writing, in this transaction."""
        return await self._run(statement, self._bind(statement, parameters))

    def into(self, layer: str) -> Writing:
        """The same transaction with ``layer``, as the data spells it, as the one that new records go to.

        Raises:
            Forbidden: the scope may not write there.
        """
        if self._into is None:
            raise TypeError("control records lie in no layer")
        return Writing(self._into(layer), self._run, self._into)

    def control(self) -> Writing:
        """The same transaction for control records that belong to the change (audit, undo): for this room's stores."""
        return Writing(_control, self._run)


class ControlSession:
    """The door to control records, for ``app.store.control`` and this room's own housekeeping."""

    __slots__ = ("_deadline", "_execution", "_request_id")

    def __init__(self, execution: Execution, *, deadline: Deadline | None = None, request_id: str = "control") -> None:
        self._execution = execution
        self._deadline = deadline
        self._request_id = request_id

    def until(self, deadline: Deadline, request_id: str = "control") -> ControlSession:
        """The same door with a deadline of its own; without one, each call has ``CONTROL_SECONDS``."""
        return ControlSession(self._execution, deadline=deadline, request_id=request_id)

    async def read(self, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        """Rows of a reading control statement.

        Raises:
            CallError: see ``Execution.read``.
        """
        if statement.writes:
            raise TypeError(f"{statement.name} writes; run it in write()")
        return await self._execution.read(
            statement, _control(statement, parameters), self._until(), Trace(self._request_id)
        )

    async def write(self, work: Callable[[Writing], Awaitable[T]]) -> T:
        """Do ``work`` in one transaction, as ``TenantSession.write`` does.

        Raises:
            CallError: with what is known of the outcome; ``Conflict`` when a unique key is taken.
        """
        return await self._execution.write(
            lambda run: work(Writing(_control, run)), self._until(), Trace(self._request_id)
        )

    def _until(self) -> Deadline:
        return self._deadline or Deadline.after(CONTROL_SECONDS)
