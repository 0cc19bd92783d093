"""The official conformance suite against the gateway's own HTTP stack, in both of its requirement sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from tests.conformance.fixture_server import fixture_server
from tests.conformance.programs import CONFORMANCE, Ended, node
from tests.conformance.results import Leg, expected_failures, read_results, scored

MODERN, LEGACY = "2026-07-28", "2025-11-25"
STRUCTURAL = {
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
}

# The suite asks for log lines and for questions from the server, both deprecated since 2026-07-28.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


@pytest_asyncio.fixture(scope="module")
async def legs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, tuple[Ended, Leg]]]:
    """Both runs, side by side."""
    folder = tmp_path_factory.mktemp("conformance")
    exceptions = {MODERN: (), LEGACY: ("--expected-failures", expected_failures()[0])}
    async with fixture_server() as url:

        async def leg(revision: str) -> tuple[Ended, Leg]:
            arguments = ("server", "--url", url, "--requirements", revision, "-o", folder / revision)
            ended = await node(CONFORMANCE, *arguments, *exceptions[revision])
            return ended, read_results(folder / revision)

        yield dict(zip((MODERN, LEGACY), await asyncio.gather(leg(MODERN), leg(LEGACY)), strict=True))


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_every_scenario_that_a_revision_requires_was_run_and_passes_but_for_the_four(
    legs: dict[str, tuple[Ended, Leg]], revision: str, show: Callable[[str], None]
) -> None:
    ended, leg = legs[revision]
    required = scored(revision)
    assert required <= leg.scenarios, ended.said + ended.problems
    excepted = STRUCTURAL if revision == LEGACY else set()
    assert leg.failed(required) == excepted, ended.said
    assert ended.code == 0, ended.said
    passed = len(leg.of("SUCCESS", among=required))
    show(
        f"conformance {revision}: {len(required - excepted)} of {len(required)} required scenarios, "
        f"{passed} checks passed, {len(leg.of('FAILURE', among=required))} failed"
    )


async def test_what_is_not_scored_passes_too_unless_it_is_an_extension_that_is_not_offered(
    legs: dict[str, tuple[Ended, Leg]],
) -> None:
    for revision in (MODERN, LEGACY):
        ended, leg = legs[revision]
        beside = frozenset(name for name in leg.scenarios - scored(revision) if not name.startswith("tasks-"))
        assert not leg.failed(beside), ended.said


def test_the_file_of_exceptions_names_the_four_and_one_warning() -> None:
    _, excepted = expected_failures()
    assert {entry for entry in excepted if ":" not in entry} == STRUCTURAL
    assert len(excepted) == len(STRUCTURAL) + 1
