"""Commands that take a tenant's memory out and bring one in, and that rebuild the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.client.console import note, require
from app.cli.client.reading import read_settings
from app.cli.people import Json, answer
from app.counting import counted

if TYPE_CHECKING:
    from app.cli.movement import Movement

__all__ = ["register"]

_SHOWN_SECONDS = 2.0


class Ids(StrEnum):
    """What becomes of the ids of a file."""

    KEEP = "keep"
    NEW = "new"


class Source(StrEnum):
    """Systems whose files are understood."""

    MCP_MEMORY = "mcp-memory"
    GRAPH_MEMORY = "graph-memory"
    TRIPLETS = "triplets"


def register(commands: typer.Typer) -> None:
    """Add the commands."""
    commands.command()(backup)
    commands.command()(restore)
    commands.command("import")(take_over)
    commands.command()(compact)


def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write into; it is made if missing.")],
    tenant: Annotated[str | None, typer.Option(help="Only this tenant. Default: home.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every tenant, each in a file of its own.")] = False,
    vectors: Annotated[bool, typer.Option(help="Keep the vectors, so that nothing has to be embedded again.")] = False,
    as_json: Json = False,
) -> None:
    """Write a tenant's memory to a file of JSON lines, and read it back to be sure.

    With --all, a tenant that cannot be backed up keeps no other from it; the command then ends with the exit code 1.
    """
    names = None if every else [tenant or "home"]
    found = _do(lambda movement: movement.back_up(names, folder, vectors=vectors, shown=_shown("backed up")))
    lines = [
        f"{each['tenant']}: {each['file']} ({_held(each)}, {each['size_bytes']} bytes, sha256 {each['sha256']})"
        for each in found["backups"]
    ]
    for each in found["failed"]:
        note(f"{each['tenant']}: not backed up: {each['error']}")
    answer(found, "\n".join(lines), as_json)
    if found["failed"]:
        raise typer.Exit(1)


def restore(
    file: Annotated[
        Path,
        typer.Argument(
            help="A file of `graphkeep backup` or graph_export, here or of graph-memory; with --all their folder."
        ),
    ],
    tenant: Annotated[str | None, typer.Option(help="Tenant whose memory it becomes.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Each tenant's newest whole backup in the folder, into new or empty tenants.")
    ] = False,
    into_new: Annotated[bool, typer.Option("--into-new", help="Make the tenant first.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="The tenant may lose what it holds.")] = False,
    ids: Annotated[Ids, typer.Option(help="new: ids that today's rules give the names.")] = Ids.KEEP,
    as_json: Json = False,
) -> None:
    """Make a file the memory of a tenant, whole or not at all. Until it is whole nobody sees any of it.

    With --all, a tenant that cannot be restored keeps no other from it; the command then ends with the exit code 1, and
    also where a newer file was not whole and an older one was taken.
    """
    if every:
        if tenant is not None or into_new or replace:
            raise typer.BadParameter("--all makes tenants by the names of the files, and replaces none.")
        _restore_all(file, ids, as_json)
        return
    if tenant is None:
        raise typer.BadParameter("name the tenant with --tenant, or say --all.")
    found = _do(
        lambda movement: movement.restore(
            file, tenant, into_new=into_new, replace=replace, ids=ids.value, shown=_shown("restored")
        )
    )
    words = f"Tenant {found['tenant']} holds {_held(found)}."
    answer(found, words + _unembedded(found), as_json)


def _restore_all(folder: Path, ids: Ids, as_json: bool) -> None:
    found = _do(lambda movement: movement.restore_all(folder, ids=ids.value, shown=_shown("restored")))
    for each in found["passed_over"]:
        note(f"{each['tenant']}: {each['file']} passed over: {each['error']}")
    for each in found["failed"]:
        note(f"{each['tenant']}: not restored: {each['error']}")
    lines = [f"{each['tenant']}: {_held(each)} of {each['file']}.{_unembedded(each)}" for each in found["restored"]]
    answer(found, "\n".join(lines), as_json)
    if found["failed"] or found["passed_over"]:
        raise typer.Exit(1)


def take_over(
    file: Annotated[Path, typer.Argument(help="File of the other system.")],
    source: Annotated[Source, typer.Option("--from", help="Which system wrote it.")],
    tenant: Annotated[str, typer.Option(help="Tenant that learns it.")] = "home",
    layer: Annotated[
        str, typer.Option(help="Layer that it goes to; `tenant` is what everyone there shares.")
    ] = "tenant",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out lines that cannot be taken over.")] = False,
    as_json: Json = False,
) -> None:
    """Learn the memory of another system, beside what the tenant knows; whole or not at all.

    Earlier changes of the tenant cannot be undone afterwards.

    mcp-memory: memory.jsonl of the MCP reference memory server. graph-memory: an export of the graph-memory server.
    triplets: CSV with the columns subject, predicate, object and, if known, valid_at, invalid_at, fact.
    """
    found = _do(
        lambda movement: movement.take_over(
            file, source.value, tenant, layer=layer, skip_bad=skip_bad, shown=_shown("written")
        )
    )
    for bad in found["skipped"]:
        note(f"line {bad['line']} left out: {bad['why']}")
    answer(found, _learned(found), as_json)


def compact(as_json: Json = False) -> None:
    """Rebuild the managed database's files, so that nothing of what was erased is left in them.

    The gateway must be stopped. Everything is copied into a new store beside the old one, compared, and exchanged at
    once; the old one is in use until then and is removed afterwards. Cut short, it leaves what there was.
    """
    require("server", "embedded")
    settings = read_settings()
    from app.cli.movement import compacted
    from app.edge import logs

    logs.configure("warning")
    stages = {word: _shown(word) for word in ("read", "written", "compared")}
    found = asyncio.run(compacted(settings, note, lambda word, done, total: stages[word](done, total)))
    sizes = f"{found['before_bytes'] / 2**20:.1f} MB before, {found['after_bytes'] / 2**20:.1f} MB now"
    held = f"{counted(found['nodes'], 'node')} and {counted(found['relations'], 'relation')}"
    words = f"The store was rebuilt: {held}, {sizes}."
    answer(found, words, as_json)


def _held(found: dict[str, Any]) -> str:
    return f"{counted(found['nodes'], 'node')} and {counted(found['edges'], 'edge')}"


def _learned(found: dict[str, Any]) -> str:
    told = counted(found["relations"], "relation")
    among = counted(found["entities"], "entity", "entities")
    words = (
        f"Tenant {found['tenant']} learned {told} ({found['created_relations']} of them new) "
        f"among {among} ({found['created_entities']} new).{_unembedded(found)}"
    )
    return f"{words}\nIts undo records, cursors and idempotency keys from before have ended."


def _unembedded(found: dict[str, Any]) -> str:
    without = found["without_vector"]
    if not without:
        return ""
    are = "is found by its words, not yet by its" if without == 1 else "are found by their words, not yet by their"
    return f" {counted(without, 'entity', 'entities')} {are} meaning, until graph_reembed has run."


def _shown(done_word: str) -> Callable[[int, int], None]:
    """Says how far it is, every other second."""
    last = time.monotonic()

    def shown(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _SHOWN_SECONDS:
            last = time.monotonic()
            said = counted(total or done, "record")
            note(f"{done:,} of {said} {done_word}" if total else f"{said} {done_word}")

    return shown


def _do(work: Callable[[Movement], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    require("server")
    settings = read_settings()
    from app.cli.movement import movement
    from app.edge import logs

    logs.configure("warning")

    async def run() -> dict[str, Any]:
        async with movement(settings) as opened:
            return await work(opened)

    return asyncio.run(run())
