"""``graphkeep reembed``: every entity's vector by the model of the setting."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.client.console import note, require
from app.cli.client.reading import read_settings
from app.cli.people import Json, answer
from app.counting import counted
from app.settings import Settings

if TYPE_CHECKING:
    from app.memory.analysis.anew import Outlook

__all__ = ["reembed"]

_SHOWN_SECONDS = 2.0


def reembed(
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Let another model take the place of the one in use.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Embed every entity of every tenant that has no vector of the setting's model (GRAPHKEEP_EMBEDDING).

    Where that is another model than the one in use, it takes --yes and is decided on first: everything is found by its
    words until it has its new vector. Interrupted, the command goes on when it is repeated. Exit code 1 if something is
    left to do.
    """
    require("server")
    settings = read_settings()
    from app.edge import logs

    logs.configure("warning")
    found = asyncio.run(_run(settings, yes=yes))
    answer(found, _words(found), as_json)
    if found["left"] or not found["applied"]:
        raise typer.Exit(1)


async def _run(settings: Settings, *, yes: bool) -> dict[str, Any]:
    from app.cli.database import connected, reachable, running
    from app.memory.analysis.anew import Anew

    alone = settings.store.neo4j_uri is None and running(settings) is None
    async with reachable(settings) as used, connected(used) as database:
        anew = Anew(database, used, alone=alone)
        outlook = await anew.outlook()
        found = {
            "from": None if outlook.before is None else outlook.before.key,
            "to": outlook.after.key,
            "entities": outlook.entities,
            "changes": outlook.changes,
        }
        if outlook.changes and not yes:
            return {**found, "applied": False, "embedded": 0, "left": outlook.due, "failed": False}
        result = await anew.run(outlook, shown=_Shown(outlook), said=note)
        return {**found, "applied": True, "embedded": result.embedded, "left": result.left, "failed": result.failed}


class _Shown:
    """Says how far it is, every other second, and how long the rest may take."""

    def __init__(self, outlook: Outlook) -> None:
        note(f"Embedding {outlook.due:,} of {_entities(outlook.entities)} by {outlook.after.model}")
        self._began = self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last >= _SHOWN_SECONDS and done:
            self._last = now
            rest = (now - self._began) * (total - done) / done
            note(f"{done:,} of {_entities(total)} embedded, about {rest / 60:.0f} min left")


def _entities(number: int) -> str:
    return counted(number, "entity", "entities")


def _named(key: str) -> str:
    """A decision's key in words."""
    model, dimension, recipe = key.rsplit("|", 2)
    return f"{model} ({dimension} dimensions, recipe {recipe})"


def _words(found: dict[str, Any]) -> str:
    if not found["applied"]:
        return (
            f"The database's vectors are by {_named(found['from'])}; the setting gives {_named(found['to'])}. "
            f"Embedding {_entities(found['left'])} anew takes a while, and each is found by its words alone until it "
            "has its new vector. Nothing was changed. Go on with: graphkeep reembed --yes"
        )
    words = f"{_named(found['to'])} embedded {_entities(found['embedded'])}."
    if found["failed"]:
        words += " The model stopped answering."
    if found["left"]:
        words += f" Left, and found by their words alone: {found['left']:,}; repeat the command."
    if found["changes"]:
        words += (
            " A gateway that runs with this setting uses it within half a minute; one with another setting finds by "
            "words alone: restart it with this one."
        )
    return words
