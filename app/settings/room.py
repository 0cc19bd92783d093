"""What the settings of every room have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, BeforeValidator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

__all__ = ["PREFIX", "CommaList", "Room", "either"]


PREFIX = "GRAPHKEEP_"


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


CommaList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""Texts of one variable, separated by commas."""


def either(*names: str) -> AliasChoices:
    """The variables of a field, the graphkeep one first."""
    return AliasChoices(*names)


class Room(BaseSettings):
    """Settings read from the environment and a file ``.env``, by variables ``GRAPHKEEP_<FIELD>``."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=".env", extra="ignore", frozen=True, populate_by_name=True, env_ignore_empty=True
    )
