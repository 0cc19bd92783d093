"""Every setting, one class per room. ``docs/SETTINGS.md`` and ``.env.example`` are generated from these classes.

Each variable is ``GRAPHKEEP_<FIELD>``; variables of the systems that graphkeep replaces are accepted as aliases.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import get_type_hints

from app.settings.host import EdgeSettings, RunSettings, StoreSettings
from app.settings.identity import OAuthSettings, SignInSettings
from app.settings.limits import LimitSettings
from app.settings.memory import MemorySettings
from app.settings.room import Room
from app.settings.sources import EmbeddingSettings, IngestSettings

__all__ = [
    "EdgeSettings",
    "EmbeddingSettings",
    "IngestSettings",
    "LimitSettings",
    "MemorySettings",
    "OAuthSettings",
    "RunSettings",
    "Settings",
    "SignInSettings",
    "StoreSettings",
]


@dataclass(eq=False, kw_only=True)
class Settings:
    """All rooms' settings, read from the environment once."""

    run: RunSettings = field(default_factory=RunSettings)
    edge: EdgeSettings = field(default_factory=EdgeSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    oauth: OAuthSettings = field(default_factory=OAuthSettings)
    signin: SignInSettings = field(default_factory=SignInSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    ingest: IngestSettings = field(default_factory=IngestSettings)

    @classmethod
    def rooms(cls) -> tuple[type[Room], ...]:
        """The class of each room, in the order of the fields."""
        return tuple(get_type_hints(cls)[room.name] for room in fields(cls))

    def having(self, *, run: RunSettings | None = None, store: StoreSettings | None = None) -> Settings:
        """The same settings but for the rooms that are given."""
        return replace(self, run=run or self.run, store=store or self.store)

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """Public base addresses without a trailing slash, the preferred one first."""
        if self.edge.public_urls:
            return tuple(url.rstrip("/") for url in self.edge.public_urls)
        return (f"https://localhost:{self.run.https_port}", f"http://localhost:{self.run.http_port}")
