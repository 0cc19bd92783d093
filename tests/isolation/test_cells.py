"""Every tool in every cell: a crowded tenant answers byte for byte like one that is alone in the world."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.cli.toolsets import every_tool
from app.protocol.registry import Registry
from app.store.control.exporting import ExportJobs, new_export_id
from app.store.database import Database
from tests.isolation.callers import Caller, Gate, Reply, steady
from tests.isolation.recipes import CELLS, GUESSED, HIDDEN_CELLS, OWN, RECIPES, Aim
from tests.isolation.snapshot import Held, everything, outside
from tests.isolation.world import FOREIGN, HIDDEN, IN_B, READERS, VISIBLE, Worlds, leaks

READS = [tool.name for tool in every_tool() if tool.read_only and not tool.operators_only]
WRITES = [tool.name for tool in every_tool() if not tool.read_only and not tool.operators_only]
OPERATORS = [tool.name for tool in every_tool() if tool.operators_only]

WRITERS = (
    Caller("writer", "", ("", "a"), ("a", "")),
    Caller("writes_a_alone", "", ("a",), ("a",)),
    Caller("writes_wide", "", ("",), ("",)),
)


def test_every_tool_has_recipes_and_every_recipe_a_tool(registry: Registry) -> None:
    assert {tool.name for tool in registry} == set(RECIPES)
    assert all(RECIPES.values())


def test_every_toolset_that_writes_has_visible_hidden_and_foreign_records(registry: Registry) -> None:
    writing = {tool.toolset for tool in registry if not tool.read_only}
    for steps in (VISIBLE, HIDDEN, FOREIGN):
        assert writing <= {toolset for toolset, some in steps.items() if some}


@pytest.mark.parametrize("tool", READS)
async def test_what_is_hidden_is_there_for_those_who_may_read_it(gate: Gate, worlds: Worlds, tool: str) -> None:
    """Otherwise the cells below would prove nothing."""
    shown = []
    for recipe in RECIPES[tool]:
        reply = await gate.ask(replace(IN_B, tenant=worlds.crowded), tool, recipe.arguments(OWN))
        shown += leaks(reply.text)
    assert shown


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("tool", READS)
async def test_a_read_answers_as_if_nobody_else_were_there(gate: Gate, worlds: Worlds, tool: str, cell: str) -> None:
    aim, _ = CELLS[cell]
    succeeded = 0
    for reader in READERS if cell in {"own", "other layer"} else READERS[:1]:
        for recipe in RECIPES[tool]:
            arguments = recipe.arguments(aim)
            crowded = await gate.pages(reader.of(worlds.crowded), tool, arguments)
            lonely = await gate.pages(reader.of(worlds.lonely), tool, arguments)
            where = f"{tool}, {cell}, {reader.name}, {recipe.title}"
            assert steady(crowded) == steady(lonely), where
            assert [leaks(_unsaid(page.shown, aim), "") for page in crowded] == [[]] * len(crowded), where
            succeeded += not crowded[0].failed
            if cell in HIDDEN_CELLS:
                unknown = await gate.pages(reader.of(worlds.crowded), tool, recipe.arguments(GUESSED))
                assert _unnamed(crowded, aim) == _unnamed(unknown, GUESSED), where
    assert succeeded


@pytest.mark.parametrize("tool", WRITES)
async def test_a_write_answers_as_if_nobody_else_were_there_and_touches_nothing_else(
    gate: Gate, worlds: Worlds, database: Database, tool: str
) -> None:
    """In the lonely twin a hidden name is an unknown one, so a write to either answers the same."""

    async def held() -> dict[str, Held]:
        trail = f"tn-{worlds.crowded}"  # its audit, which may grow
        return await everything(database, [worlds.crowded, worlds.foreign], apart=[trail, worlds.lonely])

    before = await held()
    for writer in WRITERS:
        for cell, (aim, _) in CELLS.items():
            if writer is not WRITERS[0] and cell not in {"own", "other layer"}:
                continue
            for recipe in RECIPES[tool]:
                arguments = recipe.arguments(aim)
                crowded = await gate.ask(writer.of(worlds.crowded), tool, arguments)
                lonely = await gate.ask(writer.of(worlds.lonely), tool, arguments)
                where = f"{tool}, {cell}, {writer.name}, {recipe.title}"
                assert crowded.steady == lonely.steady, where
                # Nothing is hidden in the lonely twin: a mark that shows there was said by the writers themselves.
                said = set(leaks(_unsaid(lonely.shown, aim)))
                assert set(leaks(_unsaid(crowded.shown, aim))) <= said, where
        after = await held()
        assert _changed(*(outside(state, worlds.crowded, writer.writes) for state in (before, after)), worlds) == []
        before = after


@pytest.mark.parametrize("tool", OPERATORS)
async def test_an_operators_tool_is_refused_alike_in_every_cell(gate: Gate, worlds: Worlds, tool: str) -> None:
    refusals = set()
    for cell, (aim, _) in CELLS.items():
        for caller in (*READERS, *WRITERS, IN_B):
            for recipe in RECIPES[tool]:
                for tenant in (worlds.crowded, worlds.lonely):
                    reply = await gate.ask(caller.of(tenant), tool, recipe.arguments(aim))
                    assert (reply.failed, reply.payload["reason"]) == (True, "forbidden"), f"{cell}, {caller.name}"
                    refusals.add(reply.text)
    assert len(refusals) == 1


async def test_an_export_under_way_elsewhere_is_answered_like_one_that_never_was(
    gate: Gate, worlds: Worlds, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id is known, and the person is the same: another tenant's, one of a layer out of reach, another person's."""
    monkeypatch.setattr("app.memory.moving.underway._WAIT_SECONDS", 0.01)
    jobs, caller = ExportJobs(database.control), WRITERS[0].of(worlds.crowded)
    stands = {"records": 0, "node_count": 0, "edge_count": 0, "label": "qzx"}
    made_up = await gate.ask(caller, "graph_export", {"export_id": new_export_id()})
    assert made_up.payload["reason"] == "not_found"
    for tenant, subject, layer in (
        (worlds.foreign, "us-writer", ""),
        (worlds.crowded, "us-writer", "b"),
        (worlds.crowded, "us-wide", ""),
    ):
        elsewhere = new_export_id()
        await jobs.begin(elsewhere, tenant=tenant, subject=subject, layers=["", layer], asked={}, answer=stands)
        assert await jobs.find(elsewhere, tenant, subject)
        assert (await gate.ask(caller, "graph_export", {"export_id": elsewhere})).text == made_up.text
        await jobs.failed(elsewhere, 0, "", "over")


