"""Every registered statement keeps the rules of the partition."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import app
from app.store.checker import check
from app.store.statement import INJECTED, REGISTERED, statement

LINK = re.compile(r"\b(?:CREATE|MERGE)\s+\((?P<from>[^()]*)\)\s*<?-+(?:\[[^\]]*\])?-*>?\s*\((?P<to>[^()]*)\)")
"""A relationship that a statement makes, with its two ends."""


def _import_statements() -> None:
    for module in pkgutil.walk_packages(app.__path__, "app."):
        if module.name.endswith(".queries") or module.name.startswith("app.store"):
            importlib.import_module(module.name)


def test_every_statement_binds_its_partition():
    _import_statements()
    registered = {name: found for name, found in REGISTERED.items() if not name.startswith("test.")}
    assert len(registered) > 20
    assert {name: faults for name, found in registered.items() if (faults := check(found))} == {}


def test_entities_alone_are_linked():
    """A degree stands for the number of an entity's relations (orphans in graph_stats). Who links records of another
    kind to entities has to count relations of entities instead wherever a statement says ``COUNT { (n)--() }``."""
    _import_statements()
    ends: dict[str, list[bool]] = {}
    for name, found in REGISTERED.items():
        if found.control or name.startswith("test."):
            continue
        for link in LINK.finditer(found.text):
            for end in link.group("from", "to"):
                variable = end.split("{")[0].strip()
                known = re.search(rf"\({variable.split(':')[0]}:Entity\b", found.text)
                ends.setdefault(name, []).append(known is not None)
    assert {"graph.write_images", "memory.write_relations", "moving.write_edges"} <= ends.keys()
    assert all(all(known) for known in ends.values()), ends


def test_a_name_is_registered_once():
    statement("test.registered_once", "RETURN 1 AS one")
    with pytest.raises(ValueError, match="registered twice"):
        statement("test.registered_once", "RETURN 2 AS two")


@pytest.mark.parametrize("name", ["nodot", "Upper.case", "a.b\n", "", "a..b"])
def test_a_name_has_a_form(name):
    with pytest.raises(ValueError, match="form"):
        statement(name, "RETURN 1 AS one")


def test_a_statement_knows_which_parameters_its_caller_passes():
    made = statement("test.parameters", "MATCH (n {tenant: $tenant, layer: $layer, id: $id}) RETURN $limit")
    assert made.injected == {"tenant", "layer"}
    assert made.parameters == {"id", "limit"}
    assert made.injected <= INJECTED
