"""What an operator may write for ``graph_cypher``: one reading query over memory records, judged word by word.

A READ transaction stops writes, yet lets SHOW, TERMINATE and 51 procedures through, some of which end connections or
show other people's queries. So words outside strings, comments and back-ticked names are judged here, and each path
must be fixed to records by itself: one of its nodes has a label (control labels, with a leading ``_``, are refused),
and for one tenant alone says ``{tenant: $tenant}``; relationships never cross tenants. A variable that was bound before
says so again: what is bound where is the engine's to know, and a guess at it could be led astray. Functions are those
of a list, since some grow a text without an end that the engine's limits do not count. What makes a list is refused
where the engine neither counts its memory nor looks at the clock; what UNWIND and collect make is counted.
In doubt a query is refused, and the message says how to write it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from app.errors import InvalidInput
from app.store.cypher import Token, clauses, closing, items, tokenize, top_level, words

__all__ = ["LONGEST", "guarded"]

LONGEST: Final = 8_000
"""Characters of a query."""

_FIRST: Final = words("MATCH OPTIONAL UNWIND WITH RETURN")
_REFUSED: Final = words("SHOW TERMINATE CALL LOAD USE NEXT CYPHER EXPLAIN PROFILE REDUCE ALLREDUCE")
_FUNCTIONS: Final = words(
    "ABS ALL ANY AVG BTRIM CEIL COALESCE COLLECT COUNT DATE DATETIME DURATION ELEMENTID ENDNODE EXISTS FLOOR HEAD "
    "ID ISEMPTY KEYS LABELS LAST LEFT LENGTH LOCALDATETIME LOCALTIME LTRIM MAX MIN NODES NONE PERCENTILECONT "
    "PERCENTILEDISC POINT PROPERTIES RANGE RELATIONSHIPS REVERSE RIGHT ROUND RTRIM SIGN SINGLE SIZE "
    "STARTNODE STDEV STDEVP SUBSTRING SUM TAIL TIME TOBOOLEAN TOBOOLEANORNULL TOFLOAT TOFLOATORNULL TOINTEGER "
    "TOINTEGERORNULL TOLOWER TOSTRING TOSTRINGORNULL TOUPPER TRIM TYPE VALUETYPE"
)
_OF_FAMILIES: Final = words("DATE DATETIME DURATION LOCALDATETIME LOCALTIME POINT TIME VECTOR")
_JOINS: Final = 8
"""Texts that a query may join: each join can double one."""
_QUANTIFIERS: Final = words("ALL ANY NONE SINGLE")
_LONGEST_RANGE: Final = 10_000
_DIGITS: Final = 5
_WRITING: Final = words("CREATE MERGE SET DELETE DETACH NODETACH REMOVE INSERT FOREACH DROP ALTER GRANT DENY REVOKE")
_SUBQUERIES: Final = words("EXISTS COUNT COLLECT")
_AFTER_PATTERN: Final = words("WHERE SEARCH USING")
_PATH_FUNCTIONS: Final = words("SHORTESTPATH ALLSHORTESTPATHS")
# Before a bracket in an expression these are words of the language; any other name makes it a function's.
_BEFORE: Final = words(
    "WHERE AND OR NOT XOR IN RETURN WITH THEN ELSE WHEN CASE UNWIND DISTINCT BY AS CONTAINS MATCH PATH PATHS SHORTEST"
)
# Words that begin a clause or a part of one. As names they would make clauses look other than the engine reads them.
_STRUCTURAL: Final = words(
    "MATCH OPTIONAL WITH RETURN UNWIND UNION WHERE ORDER SKIP OFFSET LIMIT YIELD LET FILTER FINISH NEXT SEARCH USING"
)
_OPERATORS: Final = words(
    "AS BY DISTINCT WHERE AND OR XOR NOT IN THEN ELSE WHEN CASE CONTAINS IS STARTS ENDS WITH RETURN UNWIND MATCH "
    "LIMIT SKIP OFFSET LET FILTER YIELD USING SEARCH FOR ON"
)
_NO_OPERAND: Final = frozenset(".:&|!,=+-/%^<>([$") | {"<=", ">=", "<>", "+=", "=~", "||", ".."}
_NO_LABEL: Final = words("NULL NOT TYPED NORMALIZED NFC NFD NFKC NFKD")
_ARROW: Final = frozenset("-<>+*")
_DEEPEST: Final = 40
_ESCAPE: Final = re.compile(r"\\[uU]")


def guarded(text: str, *, confined: bool) -> str:
    """The query as it may be run.

    ``confined``: each path must be fixed to ``$tenant``.

    Raises:
        InvalidInput: what must not be in it, and how to say it instead.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip().removesuffix(";")
    if len(text) > LONGEST:
        raise _refusal(f"the query may have at most {LONGEST} characters")
    if _ESCAPE.search(text):
        raise _refusal("escapes like \\u0041 are read before everything else; pass such text in params")
    try:
        tokens = tokenize(text)
        _check_words(tokens)
        _check_names(tokens)
        _check_depth(tokens)
        _check_functions(tokens)
        _check_lists(tokens)
        _Paths(confined=confined).query(tokens)
    except ValueError as error:
        raise _refusal(str(error)) from error
    return text