@pytest.mark.parametrize("tool", WRITES)
async def test_a_hidden_layer_is_refused_like_one_that_does_not_exist(gate: Gate, worlds: Worlds, tool: str) -> None:
    example = dict(gate.registry.tools[tool].example)
    writer = WRITERS[0].of(worlds.crowded)
    hidden = await gate.ask(writer, tool, {**example, "layers": ["b"]})
    invented = await gate.ask(writer, tool, {**example, "layers": ["z"]})
    assert hidden.failed
    assert hidden.text.replace("'b'", "?") == invented.text.replace("'z'", "?")


@pytest.mark.parametrize("tool", READS)
async def test_a_cursor_of_another_tenant_or_of_other_layers_is_refused(gate: Gate, worlds: Worlds, tool: str) -> None:
    if "cursor" not in gate.registry.tools[tool].input.model_fields:
        return
    reader = READERS[0].of(worlds.crowded)
    for arguments in (recipe.arguments(OWN) for recipe in RECIPES[tool]):
        cursor = (await gate.ask(reader, tool, arguments)).payload.get("next_cursor")
        if cursor is None:
            continue
        for stranger in (reader.of(worlds.foreign), replace(reader, reads=("",)), replace(reader, reads=("", "b"))):
            reply = await gate.ask(stranger, tool, {**arguments, "cursor": cursor})
            assert (reply.failed, reply.payload["reason"]) == (True, "invalid_input")
            assert leaks(reply.text) == []
        return
    pytest.fail(f"no recipe of {tool} has a second page")


def _changed(before: dict[str, str], after: dict[str, str], worlds: Worlds) -> list[str]:
    """What differs, the lonely twin (that writes too) apart."""
    names = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return sorted(name for name in names if worlds.lonely not in name)


def _unsaid(text: str, aim: Aim) -> str:
    """The text without the words that the caller said itself."""
    for said in (aim.subject, aim.subject[:-1], aim.words, "home/qzx"):
        text = text.replace(said, "?") if said not in {OWN.subject, OWN.subject[:-1]} else text
    return text.replace("QzxType", "?") if aim is not OWN else text


def _unnamed(replies: list[Reply], aim: Aim) -> list[str]:
    return [_unsaid(reply.steady, aim) for reply in replies]
