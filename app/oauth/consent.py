"""What a person may choose on the consent page, and how the choice is read: it can only ever narrow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.access.grants import WRITES, unreadable
from app.context import EVERY_LAYER, SCOPES, TENANT_WIDE, layer_from_name, layer_name
from app.errors import InvalidInput
from app.oauth.forms import Parameters
from app.oauth.service import Place
from app.store.control.authorizations import PendingAuthorization
from app.store.control.grants import GrantRecord
from app.store.control.tenants import check_layer_name

__all__ = ["NEW_LAYER", "Choice", "Offer", "as_ticked", "default_choice", "granted", "news", "offer", "read_choice"]

NEW_LAYER: Final = "+new"
"""In the form: the layer that is named beside it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The most that one person can give one client in one tenant. Layers as the data spells them, in display order."""

    scopes: tuple[str, ...]
    read: tuple[str, ...]
    write: tuple[str, ...]
    every_read: bool
    every_write: bool
    names_layers: bool
    """Whether the person may name a new layer: an owner who holds every layer, the new one included."""

    @property
    def writes(self) -> bool:
        """Whether anything that writes is on offer."""
        return not WRITES.isdisjoint(self.scopes)


@dataclass(frozen=True, slots=True)
class Choice:
    """What the person ticked: becomes the grant."""

    scopes: frozenset[str]
    read: frozenset[str]
    write: frozenset[str]
    write_layer: str | None
    new_layer: str | None = None
    """A layer that this choice brings into being."""


def offer(asked: Iterable[str], place: Place) -> Offer:
    """What may be chosen: the scopes that were asked for, within what the person's role and layers allow."""
    wanted = set(asked)
    layers = sorted(place.tenant.all_layers())
    membership = place.membership
    return Offer(
        scopes=tuple(scope for scope in SCOPES if scope in wanted and scope in place.scopes),
        read=tuple(layer for layer in layers if membership.may_read(layer)),
        write=tuple(layer for layer in layers if membership.may_write(layer)),
        every_read=EVERY_LAYER in membership.read_layers,
        every_write=EVERY_LAYER in membership.write_layers,
        names_layers=EVERY_LAYER in membership.read_layers & membership.write_layers,
    )


def default_choice(pending: PendingAuthorization, offered: Offer, previous: GrantRecord | None) -> Choice:
    """What is ticked at first: the person's last choice for this client, else all that was asked for."""
    scopes = set(offered.scopes)
    if previous is not None and set(previous.asked) == set(pending.scopes):
        scopes &= set(previous.scopes)
    read = {EVERY_LAYER} if offered.every_read else set(offered.read)
    write = {EVERY_LAYER} if offered.every_write else set(offered.write)
    layer = TENANT_WIDE
    if previous is not None:
        read = set(previous.read_layers)
        # A grant that wrote nowhere says nothing about where this one shall.
        write = set(previous.write_layers) or write & read
        layer = previous.write_layer if previous.write_layer is not None else layer
    return Choice(
        frozenset(scopes or offered.scopes),
        frozenset(read & _choices(offered.read, offered.every_read)),
        frozenset(write & _choices(offered.write, offered.every_write)),
        layer if layer in offered.write else next(iter(offered.write), None),
    )


def granted(record: GrantRecord) -> Choice:
    """The choice that a grant holds."""
    return Choice(
        frozenset(record.scopes), frozenset(record.read_layers), frozenset(record.write_layers), record.write_layer
    )


def news(offered: Offer, previous: GrantRecord | None) -> frozenset[str]:
    """Scopes on offer that the client, connected at present, has not got so far: a step-up asks for them."""
    if previous is None or previous.revoked_at is not None:
        return frozenset()
    return frozenset(offered.scopes) - set(previous.scopes)


def read_choice(form: Parameters, offered: Offer) -> Choice:
    """The choice that a form holds. What was not offered is not in it, whatever the form says.

    Raises:
        InvalidInput: nothing was chosen, or the layers contradict each other; the message says what to tick.
    """
    scopes = frozenset(form.many("scope")) & set(offered.scopes)
    if not scopes:
        raise InvalidInput("Tick at least one thing that this program may do, or refuse the connection.")
    new = _new_layer(form, offered)
    read = _ticked(form, "read", offered.read, offered.every_read) | ({new} if new else set())
    if not read:
        raise InvalidInput("Tick at least one layer that this program may read.")
    if scopes.isdisjoint(WRITES):
        return Choice(scopes, frozenset(read), frozenset(), None, new)
    return _writing(form, offered, scopes, frozenset(read), new)


def as_ticked(form: Parameters, offered: Offer) -> Choice:
    """What a form holds, contradictions included: to show it again."""
    chosen = form.one("write_layer")
    return Choice(
        frozenset(form.many("scope")) & set(offered.scopes),
        frozenset(_ticked(form, "read", offered.read, offered.every_read)),
        frozenset(_ticked(form, "write", offered.write, offered.every_write)),
        None if chosen is None else layer_from_name(chosen),
    )


def _writing(form: Parameters, offered: Offer, scopes: frozenset[str], read: frozenset[str], new: str | None) -> Choice:
    write = _ticked(form, "write", offered.write, offered.every_write) | ({new} if new else set())
    beyond = unreadable(read, write)
    if beyond:
        named = ", ".join("every layer" if layer == EVERY_LAYER else layer_name(layer) for layer in beyond)
        raise InvalidInput(f"A layer can be changed only where it can be read. Tick both, or neither, for: {named}.")
    chosen = form.one("write_layer")
    layer = new if chosen == NEW_LAYER else layer_from_name(chosen or "")
    if chosen is None or layer is None or (layer not in write and EVERY_LAYER not in write):
        raise InvalidInput("Choose a layer for new memories among those that this program may change.")
    if layer not in offered.write and layer != new:
        raise InvalidInput("Choose a layer for new memories among those that this program may change.")
    return Choice(scopes, read, frozenset(write), layer, new)


def _new_layer(form: Parameters, offered: Offer) -> str | None:
    name = form.one("new_layer")
    if name is None or not name.strip() or not offered.names_layers:
        return None
    return check_layer_name(name)


def _ticked(form: Parameters, field: str, layers: tuple[str, ...], every: bool) -> set[str]:
    values = {value if value == EVERY_LAYER else layer_from_name(value) for value in form.many(field)}
    return values & _choices(layers, every)


def _choices(layers: tuple[str, ...], every: bool) -> set[str]:
    return {*layers, EVERY_LAYER} if every else set(layers)