def _refusal(words: str) -> InvalidInput:
    return InvalidInput(f"This query is refused: {words}. Nothing was run.", field="cypher")


def _check_words(tokens: Sequence[Token]) -> None:
    if not tokens or tokens[0].upper not in _FIRST:
        raise _refusal("it must begin with MATCH, OPTIONAL MATCH, UNWIND, WITH or RETURN")
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        if token.upper in _REFUSED:
            raise _refusal(f"{token.upper} is not allowed; a name that is spelt so needs back-ticks")
        if token.upper in _WRITING:
            raise _refusal(f"{token.upper} writes, and this tool only reads; a name that is spelt so needs back-ticks")
        if token.kind in {"word", "sign", "parameter"} and not token.text.isascii():
            raise _refusal("outside strings and back-ticks only ASCII characters are allowed")
        if token.text == "=~":
            raise _refusal("=~ can take longer than any deadline; use CONTAINS, STARTS WITH or ENDS WITH")
        if token.text == ";":
            raise _refusal("only one query at a time is allowed")
        if after is not None and after.text == "(" and (token.kind == "parameter" or token.text == "$"):
            raise _refusal("labels and types must stand in the query itself, not in parameters")
        control = token.is_name() and token.text.strip("`").startswith("_")
        if control and before is not None and before.text in {":", "&", "|", "!"}:
            raise _refusal("labels with a leading underscore are control records, which no query reads")


def _check_names(tokens: Sequence[Token]) -> None:
    """Words of the language are used as such: each stands where no name can."""
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        if before is None or token.upper not in _STRUCTURAL | {"STARTS", "ENDS"}:
            continue
        operator = token.upper == "WITH" and before.upper in {"STARTS", "ENDS"}
        dangling = before.upper in _OPERATORS or (before.kind == "sign" and before.text in _NO_OPERAND)
        if dangling and not operator:
            raise _refusal(f"a name that is spelt {token.text} needs back-ticks")


def _check_depth(tokens: Sequence[Token]) -> None:
    depth = 0
    for token in tokens:
        depth += (token.kind == "sign" and token.text in {"(", "[", "{"}) - (
            token.kind == "sign" and token.text in {")", "]", "}"}
        )
        if depth > _DEEPEST:
            raise _refusal(f"brackets may be {_DEEPEST} deep")


def _check_functions(tokens: Sequence[Token]) -> None:
    """Only functions of the list are called, and few texts are joined."""
    if sum(token.kind == "sign" and token.text in {"+", "||"} for token in tokens) > _JOINS:
        raise _refusal(f"at most {_JOINS} of + and || are allowed; join texts where you read the answer")
    for place, (token, after) in enumerate(pairwise(tokens)):
        if after.text != "(" or after.kind != "sign" or not token.is_name():
            continue
        member = place > 1 and tokens[place - 1].text == "." and tokens[place - 2].is_name()
        first = next((tokens[at] for at in range(place, -1, -2) if at < 2 or tokens[at - 1].text != "."), token)
        known = first.upper in _OF_FAMILIES if member else token.upper in _FUNCTIONS | _BEFORE | _PATH_FUNCTIONS
        if token.text.startswith("`") or not known:
            raise _refusal(f"the function {token.text} is not among those that may be called here")


def _check_lists(tokens: Sequence[Token]) -> None:
    """No list is made or gone through without an end: the engine neither counts that nor stops it."""
    for place, (token, after) in enumerate(pairwise(tokens)):
        third = tokens[place + 2] if place + 2 < len(tokens) else None
        if token.text == "[" and token.kind == "sign" and after.is_name() and third is not None and third.upper == "IN":
            raise _refusal("[x IN list …] is not allowed; use UNWIND list AS x, and collect() to have a list again")
        if after.text != "(" or after.kind != "sign":
            continue
        if token.upper in _QUANTIFIERS | {"RANGE"}:
            inside = tokens[place + 2 : closing(tokens, place + 1)]
            if token.upper == "RANGE" and not all(map(_is_bound, inside)):
                raise _refusal(f"range() takes whole numbers up to {_LONGEST_RANGE} that stand in the query itself")
            if sum(each.upper == "IN" for each in inside) > 1:
                raise _refusal(f"inside {token.text}() there can be only the IN of its own list; use UNWIND and WHERE")


def _is_bound(token: Token) -> bool:
    """Whether this may stand among the arguments of ``range``."""
    if token.kind == "number":
        return token.text.isdecimal() and len(token.text) <= _DIGITS and int(token.text) <= _LONGEST_RANGE
    return token.kind == "sign" and token.text in {",", "-"}


