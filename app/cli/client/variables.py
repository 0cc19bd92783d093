"""Which environment variables graphkeep reads, and which of the GRAPHKEEP_ ones nobody reads.

pydantic-settings ignores a misspelt variable even where extra fields are forbidden, so names are checked here.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dotenv import dotenv_values
from pydantic import AliasChoices, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from app.settings import Settings
from app.settings.room import PREFIX

__all__ = ["Variable", "known", "unknown_variables", "variables"]

_OF_THE_TESTS: Final = f"{PREFIX}TEST_"
_ELSEWHERE: Final = frozenset(
    {"GRAPHKEEP_DOMAIN", "GRAPHKEEP_ACME_EMAIL", "GRAPHKEEP_UPSTREAM", "GRAPHKEEP_TOKEN", "GRAPHKEEP_ADDRESS"}
)
_COMPOSE: Final = frozenset({"GRAPHKEEP_NOTES", "GRAPHKEEP_BIND_ADDR"})
"""Read by the Caddyfile and by docker-compose.yml, and by what asks a gateway from a device (its address, a token)."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting: ``name`` is its variable, ``aliases`` the others that are accepted."""

    room: str
    room_words: str
    field: str
    name: str
    aliases: tuple[str, ...]
    default: Any
    words: str
    secret: bool


def variables() -> Iterator[Variable]:
    """Every setting, room by room, in the order of ``Settings``."""
    for room in Settings.rooms():
        for field, info in room.model_fields.items():
            names = _names(field, info)
            yield Variable(
                room=room.__name__,
                room_words=(room.__doc__ or "").strip(),
                field=field,
                name=names[0],
                aliases=names[1:],
                default=None if info.default is PydanticUndefined else info.default,
                words=info.description or "",
                secret="SecretStr" in str(info.annotation) or info.annotation is SecretStr,
            )


def known() -> frozenset[str]:
    """Every variable that is read."""
    return frozenset(name for variable in variables() for name in (variable.name, *variable.aliases))


def unknown_variables(environment: Mapping[str, str] | None = None, dotenv: str = ".env") -> list[str]:
    """A sentence for each GRAPHKEEP_ variable that nothing reads, with the nearest one that is read."""
    given: Iterable[str] = environment if environment is not None else {**dotenv_values(dotenv), **os.environ}
    read = known()
    lines = []
    for name in sorted({name for name in given if name.upper().startswith(PREFIX)}):
        if name.upper() in read | _ELSEWHERE | _COMPOSE or name.startswith(_OF_THE_TESTS):
            continue
        near = difflib.get_close_matches(name.upper(), sorted(read), n=1, cutoff=0.6)
        advice = f"did you mean {near[0]}?" if near else "docs/SETTINGS.md lists those that exist."
        lines.append(f"{name} is not a setting of graphkeep and has no effect; {advice}")
    return lines


def _names(field: str, info: FieldInfo) -> tuple[str, ...]:
    if isinstance(info.validation_alias, AliasChoices):
        return tuple(str(choice) for choice in info.validation_alias.choices)
    if isinstance(info.validation_alias, str):
        return (info.validation_alias,)
    return (f"{PREFIX}{field.upper()}",)
