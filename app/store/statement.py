"""Every statement that graphkeep sends to the database is a named constant, registered here.

A registered statement can be listed, checked (``app.store.checker``) and explained; a session refuses any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, LiteralString

__all__ = ["INJECTED", "REGISTERED", "Statement", "statement"]

INJECTED: Final = frozenset({"tenant", "layers", "writable", "layer", "partitions", "partition"})
"""Parameters that only a ``TenantSession`` fills in; callers can never pass them."""

_NAME: Final = re.compile(r"[a-z_]+(\.[a-z0-9_]+)+\Z")
_PARAMETER: Final = re.compile(r"\$([A-Za-z_]\w*)")

_registered: dict[str, Statement] = {}
REGISTERED: Final[Mapping[str, Statement]] = MappingProxyType(_registered)
"""All statements by name, of the modules imported so far."""


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A statement of the database language; made by :func:`statement` alone."""

    name: str
    text: LiteralString
    writes: bool
    control: bool
    """Whether it touches control records (labels with a leading ``_``) and no partition."""
    injected: frozenset[str]
    """Which of ``INJECTED`` its text uses."""
    parameters: frozenset[str]
    """The parameters that its caller passes."""
    touches: tuple[str, ...] | None = None
    """The parameters that name all entities which it may change, or whose relations; None: it may change any.

    A parameter is a text or a list of texts, with ``.part`` a list of maps or of lists (``ends.id``, ``triples.0``).
    """


def statement(
    name: str,
    text: LiteralString,
    *,
    writes: bool = False,
    control: bool = False,
    touches: tuple[str, ...] | None = None,
) -> Statement:
    """Register the statement ``name`` ("room.verb_noun") and return it; ``touches`` is for one that writes.

    Raises:
        ValueError: the name is taken or ill-formed, or ``touches`` names a parameter that its caller does not pass.
    """
    if not _NAME.match(name):
        raise ValueError(f"statement name {name!r} is not of the form room.verb_noun")
    if name in _registered:
        raise ValueError(f"statement {name!r} is registered twice")
    used = frozenset(_PARAMETER.findall(text))
    injected = frozenset() if control else used & INJECTED
    passed = used - injected
    if not passed.issuperset(path.partition(".")[0] for path in touches or ()):
        raise ValueError(f"statement {name!r} has not every parameter that it is said to touch by")
    made = Statement(name, "CYPHER 25 " + text.strip(), writes, control, injected, passed, touches)
    _registered[name] = made
    return made
