"""The boxes of a choice, toolsets and layers, as consent page and console show them; and the choice in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from app.context import EVERY_LAYER, layer_name
from app.oauth.consent import NEW_LAYER, Choice, Offer

__all__ = ["TOOLSETS", "boxes", "layers_in_words", "scopes_in_words"]

TOOLSETS: Final = (
    ("memory", "Memory", "people, projects and how they relate, learned from conversations"),
    ("knowledge", "Knowledge", "your notes and documents"),
    ("ledger", "Ledger", "facts written down on purpose, with their history"),
    ("ingest", "Uploads", "files and transcripts to learn from"),
)
_ADMIN: Final = "Operate this gateway (all tenants)"


def boxes(offered: Offer, choice: Choice, *, news: Collection[str] = ()) -> dict[str, Any]:
    """What ``choice.html`` shows. ``news`` are scopes to be marked: the client has not got them so far."""
    return {
        "offered": offered,
        "toolsets": _toolsets(offered, choice, news),
        "admin": _scope("admin", choice, news) if "admin" in offered.scopes else None,
        "layers": _layers(offered, choice),
        "targets": [(layer_name(layer), layer == choice.write_layer) for layer in offered.write],
        "new_layer": NEW_LAYER,
    }


def scopes_in_words(scopes: Iterable[str]) -> list[str]:
    """One phrase for each toolset: ``Memory: read and change``."""
    given = set(scopes)
    words = []
    for key, title, _ in TOOLSETS:
        may = [verb for action, verb in (("read", "read"), ("write", "change")) if f"{key}:{action}" in given]
        if may:
            words.append(f"{title}: {' and '.join(may)}")
    return [*words, _ADMIN] if "admin" in given else words


def layers_in_words(layers: Iterable[str]) -> str:
    """Layers as the data spells them, for people."""
    held = set(layers)
    if EVERY_LAYER in held:
        return "every layer, later ones too"
    names = [layer or "tenant-wide" for layer in sorted(held)]
    return ", ".join(names) if names else "none"


def _toolsets(offered: Offer, choice: Choice, news: Collection[str]) -> list[dict[str, Any]]:
    rows = []
    for key, title, about in TOOLSETS:
        cells = {
            action: _scope(scope, choice, news) if scope in offered.scopes else None
            for action, scope in (("read", f"{key}:read"), ("write", f"{key}:write"))
        }
        if any(cells.values()):
            new = any(cell["new"] for cell in cells.values() if cell)
            rows.append({"title": title, "about": about, "new": new, **cells})
    return rows


def _scope(scope: str, choice: Choice, news: Collection[str]) -> dict[str, Any]:
    return {"scope": scope, "ticked": scope in choice.scopes, "new": scope in news}


def _layers(offered: Offer, choice: Choice) -> list[dict[str, Any]]:
    rows = []
    if offered.every_read:
        title, about = "Every layer, later ones too", "no other tick is needed then"
        rows.append(_layer(EVERY_LAYER, title, about, choice, writable=offered.every_write))
    for layer in offered.read:
        name = layer_name(layer)
        title, about = (name, "") if layer else ("Tenant-wide", "what everyone in the tenant shares")
        rows.append(_layer(name, title, about, choice, writable=layer in offered.write, layer=layer))
    return rows


def _layer(
    value: str, title: str, about: str, choice: Choice, *, writable: bool, layer: str = EVERY_LAYER
) -> dict[str, Any]:
    return {
        "value": value,
        "title": title,
        "about": about,
        "read": layer in choice.read,
        "write": layer in choice.write,
        "writable": writable,
    }
