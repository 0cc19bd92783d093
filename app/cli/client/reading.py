"""Reads the settings, and says in words what is wrong with them."""

from __future__ import annotations

from pydantic import ValidationError

from app import config_file
from app.cli.client.console import EX_CONFIG, note
from app.cli.client.variables import unknown_variables, variables
from app.errors import StartError
from app.settings import Settings

__all__ = ["read_settings"]


def read_settings() -> Settings:
    """The settings of this process; a warning on stderr for each misspelt variable.

    Raises:
        StartError: a variable holds a value that its rule does not allow (exit code 78).
    """
    for line in unknown_variables():
        note(f"warning: {line}")
    try:
        settings = Settings()
    except ValidationError as error:
        raise StartError(_explain(error), exit_code=EX_CONFIG) from error
    for line in (*config_file.warnings(), *settings.memory.warnings(), *settings.limits.warnings()):
        note(f"warning: {line}")
    return settings


def _explain(error: ValidationError) -> str:
    names = {variable.field: variable.name for variable in variables()}
    lines = []
    for detail in error.errors(include_input=False, include_url=False, include_context=False):
        place = str(detail["loc"][0]) if detail["loc"] else ""
        lines.append(f"{names.get(place, place)}: {detail['msg']}")
    return "The settings are not usable, nothing was started: " + "; ".join(lines)
