"""What the conformance suite wrote down, scenario by scenario."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.conformance.programs import CONFORMANCE

__all__ = ["Leg", "expected_failures", "read_results", "scored"]

FOLDER = re.compile(r"(?:authorization-server-|server-)?(?P<scenario>.+?)-\d{4}-\d\d-\d\dT[\d-]+Z\Z")


@dataclass(frozen=True)
class Leg:
    """One run of the suite: (scenario, check, status) of everything that it looked at."""

    checks: tuple[tuple[str, str, str], ...]

    def of(self, *statuses: str, among: frozenset[str] | None = None) -> set[str]:
        """``scenario`` or ``scenario:check`` of the checks with one of these statuses."""
        return {
            f"{scenario}:{check}"
            for scenario, check, status in self.checks
            if status in statuses and (among is None or scenario in among)
        }

    def failed(self, among: frozenset[str]) -> set[str]:
        """Scenarios with a failed check."""
        return {found.partition(":")[0] for found in self.of("FAILURE", among=among)}

    @property
    def scenarios(self) -> frozenset[str]:
        return frozenset(scenario for scenario, _, _ in self.checks)


def read_results(folder: Path) -> Leg:
    return Leg(tuple(_checks(folder)))


def _checks(folder: Path) -> Iterator[tuple[str, str, str]]:
    for file in sorted(folder.rglob("checks.json")):
        named = FOLDER.match(file.parent.name)
        assert named is not None, file
        for check in json.loads(file.read_text(encoding="utf-8")):
            yield named["scenario"], check["id"], check["status"]


def scored(revision: str) -> frozenset[str]:
    """The server scenarios that conformance to a revision requires, as the suite froze them."""
    text = (CONFORMANCE.parents[1] / "requirements" / f"{revision}.yaml").read_text(encoding="utf-8")
    return frozenset(yaml.safe_load(text)["server"])


def expected_failures() -> tuple[Path, frozenset[str]]:
    """The file of exceptions, and the scenarios in it."""
    file = Path(__file__).with_name("expected_failures.yaml")
    return file, frozenset(str(entry) for entry in yaml.safe_load(file.read_text(encoding="utf-8"))["server"])