class _Paths:
    """Walks a query: every path in it, wherever it stands, has to be fixed."""

    def __init__(self, *, confined: bool) -> None:
        self._confined = confined

    def query(self, tokens: Sequence[Token]) -> None:
        """Check a query, or one inside it."""
        for clause in clauses(tokens):
            body, end = clause.body, 0
            if clause.keyword in {"MATCH", ""}:
                end = next((at for at, token in top_level(body) if token.upper in _AFTER_PATTERN), len(body))
                self._pattern(body[:end])
            self._expressions(body[end:])

    def _pattern(self, tokens: Sequence[Token]) -> None:
        """Check the paths of a MATCH."""
        place = 0
        while place < len(tokens):
            function = place > 0 and tokens[place - 1].upper in _PATH_FUNCTIONS
            place = self._path(tokens, place) if _opens(tokens, place) and not function else place + 1

    def _path(self, tokens: Sequence[Token], place: int) -> int:
        """Check the path that starts at a bracket: where it ends."""
        nodes: list[Sequence[Token]] = []
        while place < len(tokens) and _opens(tokens, place):
            end = closing(tokens, place)
            inside = tokens[place + 1 : end]
            if inside and inside[0].text == "(":
                raise _refusal("paths in brackets are not allowed; for several hops write -[*1..3]-")
            if any((one.text, two.text) == (":", "(") for (_, one), (_, two) in pairwise(top_level(inside))):
                raise _refusal("labels in brackets are not allowed; write (n:Person|Project)")
            nodes.append(inside)
            self._expressions(inside)
            place = self._step(tokens, end + 1)
        if not any(self._fixed(node) for node in nodes):
            how = "(n:Entity {tenant: $tenant})" if self._confined else "(n:Entity)"
            raise _refusal(f"each path needs a node that says what it is, like {how}, also one that was bound before")
        return place

    def _step(self, tokens: Sequence[Token], place: int) -> int:
        """Over a relationship, to where the next node may stand."""
        while place < len(tokens):
            token = tokens[place]
            if token.kind == "sign" and token.text in _ARROW:
                place += 1
            elif token.text in {"[", "{"} and token.kind == "sign":
                end = closing(tokens, place)
                self._expressions(tokens[place + 1 : end])
                place = end + 1
            else:
                return place
        return place

    def _fixed(self, node: Sequence[Token]) -> bool:
        """Whether a node says what it is."""
        rest = node[1:] if node and node[0].is_name() else node
        if not rest or rest[0].text != ":":
            return False
        brace = next((at for at, token in top_level(rest) if token.text == "{" or token.upper == "WHERE"), len(rest))
        labels = rest[:brace]
        plain = all(token.is_name() or (token.kind == "sign" and token.text in {":", "|", "&"}) for token in labels)
        if not plain or not any(token.is_name() for token in labels):
            return False
        return not self._confined or _of_tenant(rest[brace:])

    def _expressions(self, tokens: Sequence[Token]) -> None:
        """Check the paths and subqueries inside expressions."""
        place = 0
        while place < len(tokens):
            token, before = tokens[place], tokens[place - 1] if place else None
            if token.text == "{" and token.kind == "sign" and before is not None and before.upper in _SUBQUERIES:
                end = closing(tokens, place)
                self.query(tokens[place + 1 : end])
                place = end + 1
            elif _opens(tokens, place) and _is_node(tokens, place):
                place = self._path(tokens, place)
            elif token.upper == "MATCH":
                raise _refusal("MATCH stands where it cannot be judged; a name that is spelt so needs back-ticks")
            else:
                place += 1


def _opens(tokens: Sequence[Token], place: int) -> bool:
    return place < len(tokens) and tokens[place].kind == "sign" and tokens[place].text == "("


def _is_node(tokens: Sequence[Token], place: int) -> bool:
    """Whether a bracket in an expression is a node, not a function's or one that groups."""
    before = tokens[place - 1] if place else None
    if before is not None and before.is_name() and before.upper not in _BEFORE:
        return False
    end = closing(tokens, place)
    inside = tokens[place + 1 : end]
    rest = inside[1:] if inside and inside[0].is_name() else inside
    if rest:
        labelled = rest[0].upper == "IS" and len(rest) > 1 and rest[1].upper not in _NO_LABEL
        return rest[0].text in {":", "{"} or rest[0].upper == "WHERE" or labelled
    follows = tokens[end + 1].text if end + 1 < len(tokens) else ""
    leads = before.text if before is not None else ""
    return not inside or follows in {"-", "<"} or leads in {"-", ">"}


def _of_tenant(tokens: Sequence[Token]) -> bool:
    """Whether the map of a node says ``tenant: $tenant``."""
    if not tokens or tokens[0].text != "{":
        return False
    for item in items(tokens[1 : closing(tokens, 0)]):
        if [token.text for token in item] == ["tenant", ":", "$tenant"]:
            return True
    return False
