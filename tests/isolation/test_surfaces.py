"""Every prompt, resource and completion in every cell, as the tools are in theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from app.cli.toolsets import every_prompt, every_resource
from app.errors import CallError, ProtocolError
from app.memory.offered.completing import complete
from app.memory.service import MemoryService
from app.protocol.offering import Offering
from app.settings import EmbeddingSettings, Settings
from app.store.database import Database
from tests.isolation.callers import Caller, without
from tests.isolation.recipes import CELLS, COMPLETIONS, GUESSED, HIDDEN_CELLS, OWN, PROMPTS, RESOURCES, Aim
from tests.isolation.world import IN_B, READERS, Worlds, leaks


@pytest_asyncio.fixture(scope="module")
async def offering(database: Database, remembering: Any) -> AsyncIterator[Offering]:
    memory = MemoryService(database, remembering, Settings(embedding=EmbeddingSettings(embedding="none")))
    yield Offering(every_prompt(), every_resource(), {"memory": memory}, complete)
    await memory.close()


def test_every_prompt_and_resource_has_recipes() -> None:
    assert {prompt.name for prompt in every_prompt()} == set(PROMPTS)
    assert {resource.name for resource in every_resource()} == set(RESOURCES)


@pytest.mark.parametrize("name", RESOURCES)
async def test_what_is_hidden_is_read_by_those_who_may(offering: Offering, worlds: Worlds, name: str) -> None:
    """Otherwise the cells below would prove nothing."""
    shown = [await _read(offering, IN_B.of(worlds.crowded), uri(OWN), name) for uri in RESOURCES[name]]
    assert leaks("".join(shown))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", RESOURCES)
async def test_a_resource_reads_as_if_nobody_else_were_there(
    offering: Offering, worlds: Worlds, name: str, cell: str
) -> None:
    aim, _ = CELLS[cell]
    for reader in READERS if cell in {"own", "other layer"} else READERS[:1]:
        for uri in RESOURCES[name]:
            crowded = await _read(offering, reader.of(worlds.crowded), uri(aim), name)
            lonely = await _read(offering, reader.of(worlds.lonely), uri(aim), name)
            assert crowded == lonely, f"{name}, {cell}, {reader.name}"
            assert leaks(_unsaid(crowded, aim)) == []
            if cell in HIDDEN_CELLS:
                unknown = await _read(offering, reader.of(worlds.crowded), uri(GUESSED), name)
                assert _unsaid(crowded, aim) == _unsaid(unknown, GUESSED)


async def test_a_completion_offers_only_what_the_caller_may_see(offering: Offering, worlds: Worlds) -> None:
    owner = ("ref/prompt", "graph")
    hidden = await offering.complete(owner, "query", "qzx", IN_B.of(worlds.crowded).context("completion/complete"))
    assert leaks(" ".join(hidden)), "it is there for those who may see it"
    for reader in READERS:
        for aim, _ in CELLS.values():
            for kind, name, argument, beginning in COMPLETIONS:
                asked = ((kind, name), argument, beginning(aim))
                crowded = await offering.complete(*asked, reader.of(worlds.crowded).context("completion/complete"))
                lonely = await offering.complete(*asked, reader.of(worlds.lonely).context("completion/complete"))
                assert crowded == lonely
                assert leaks(" ".join(crowded)) == []


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_depends_on_its_arguments_alone(offering: Offering, name: str) -> None:
    for aim, _ in CELLS.values():
        said = []
        for tenant in ("crowded", "lonely"):
            principal = READERS[0].of(tenant).context("prompts/get").principal
            assert principal is not None
            said.append(offering.prompt(name, PROMPTS[name](aim), principal)[1])
        assert said[0] == said[1]
        assert leaks(_unsaid(said[0], aim)) == []


async def _read(offering: Offering, caller: Caller, uri: str, name: str) -> str:
    volatile = offering.resources[name].volatile
    try:
        resource, text = await offering.read(uri, caller.context("resources/read"))
    except (ProtocolError, CallError) as error:
        return f"refused: {error}"
    if resource.media_type == "application/json":
        return orjson.dumps(without(orjson.loads(text), volatile)).decode()
    return text if not volatile else "\n".join(text.splitlines()[2:])


def _unsaid(text: str, aim: Aim) -> str:
    if aim is OWN:
        return text
    for said in (aim.subject, aim.subject.lower(), aim.words, aim.type if aim is not OWN else ""):
        text = text.replace(said, "?") if said else text
    return text
