"""What runs report of themselves, appended and never changed: the trail that ``graph_audit`` writes.

Unlike the audit of the gateway it may name entities, so it stays with the tenant's data and shows by its layers.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["Origin", "RunEvent", "RunEvents"]

Origin = Literal["gateway", "agent"]

MOST: Final = 500

APPEND = statement(
    "run_events.append",
    """
    CREATE (e:_RunEvent {id: $id, tenant: $owner, run: $run, event: $event, at: $at, subject: $subject,
                         client: $client, layers: $in_layers, data: $data, origin: $origin})
    """,
    writes=True,
    control=True,
)
LIST = statement(
    "run_events.list",
    """
    MATCH (e:_RunEvent {tenant: $owner})
    WHERE ($run = '' OR e.run = $run) AND all(layer IN e.layers WHERE layer IN $readable)
      AND (e.at < $at OR (e.at = $at AND e.id < $id))
    RETURN e {.*} AS event
    ORDER BY e.at DESC, e.id DESC LIMIT $limit
    """,
    control=True,
)
SWEEP = statement(
    "run_events.sweep",
    "MATCH (e:_RunEvent) WHERE e.at < $before WITH e LIMIT 10000 DELETE e",
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One entry. ``at`` is Unix milliseconds; ``run`` is empty for what was reported outside any run."""

    run: str
    event: str
    at: int
    subject: str
    client: str
    layers: tuple[str, ...]
    data: Mapping[str, Any]
    origin: Origin
    """Whether graphkeep saw it happen, or an agent said so."""
    id: str = ""


class RunEvents:
    """The store of entries, by a tenant's data id."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def append(self, writing: Writing, tenant: str, entry: RunEvent) -> None:
        """Append in a transaction that is under way."""
        await writing.run(
            APPEND,
            id=f"ev-{secrets.token_hex(8)}",
            owner=tenant,
            run=entry.run,
            event=entry.event,
            at=entry.at,
            subject=entry.subject,
            client=entry.client,
            in_layers=sorted(entry.layers),
            data=json.dumps(dict(entry.data), ensure_ascii=False, sort_keys=True),
            origin=entry.origin,
        )

    async def entries(
        self,
        tenant: str,
        layers: Collection[str],
        *,
        run: str = "",
        before: tuple[int, str] = (2**53, "~"),
        limit: int = 50,
    ) -> list[RunEvent]:
        """Entries that these layers may see, newest first: of one run, or of all; behind (moment, id) ``before``."""
        rows = await self._control.read(
            LIST,
            owner=tenant,
            readable=sorted(layers),
            run=run,
            at=before[0],
            id=before[1],
            limit=max(1, min(limit, MOST)),
        )
        return [_event(row["event"]) for row in rows]

    async def sweep(self, before: int) -> None:
        """Forget what was reported before this moment, ten thousand at a time."""
        await self._control.write(lambda writing: writing.run(SWEEP, before=before))


def _event(row: Mapping[str, Any]) -> RunEvent:
    return RunEvent(
        run=row["run"],
        event=row["event"],
        at=row["at"],
        subject=row["subject"],
        client=row["client"],
        layers=tuple(row["layers"]),
        data=json.loads(row["data"]),
        origin=row["origin"],
        id=row["id"],
    )
