"""Whatever people write becomes terms of letters, marks and digits."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.graph.text import LONGEST_TOKEN, QUERY_TERMS, plain_tokens, query_terms, tokens


@settings(deadline=None)
@given(st.text(max_size=300))
def test_tokens_hold_letters_marks_and_digits_alone(text):
    for token in tokens(text) + plain_tokens(text) + query_terms(text):
        assert 0 < len(token) <= LONGEST_TOKEN
        assert all(unicodedata.category(ch)[0] in "LMN" for ch in token)
        assert token not in {"AND", "OR", "NOT", "TO"}


@pytest.mark.parametrize(("query", "text"), [
    ("학교", "나는 학교에 갑니다"),
    ("हिन्दी", "मैं हिन्दी बोलता हूँ"),
    ("ข้าว", "ฉันชอบกินข้าวผัด"),
    ("東京", "東京都に住んでいます"),
    ("ベース", "データベースを作る"),
    ("北京", "我爱北京天安门"),
    ("قهوة", "أنا أحب القهوة"),
    ("cafe", "un café noir"),
    ("ελλαδα", "η Ελλάδα"),
    ("Москва", "в город москва"),
    ("painting", "She painted it"),
    ("adopt", "adopting a child"),
    ("Caroline", "Caroline's books"),
    ("C++", "I write C++ daily"),
    ("𠮷野家", "昨日𠮷野家で食べた"),
    ("u\u0308ber", "Über"),
])  # fmt: skip
def test_a_word_of_the_text_is_found_in_every_script(query, text):
    assert set(query_terms(query)) & set(tokens(text))


@settings(deadline=None)
@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=200))
def test_plain_ascii_is_cut_into_the_words_that_any_other_text_is(text):
    other = " ".join(f"{part}\u200b" for part in text.split())  # a sign without width, which is no plain one
    assert plain_tokens(other) == plain_tokens(text)
    assert plain_tokens(f"{text} \u0436's {text}") == [*plain_tokens(text), "\u0436", *plain_tokens(text)]


@settings(deadline=None)
@given(st.lists(st.text(max_size=20), max_size=5))
def test_no_word_goes_beyond_white_space(parts):
    assert plain_tokens(" ".join(parts)) == [token for part in parts for token in plain_tokens(part)]


def test_c_plus_plus_and_c_sharp_differ():
    assert set(tokens("C++")) != set(tokens("C#")) != set(tokens("C"))


def test_function_words_leave_a_query_but_not_the_index():
    assert query_terms("What did Caroline research?") == [*tokens("Caroline"), *tokens("research")]
    assert "the" in tokens("the tree")
    assert query_terms("who is who") == ["who", "is"]


def test_a_query_of_two_hundred_words_keeps_its_rarest_terms():
    terms = query_terms(
        " ".join(f"word{'x' * (place % 9)}{chr(97 + place % 26)}" for place in range(200)) + " xylophonist1"
    )
    assert len(terms) == QUERY_TERMS
    assert "xylophonist1" in terms


def test_words_beyond_the_longest_token_are_kept_in_pieces():
    assert "".join(plain_tokens("z" * 200)) == "z" * 200
