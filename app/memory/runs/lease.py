"""Who leads a run: decided on the runs that hold the wanted slots, under their locks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.context import layer_name
from app.contract import Call
from app.errors import Conflict
from app.memory.runs.schemas import RunInput
from app.store.control.runs import Kind, Run, RunStore, new_lease, new_run_id

__all__ = ["LEASE_SECONDS", "Decision", "beaten", "decide", "holder_of", "leads", "readable", "slots_of", "under_way"]

LEASE_SECONDS: Final = 30 * 60
"""How long a run may be silent before another device may take it up."""

_MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True)
class Decision:
    """The run that the caller now leads, and those that ended by it."""

    run: Run
    resumed: bool
    expired: tuple[Run, ...]


def readable(call: Call) -> frozenset[str]:
    """The layers that the call may read or write: what a run under it carries."""
    return frozenset(call.scope.layers) | frozenset(call.scope.writable)


def slots_of(kind: Kind, layers: Collection[str]) -> tuple[str, ...]:
    """What a run that writes to these layers holds. A capture notes one conversation and holds nobody up but another;
    all other kinds read and change the whole of a layer."""
    lane = "capture" if kind == "capture" else "learning"
    return tuple(sorted(f"{lane}:{layer_name(layer)}" for layer in layers))


def holder_of(call: Call, device: str) -> str:
    """Who leads: the person on a device, or with a client where no device is named."""
    return "\n".join((call.principal.subject, device or f"client {call.principal.client}"))


def leads(run: Run, call: Call, lease: str | None) -> bool:
    """Whether the caller leads the run: who it belongs to, with the lease that ``begin`` handed out last."""
    return run.subject == call.principal.subject and bool(lease) and lease == run.lease


def beaten(run: Run, now: int) -> Run:
    """The run with its lease renewed."""
    return replace(run, state="running", beat_at=now, expires_at=now + LEASE_SECONDS * _MILLISECONDS)


async def under_way(runs: RunStore, call: Call, now: int) -> str:
    """The id of the caller's one run under way; empty when there is none, or more than one."""
    mine = await runs.runs(call.scope.tenant, readable(call), states=("running",), subject=call.principal.subject)
    found = [run.id for run in mine if run.state_at(now) == "running"]
    return found[0] if len(found) == 1 else ""


def decide(held: Sequence[Run], call: Call, wish: RunInput, now: int) -> Decision:
    """Take the caller's own run up, go on with one whose lease is over, or begin one; the run has a new lease.

    So of two programs on one device, too, only the one that began last leads.

    Raises:
        Conflict: another device leads one, or this one leads another kind.
    """
    holder, slots, layers = holder_of(call, wish.device), slots_of(wish.kind, call.scope.writable), readable(call)
    open_ = [run for run in held if run.state == "running"]
    taken: Run | None = None
    interrupted = ""
    for run in open_:
        mine, over = run.holder == holder, run.state_at(now) == "expired"
        fits = run.kind == wish.kind and set(run.slots) <= set(slots) and layers.issuperset(run.layers)
        if not mine and not over:
            raise _busy(run, call, now)
        if mine and not over and run.kind != wish.kind:
            raise Conflict(
                f"this device still leads a run of kind {run.kind}. Finish it (graph_run finish) or give it up "
                "(graph_run abort) before you begin another. Nothing was begun."
            )
        if fits and mine:
            taken = run
        elif fits:
            interrupted = run.id
    ended = tuple(replace(run, state="expired", ended_at=now) for run in open_ if run is not taken)
    if taken is None:
        begun = _begun(call, wish, now, interrupted)
        return Decision(_leased(begun, now), resumed=bool(interrupted), expired=ended)
    taken = replace(taken, slots=slots, layers=tuple(sorted(layers)))
    return Decision(_leased(taken, now), resumed=True, expired=ended)


def _leased(run: Run, now: int) -> Run:
    return beaten(replace(run, lease=new_lease(run.id)), now)


def _begun(call: Call, wish: RunInput, now: int, interrupted: str) -> Run:
    """A new run. Who goes on with another's gets a new id too: the one that was silent for too long cannot come back
    and lead beside it."""
    return Run(
        id=new_run_id(),
        kind=wish.kind,
        subject=call.principal.subject,
        holder=holder_of(call, wish.device),
        device=wish.device,
        source=wish.source,
        layers=tuple(sorted(readable(call))),
        slots=slots_of(wish.kind, call.scope.writable),
        begun_at=now,
        beat_at=now,
        expires_at=now,
        resumes=interrupted,
    )


def _busy(run: Run, call: Call, now: int) -> Conflict:
    wait = min(max(1, run.expires_at - now), LEASE_SECONDS * _MILLISECONDS)  # it may have been taken after our `now`
    if not readable(call).issuperset(run.layers):
        who = "another run is under way in a layer that this one would write to"
    elif run.subject == call.principal.subject:
        who = f"your run of kind {run.kind} is under way on {run.device or 'another of your programs'}"
    else:
        who = f"somebody else's run of kind {run.kind} is under way"
    return Conflict(
        f"{who}. Stop here and say so; it can be taken up once it has been silent for {LEASE_SECONDS // 60} minutes. "
        "Nothing was begun.",
        retry_after_ms=wait,
    )
