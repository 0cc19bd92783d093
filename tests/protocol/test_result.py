from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Conflict, DatabaseUnavailable, InsufficientScope, InvalidInput, RateLimited
from app.protocol.envelope import Envelope
from app.protocol.result import TooLarge, failure, refusal, success


def data(answer: Any) -> dict[str, Any]:
    return json.loads(answer.text)  # type: ignore[no-any-return]


def test_success_says_ok_and_the_same_in_both_forms() -> None:
    result = success({"items": [1, None, "é"], "none": None}).result()
    assert result["structuredContent"] == {"ok": True, "items": [1, None, "é"], "none": None}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert result["isError"] is False


def test_failure_says_why_what_to_do_and_whether_anything_was_applied() -> None:
    answer = failure(DatabaseUnavailable("try again", outcome="unknown", retry_after_ms=500))
    assert answer.failed
    assert data(answer) == {
        "ok": False,
        "reason": "database_unavailable",
        "message": "try again",
        "retryable": True,
        "outcome": "unknown",
        "retry_after_ms": 500,
    }


def test_the_ledger_spells_the_wait_both_ways() -> None:
    assert data(failure(RateLimited("m", retry_after_ms=9), toolset="ledger"))["retryAfterMs"] == 9
    assert "retryAfterMs" not in data(failure(RateLimited("m", retry_after_ms=9), toolset="memory"))


def test_a_failure_names_the_field_and_the_scopes() -> None:
    assert data(failure(InvalidInput("m", field="limit")))["field"] == "limit"
    scopes = frozenset({"memory:write"})
    assert data(failure(InsufficientScope("m", scopes=scopes)))["scopes"] == ["memory:write"]
    assert "field" not in data(failure(Conflict("m")))


def test_a_long_result_loses_the_end_of_its_longest_list_and_says_how_much() -> None:
    payload = {"few": ["a", "b"], "group": {"many": ["x" * 90] * 1000}}
    answer = success(payload, limit=10_000)
    found = data(answer)
    assert 9_000 < len(answer.text) <= 10_000
    assert found["few"] == ["a", "b"]
    assert found["truncated"] is True
    assert len(found["group"]["many"]) + found["omitted"]["group.many"] == 1000
    assert payload["group"]["many"] == ["x" * 90] * 1000  # type: ignore[index]


def test_characters_count_not_bytes() -> None:
    assert "truncated" not in data(success({"items": ["日本" * 400]}, limit=1000))


def test_a_long_result_without_a_list_is_refused_with_advice() -> None:
    with pytest.raises(TooLarge, match="over 1000; ask for less"):
        success({"text": "x" * 2000}, limit=1000)


def test_a_long_result_is_not_cut_where_a_cursor_would_lie() -> None:
    with pytest.raises(TooLarge):
        success({"items": ["x" * 90] * 1000}, limit=1000, cut=False)


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=5),
        st.lists(st.text(max_size=40), max_size=30) | st.text(max_size=40) | st.integers(-(2**53), 2**53),
        max_size=6,
    )
)
def test_no_result_is_ever_over_its_bound(payload: dict[str, Any]) -> None:
    try:
        answer = success(payload, limit=300)
    except TooLarge:
        return
    assert len(answer.text) <= 300
    found = data(answer)
    for name, items in payload.items():
        if isinstance(items, list) and name not in ("omitted", "ok", "truncated"):
            assert found[name] == items[: len(found[name])]
            assert len(items) - len(found[name]) == found.get("omitted", {}).get(name, 0)


def test_a_refusal_before_the_sdk_has_the_form_of_the_callers_era() -> None:
    error = RateLimited("wait", retry_after_ms=1200)
    status, headers, body = refusal(Envelope("tools/call", id="a", tool="echo", modern=True), error)
    modern = json.loads(body)
    assert status == 200
    assert dict(headers)[b"content-type"] == b"application/json"
    assert modern["id"] == "a"
    assert modern["result"]["isError"] is True
    assert modern["result"]["resultType"] == "complete"
    assert modern["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "graphkeep"
    legacy = json.loads(refusal(Envelope("tools/call", id=3, tool="echo"), error).body)
    assert legacy["result"].keys() == {"content", "structuredContent", "isError"}
    assert legacy["result"]["structuredContent"]["retry_after_ms"] == 1200
