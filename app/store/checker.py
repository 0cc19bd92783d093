"""Static check of statements: every node pattern binds tenant and layer, every write stays in writable partitions.

The rules for a tenant's statement:

* A node pattern binds ``tenant: $tenant`` and a layer in its map, or by conditions of its own clause that must hold
  (``n.tenant = $tenant AND n.layer IN $layers``), or names a variable that was bound so before. ``layer`` may also
  equal the layer of a bound variable. In expressions only a map or a bound variable counts.
* ``COUNT { (n)--() }`` of a bound ``n`` may stand: its degree, which the engine keeps with it and reads no other node
  for. It is the number of its relations only while entities alone are linked, and within a partition; once another kind
  of record hangs on entities, it is no more than an upper bound (the tests of statements tell when).
* What an index procedure yields counts as an unbound node until its clause's conditions bind it.
* What is created or merged carries both in its map; ends of a created relationship lie in one partition.
* SET, REMOVE and DELETE touch only what was bound through ``$layer`` or ``$writable``; tenant and layer never change.
* Labels never begin with ``_``; no clause reaches outside the graph (SHOW, LOAD, USE, CALL … IN TRANSACTIONS, …).

A control statement touches only labels that begin with ``_``. The check refuses in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from app.store.cypher import Clause, Token, clauses, closing, conjuncts, items, searched, tokenize, top_level, words
from app.store.statement import Statement

__all__ = ["check"]

_FORBIDDEN: Final = words("SHOW LOAD USE TERMINATE INSERT LET FILTER NEXT")
_WRITING: Final = words("MERGE CREATE SET REMOVE DELETE")
_WHOLE_GRAPH: Final = ("compacting.", "erasing.", "integrity.", "schema.", "usage.")
"""Rooms of control statements that look at every record: to count, check and copy, and to erase what a tenant left."""
_BEFORE_PATTERN: Final = words(
    "MATCH MERGE CREATE WHERE AND OR NOT XOR IN RETURN WITH THEN ELSE WHEN ANY ALL SHORTEST PATHS PATH BY AS "
    "ON SET DELETE UNWIND CASE DISTINCT IS CONTAINS"
)
_STARTS: Final = words("MATCH OPTIONAL MERGE CREATE UNWIND CALL WITH RETURN")
_INDEX_PROCEDURES: Final = ("db.index.fulltext.queryNodes", "db.index.fulltext.queryRelationships")
_SUBQUERIES: Final = frozenset({"EXISTS", "COUNT", "COLLECT"})
_LISTS: Final = {"$layers": False, "$writable": True}
_ONE_LAYER: Final = "$layer"

Fault = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Bound:
    """What is known of a variable: the partition it lies in (as a name) and whether that one may be written."""

    partition: str
    writable: bool


@dataclass(slots=True)
class _Scope:
    variables: dict[str, _Bound | None] = field(default_factory=dict)
    """Bound variables; None stands for a value that is no node of its own (a row, a list of bound nodes)."""

    def writable(self, name: str) -> bool:
        known = self.variables.get(name)
        return known is not None and known.writable


@dataclass(slots=True)
class _Node:
    name: str
    tokens: tuple[Token, ...]
    place: int
    facts: dict[str, str]


def check(statement: Statement) -> list[str]:
    """What is wrong with ``statement``, as sentences; empty when it may run."""
    faults: list[str] = []
    try:
        tokens = tokenize(statement.text)
        if statement.control:
            if not statement.name.startswith(_WHOLE_GRAPH):
                _check_control(tokens, faults.append)
        else:
            _check_labels(tokens, faults.append)
            checker = _Checker(faults.append)
            checker.query(tokens[2:], _Scope())  # after "CYPHER 25"
            if statement.text.split()[2].upper() not in _STARTS:
                faults.append("does not start with a clause that the check knows")
            if checker.writes and not statement.writes:
                faults.append("writes but is not declared so")
    except ValueError as error:
        faults.append(str(error))
    return faults


def _check_labels(tokens: Sequence[Token], fault: Fault) -> None:
    for place, token in enumerate(tokens[:-1]):
        if token.text not in {":", "&", "|", "!"} or not tokens[place + 1].is_name():
            continue
        label = tokens[place + 1].text.strip("`")
        if label.startswith("_"):
            fault(f"names the control label {label}")


def _check_control(tokens: Sequence[Token], fault: Fault) -> None:
    seen: set[str] = set()
    for place in range(len(tokens)):
        if not _is_node(tokens, place):
            continue
        inside = tokens[place + 1 : closing(tokens, place)]
        name = inside[0].text if inside and inside[0].is_name() else ""
        label = next((t.text.strip("`") for c, t in pairwise(inside) if c.text == ":"), "")
        if label.startswith("_"):
            seen.add(name)
        elif label or name not in seen:
            fault(f"a control statement names {label or 'a node without a label'}")


def _is_node(tokens: Sequence[Token], place: int) -> bool:
    """Whether the bracket at ``place`` opens a node pattern (in doubt yes, unless it is a call or a plain group)."""
    if tokens[place].text != "(" or tokens[place].kind != "sign":
        return False
    before = tokens[place - 1] if place else None
    if before is not None and before.is_name() and before.upper not in _BEFORE_PATTERN:
        return False  # a function, a procedure, or the variables of CALL (…) {…}
    if before is not None and before.text == "$":
        return False  # $(…): a dynamic label or type
    inside = tokens[place + 1 : closing(tokens, place)]
    rest = inside[1:] if inside and inside[0].is_name() else inside
    if not rest:
        return True
    if rest[0].upper == "IS":
        return len(rest) > 1 and rest[1].upper not in {"NULL", "NOT", "TYPED", "NORMALIZED", "NFC", "NFD"}
    return rest[0].text in {":", "{"} or rest[0].upper == "WHERE"


class _Checker:
    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.writes = False
        self._owed: dict[str, set[str]] = {}

    def query(self, tokens: Sequence[Token], scope: _Scope) -> None:
        """Check one query; ``scope`` gains what it binds."""
        start = dict(scope.variables)
        before = dict(self._owed)
        for clause in clauses(tokens):
            self.writes |= clause.keyword in _WRITING
            if clause.keyword in _FORBIDDEN:
                self._fault(f"{clause.keyword} does not belong into a statement of a tenant")
            elif clause.keyword == "UNION":
                scope.variables = dict(start)
            elif clause.keyword in {"MATCH", "MERGE", "CREATE", ""}:
                self._pattern(clause, scope)
            elif clause.keyword == "WITH":
                self._project(clause, scope)
            else:
                self._other(clause, scope)
        for name, keys in self._owed.items():
            if name not in before and keys:
                self._fault(f"{name or 'a created relationship'} is left without {' and '.join(sorted(keys))}")
        self._owed = before

    def _other(self, clause: Clause, scope: _Scope) -> None:
        keyword, body = clause.keyword, clause.body
        if keyword == "CALL" and body and body[0].text in {"(", "{"}:
            self._subquery(body, scope)
            return
        if keyword == "CALL":
            self._procedure(body)
        self._expressions(body, scope)
        if keyword == "YIELD":
            self._yield(body, scope)
        elif keyword == "UNWIND":
            self._alias(body, scope)
        elif keyword in {"SET", "REMOVE", "DELETE"}:
            self._change(keyword, body, scope)
        elif keyword == "FOREACH":
            self._foreach(body, scope)

    # -- patterns -------------------------------------------------------------------------------------------------

    def _pattern(self, clause: Clause, scope: _Scope) -> None:
        creating = clause.keyword in {"MERGE", "CREATE"}
        where = next((place for place, token in top_level(clause.body) if token.upper == "WHERE"), len(clause.body))
        search = next((place for place, token in top_level(clause.body) if token.upper == "SEARCH"), where)
        hint = next((place for place, token in top_level(clause.body) if token.upper == "USING"), where)
        pattern = clause.body[: min(where, search, hint)]
        facts = conjuncts(clause.body[where + 1 :]) + searched(clause.body[search:])
        if creating:
            facts = []
        nodes = self._nodes(pattern)
        for node in nodes:
            bound = self._bind(node, facts, scope)
            if creating and bound is not None and not bound.writable:
                self._fault(f"{clause.keyword} creates where the call may not write")
        self._relationships(pattern, nodes, scope, creating)
        for node in nodes:
            self._expressions(node.tokens, scope)
        self._expressions(clause.body[where:], scope)

    def _nodes(self, tokens: Sequence[Token]) -> list[_Node]:
        found = []
        for place in range(len(tokens)):
            if _is_node(tokens, place):
                inside = tuple(tokens[place + 1 : closing(tokens, place)])
                name = inside[0].text if inside and inside[0].is_name() else ""
                found.append(_Node(name, inside, place, _map_facts(inside)))
        return found

    def _bind(self, node: _Node, facts: list[tuple[str, ...]], scope: _Scope) -> _Bound | None:
        if node.name and node.name in scope.variables:
            return scope.variables[node.name]
        inline = next((place for place, token in top_level(node.tokens) if token.upper == "WHERE"), None)
        if inline is not None:
            facts = facts + conjuncts(node.tokens[inline + 1 :])
        tenant = node.facts.get("tenant") or _fact(node.name, "tenant", facts)
        layer = node.facts.get("layer") or _fact(node.name, "layer", facts)
        shown = "(" + " ".join(token.text for token in node.tokens[:8]) + ")"
        if tenant != "$tenant":
            self._fault(f"{shown} does not bind the tenant")
        bound = self._layer(node.name or shown, layer, scope)
        if bound is None:
            self._fault(f"{shown} does not bind a layer")
        if node.name:
            scope.variables[node.name] = bound
        return bound

    @staticmethod
    def _layer(name: str, layer: str | None, scope: _Scope) -> _Bound | None:
        if layer == _ONE_LAYER:
            return _Bound(_ONE_LAYER, writable=True)
        if layer in _LISTS:
            return _Bound(f"of {name}", writable=_LISTS[layer])
        if layer and layer.endswith(".layer"):
            return scope.variables.get(layer.removesuffix(".layer"))
        return None

    def _relationships(self, pattern: Sequence[Token], nodes: list[_Node], scope: _Scope, creating: bool) -> None:
        for place, token in enumerate(pattern):
            if token.text != "[" or not place or pattern[place - 1].text not in {"-", "<"}:
                continue
            inside = pattern[place + 1 : closing(pattern, place)]
            left = max((n for n in nodes if n.place < place), key=lambda n: n.place, default=None)
            right = min((n for n in nodes if n.place > place), key=lambda n: n.place, default=None)
            ends = [scope.variables.get(n.name) for n in (left, right) if n is not None]
            known = next((end for end in ends if end is not None), None)
            if creating and (len(ends) != 2 or known is None or ends[0] is None or ends[1] is None):
                self._fault("a created relationship has an end whose partition is not known")
            elif creating and ends[0] is not None and ends[1] is not None and ends[0].partition != ends[1].partition:
                self._fault("a created relationship may cross partitions: both ends need the same layer")
            name = inside[0].text if inside and inside[0].is_name() else ""
            if creating:
                self._owed[name] = {"tenant", "layer"} - _map_facts(inside).keys()
            if name:
                scope.variables.setdefault(name, known)

    # -- what carries variables on ------------------------------------------------------------------------------

    def _project(self, clause: Clause, scope: _Scope) -> None:
        self._expressions(clause.body, scope)
        where = next((place for place, token in top_level(clause.body) if token.upper == "WHERE"), len(clause.body))
        kept: dict[str, _Bound | None] = {}
        for item in items(clause.body[:where]):
            names = [token for token in item if token.upper != "DISTINCT"]
            if names and names[0].text == "*":
                kept.update(scope.variables)
            elif len(names) == 1:
                kept[names[0].text] = scope.variables.get(names[0].text)
            elif len(names) >= 3 and names[-2].upper == "AS":
                kept[names[-1].text] = _derived(names[:-2], scope)
        scope.variables = kept

    def _alias(self, body: Sequence[Token], scope: _Scope) -> None:
        if len(body) >= 2 and body[-2].upper == "AS":
            scope.variables[body[-1].text] = _derived(body[:-2], scope)

    def _foreach(self, body: Sequence[Token], scope: _Scope) -> None:
        inside = body[1 : closing(body, 0)] if body and body[0].text == "(" else ()
        bar = next((place for place, token in top_level(inside) if token.text == "|"), None)
        if bar is None or not inside:
            self._fault("FOREACH was not understood")
            return
        inner = _Scope(dict(scope.variables))
        inner.variables[inside[0].text] = _derived(inside[1:bar], scope)
        self.query(inside[bar + 1 :], inner)

    def _subquery(self, body: Sequence[Token], scope: _Scope) -> None:
        inner, brace = _Scope(), 0
        if body[0].text == "(":
            brace = closing(body, 0) + 1
            names = [token.text for token in body[1 : brace - 1] if token.is_name()]
            everything = any(token.text == "*" for token in body[1 : brace - 1])
            inner.variables = {n: b for n, b in scope.variables.items() if everything or n in names}
        end = closing(body, brace)
        if any(token.upper == "TRANSACTIONS" for token in body[end:]):
            self._fault("CALL … IN TRANSACTIONS does not belong into a statement of a tenant")
        inside = body[brace + 1 : end]
        self.query(inside, inner)
        for clause in clauses(inside):
            if clause.keyword == "RETURN":
                returned = _Scope(dict(inner.variables))
                self._project(Clause("WITH", clause.body), returned)
                scope.variables.update(returned.variables)

    def _procedure(self, body: Sequence[Token]) -> None:
        name = "".join(token.text for token in body[: next((i for i, t in enumerate(body) if t.text == "("), 0)])
        if name not in _INDEX_PROCEDURES:
            self._fault(f"the procedure {name or '?'} does not belong into a statement of a tenant")

    def _yield(self, body: Sequence[Token], scope: _Scope) -> None:
        where = next((place for place, token in top_level(body) if token.upper == "WHERE"), len(body))
        facts = conjuncts(body[where + 1 :])
        for item in items(body[:where]):
            name = item[-1].text if item else ""
            if item and item[0].text in {"node", "relationship"}:
                self._bind(_Node(name, tuple(item), 0, {}), facts, scope)
            else:
                scope.variables[name] = None

    # -- what changes -------------------------------------------------------------------------------------------

    def _change(self, keyword: str, body: Sequence[Token], scope: _Scope) -> None:
        for item in items(body):
            name = item[0].text if item and item[0].is_name() else ""
            if not scope.writable(name):
                self._fault(f"{keyword} {name or '?'} touches what may not be writable")
            texts = [token.text for token in item]
            if len(texts) > 3 and texts[1] == "." and texts[2] in {"tenant", "layer"}:
                self._repay(name, texts[2], texts[3:], scope)
            if len(texts) > 1 and texts[1] == "=":
                self._owed[name] = {"tenant", "layer"}

    def _repay(self, name: str, key: str, value: list[str], scope: _Scope) -> None:
        """Tenant and layer may be set to what the call writes under, and to nothing else."""
        own = ["=", "$tenant"] if key == "tenant" else ["=", "$layer"]
        copied = key == "layer" and len(value) == 4 and value[2:] == [".", "layer"] and scope.writable(value[1])
        if value != own and not copied:
            self._fault(f"setting {name}.{key} would move a record")
        self._owed.get(name, set()).discard(key)

    # -- expressions --------------------------------------------------------------------------------------------

    def _expressions(self, tokens: Sequence[Token], scope: _Scope) -> None:
        """Patterns and subqueries inside expressions."""
        place = 0
        while place < len(tokens):
            token, before = tokens[place], tokens[place - 1].upper if place else ""
            if token.text == "{" and before in _SUBQUERIES:
                end = closing(tokens, place)
                if not (before == "COUNT" and _is_degree(tokens[place + 1 : end], scope)):
                    self.query(tokens[place + 1 : end], _Scope(dict(scope.variables)))
                place = end
            elif _is_node(tokens, place):
                for node in self._nodes(tokens[place : closing(tokens, place) + 1])[:1]:
                    self._bind(node, [], _Scope(dict(scope.variables)))
            place += 1


def _is_degree(inside: Sequence[Token], scope: _Scope) -> bool:
    """Whether this is ``(n)--()`` and nothing else, of a node that is bound."""
    texts = [token.text for token in inside]
    return len(texts) == 7 and texts[:1] + texts[2:] == list("()--()") and scope.variables.get(texts[1]) is not None


def _map_facts(inside: Sequence[Token]) -> dict[str, str]:
    """What the map of a node pattern says of tenant and layer."""
    brace = next((place for place, token in top_level(inside) if token.text == "{"), None)
    if brace is None:
        return {}
    facts = {}
    for item in items(inside[brace + 1 : closing(inside, brace)]):
        if len(item) > 2 and item[1].text == ":" and item[0].text in {"tenant", "layer"}:
            facts[item[0].text] = "".join(token.text for token in item[2:])
    return facts


def _fact(name: str, key: str, facts: Sequence[tuple[str, ...]]) -> str | None:
    """What a condition that must hold says of ``name.key``: a parameter or another variable's layer."""
    for fact in facts:
        if name and fact[:3] == (name, ".", key) and len(fact) > 4:
            value = "".join(fact[4:])
            if (fact[3] == "=" and value not in _LISTS) or (fact[3] == "IN" and value in _LISTS):
                return value
    return None


def _derived(expression: Sequence[Token], scope: _Scope) -> _Bound | None:
    """What a value made of ``expression`` may be: it is writable only if every variable in it is."""
    known = [scope.variables.get(t.text) for t in expression if t.is_name() and t.text in scope.variables]
    bound = [entry for entry in known if entry is not None]
    if not bound or len(bound) != len(known):
        return None
    return _Bound(bound[0].partition if len(bound) == 1 else "several", all(entry.writable for entry in bound))
