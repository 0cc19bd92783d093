"""Names of partitions in the full-text index."""

from __future__ import annotations

from app.store.partition import partition_token


def test_a_token_is_one_word_of_letters_and_digits():
    token = partition_token("d-1:ü/ *", "project:atlas")
    assert token.isalnum()
    assert token.isascii()
    assert token == token.lower()
    assert len(token) == 33


def test_no_two_partitions_share_a_token():
    pairs = [("a", ""), ("", "a"), ("a", "b"), ("ab", ""), ("", "ab"), ("b", "a")]
    assert len({partition_token(*pair) for pair in pairs}) == len(pairs)


def test_a_token_stays_the_same_for_ever():
    assert partition_token("t", "") == "p3776096e9733584bd622e7e6417b65ba"
