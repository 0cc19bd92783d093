"""Runs that learn: who leads one now, how far each conversation was read, and what was reported.

A run holds a slot for each layer that it may write to. Slots are taken under their locks, so of two devices that begin
at once one leads; a heartbeat needs only the run's own lock, since whoever takes a slot ends the run that held it.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal

from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = [
    "LEARNING",
    "Kind",
    "Run",
    "RunStore",
    "State",
    "Watermark",
    "mark_place",
    "new_lease",
    "new_run_id",
    "run_of",
]

Kind = Literal["dream", "bootstrap", "weekly-maintenance", "capture"]
State = Literal["running", "completed", "aborted", "expired"]

LEARNING: Final[tuple[Kind, ...]] = ("dream", "bootstrap")
"""Kinds that read what is pending."""

MOST: Final = 500

LOCK_SLOTS = statement(
    "runs.lock_slots",
    """
    UNWIND $slots AS slot
    MERGE (s:_RunSlot {tenant: $owner, slot: slot})
    SET s.locked = true
    REMOVE s.locked
    RETURN DISTINCT s.run AS run
    """,
    writes=True,
    control=True,
)
TAKE_SLOTS = statement(
    "runs.take_slots",
    "UNWIND $slots AS slot MATCH (s:_RunSlot {tenant: $owner, slot: slot}) SET s.run = $run",
    writes=True,
    control=True,
)
LOCK = statement(
    "runs.lock",
    """
    UNWIND $ids AS id
    MATCH (r:_Run {id: id, tenant: $owner})
    SET r.locked = true
    WITH r WHERE r.locked
    REMOVE r.locked
    RETURN r {.*} AS run
    """,
    writes=True,
    control=True,
)
SAVE = statement(
    "runs.save",
    "MERGE (r:_Run {id: $id}) SET r += $fields, r.tenant = $owner",
    writes=True,
    control=True,
)
LIST = statement(
    "runs.list",
    """
    MATCH (r:_Run {tenant: $owner})
    WHERE ($kinds = [] OR r.kind IN $kinds) AND ($states = [] OR r.state IN $states)
      AND ($subject = '' OR r.subject = $subject) AND ($id = '' OR r.id = $id)
      AND all(layer IN r.layers WHERE layer IN $readable)
    RETURN r {.*} AS run
    ORDER BY r.begun_at DESC, r.id DESC LIMIT $limit
    """,
    control=True,
)
MARK = statement(
    "runs.mark",
    """
    MERGE (w:_Watermark {tenant: $owner, place: $place, session: $session})
    SET w.locked = true
    REMOVE w.locked
    RETURN w {.*} AS mark
    """,
    writes=True,
    control=True,
)
SAVE_MARK = statement(
    "runs.save_mark",
    "MATCH (w:_Watermark {tenant: $owner, place: $place, session: $session}) SET w += $fields",
    writes=True,
    control=True,
)
MARKS = statement(
    "runs.list_marks",
    """
    MATCH (w:_Watermark {tenant: $owner})
    WHERE ($sessions = [] OR w.session IN $sessions) AND all(layer IN w.layers WHERE layer IN $readable)
    RETURN w {.*} AS mark
    ORDER BY w.at DESC, w.session, w.place LIMIT $limit
    """,
    control=True,
)
SWEEP = statement(
    "runs.sweep",
    """
    MATCH (r:_Run) WHERE r.state <> 'running' AND r.begun_at < $before
    WITH r LIMIT 10000
    DETACH DELETE r
    """,
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run. Moments are Unix milliseconds; ``layers`` are those it reads or writes (partition rule 18).

    ``holder`` is the person and the device that lead it, as one text; ``slots`` are the layers it may write to.
    ``lease`` is what whoever leads it was handed last: who cannot name it does not lead.
    """

    id: str
    kind: Kind
    subject: str
    holder: str
    device: str
    source: str
    layers: tuple[str, ...]
    slots: tuple[str, ...]
    begun_at: int
    beat_at: int
    expires_at: int
    state: State = "running"
    ended_at: int | None = None
    transcripts: int = 0
    documents: int = 0
    entities: int = 0
    edges: int = 0
    errors: int = 0
    changelog: str = ""
    reason: str = ""
    resumes: str = ""
    """The interrupted run of another device that this one goes on with."""
    lease: str = ""

    def state_at(self, now: int) -> State:
        """What it is now: a running one whose lease is over has expired."""
        return "expired" if self.state == "running" and self.expires_at <= now else self.state


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far one conversation was read into one layer by who reads ``layers``; ``at`` is when that was said, Unix
    milliseconds."""

    session: str
    layers: tuple[str, ...]
    run: str
    at: int
    through: str = ""
    """Moment of the last message that was read, ISO 8601 in UTC; empty: not said."""
    last_event_id: str = ""
    line_count: int = 0
    entities: int = 0
    edges: int = 0


def new_run_id() -> str:
    """An id that no run has."""
    return f"run-{secrets.token_hex(8)}"


def new_lease(run: str) -> str:
    """A lease of the run that nobody has; it names the run."""
    return f"{run}.{secrets.token_hex(12)}"


def run_of(lease: str) -> str:
    """The id of the run that a lease is of."""
    return lease.partition(".")[0]


def mark_place(layer: str, layers: Collection[str]) -> str:
    """Where the watermarks stand of who writes to ``layer`` and reads ``layers``.

    Who may read less keeps watermarks of their own: one that was moved under more layers would tell them of it.
    """
    return "\n".join((layer, *sorted(layers)))


class RunStore:
    """Runs of each tenant, found by its data id; what is read is what ``layers`` may read all of."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def lock_slots(self, writing: Writing, tenant: str, slots: Collection[str]) -> list[Run]:
        """Take the slots' locks, and those of the runs that hold them; these runs."""
        rows = await writing.run(LOCK_SLOTS, owner=tenant, slots=sorted(slots))
        held = sorted({row["run"] for row in rows if row["run"] is not None})
        return [run for run in [await self.lock(writing, tenant, id_) for id_ in held] if run is not None]

    async def take_slots(self, writing: Writing, tenant: str, run: Run) -> None:
        """Give the locked slots to ``run``."""
        await writing.run(TAKE_SLOTS, owner=tenant, slots=sorted(run.slots), run=run.id)

    async def lock(self, writing: Writing, tenant: str, id_: str) -> Run | None:
        """The run of this id under its lock, whoever may see it; None if there is none."""
        rows = await writing.run(LOCK, owner=tenant, ids=[id_])
        return _run(rows[0]["run"]) if rows else None

    async def save(self, writing: Writing, tenant: str, run: Run) -> None:
        """Store the run as it is now."""
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(run).items()}
        await writing.run(SAVE, owner=tenant, id=run.id, fields=values)

    async def runs(
        self,
        tenant: str,
        layers: Collection[str],
        *,
        kinds: Sequence[Kind] = (),
        states: Sequence[State] = (),
        subject: str = "",
        id_: str = "",
        limit: int = 20,
    ) -> list[Run]:
        """Runs that these layers may see, the latest first. ``states`` are the stored ones: see ``Run.state_at``."""
        rows = await self._control.read(
            LIST,
            owner=tenant,
            readable=sorted(layers),
            kinds=list(kinds),
            states=list(states),
            subject=subject,
            id=id_,
            limit=max(1, min(limit, MOST)),
        )
        return [_run(row["run"]) for row in rows]

    async def last(self, tenant: str, layers: Collection[str], *, completed: bool = False) -> Run | None:
        """The latest run that learnt, or the latest that came to its end; None if these layers may see none."""
        states: tuple[State, ...] = ("completed",) if completed else ()
        found = await self.runs(tenant, layers, kinds=LEARNING, states=states, limit=1)
        return found[0] if found else None

    async def running(
        self, tenant: str, layers: Collection[str], now: int, *, kinds: Sequence[Kind] = ()
    ) -> Run | None:
        """The run that is under way, of these kinds or of all, of those that these layers may see."""
        found = await self.runs(tenant, layers, kinds=kinds, states=("running",))
        return next((run for run in found if run.state_at(now) == "running"), None)

    async def mark(self, writing: Writing, tenant: str, place: str, session: str) -> Watermark | None:
        """The watermark of a conversation at a :func:`mark_place`, under its lock; None if it was never read there."""
        found = (await writing.run(MARK, owner=tenant, place=place, session=session))[0]["mark"]
        return _watermark(found) if "at" in found else None

    async def save_mark(self, writing: Writing, tenant: str, place: str, mark: Watermark) -> None:
        """Store a watermark that was locked."""
        values = {**asdict(mark), "layers": list(mark.layers)}
        await writing.run(SAVE_MARK, owner=tenant, place=place, session=mark.session, fields=values)

    async def marks(
        self, tenant: str, layers: Collection[str], sessions: Sequence[str] = (), *, limit: int = MOST
    ) -> list[Watermark]:
        """Watermarks that these layers may see, of ``sessions`` or of all; the latest first."""
        rows = await self._control.read(
            MARKS, owner=tenant, readable=sorted(layers), sessions=list(sessions), limit=max(1, min(limit, MOST))
        )
        return [_watermark(row["mark"]) for row in rows]

    async def sweep(self, before: int) -> None:
        """Forget ended runs that began before this moment."""
        await self._control.write(lambda writing: writing.run(SWEEP, before=before))


_RUN_FIELDS: Final = tuple(field.name for field in fields(Run))
_MARK_FIELDS: Final = tuple(field.name for field in fields(Watermark))


def _run(row: Mapping[str, Any]) -> Run:
    stored: dict[str, Any] = {name: row.get(name) for name in _RUN_FIELDS}
    found = Run(**stored)
    return replace(found, layers=tuple(found.layers), slots=tuple(found.slots))


def _watermark(row: Mapping[str, Any]) -> Watermark:
    stored: dict[str, Any] = {name: row.get(name) for name in _MARK_FIELDS}
    found = Watermark(**stored)
    return replace(found, layers=tuple(found.layers))
