"""Text as the tokens that graphkeep indexes and queries: letters, marks and digits of every script, nothing else.

The full-text index takes white space as the only boundary, so whatever this module emits is a term, and nothing that
a caller writes reaches the query parser of the engine.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from icu4py.breakers import WordBreaker

__all__ = ["LONGEST_TOKEN", "QUERY_TERMS", "plain_tokens", "query_terms", "stem", "tokens"]

LONGEST_TOKEN: Final = 64
"""Characters of a token; longer words are cut into pieces of this length, in the index and in queries alike."""

QUERY_TERMS: Final = 32
"""Terms of a query at most; the ones that are likely to be rare are kept."""

_LONGEST_TEXT: Final = 1_000_000
_SHORT: Final = 32
"""Characters of what stands between white space and is met again and again, as "they've" is."""
_HAN_KANA: Final = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_HANGUL: Final = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"
_UNSPACED: Final = re.compile(f"[{_HAN_KANA}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff]")
_PAIRED: Final = re.compile(f"[{_HAN_KANA}{_HANGUL}]+\\Z")
_HANGUL_PAIR: Final = re.compile(f"[{_HANGUL}]{{2}}\\Z")
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+\Z")
_PLAIN_WORDS: Final = re.compile(f"[a-z0-9]{{1,{LONGEST_TOKEN}}}")
_MEANT: Final = re.compile("['+#]")
"""Signs of ASCII that may belong to a word."""
_ARABIC: Final = re.compile("[\u0600-\u06ff]")
_ARABIC_MARKS: Final = re.compile("[\u0610-\u061a\u0640\u064b-\u065f\u0670]")
_ARABIC_LETTERS: Final = str.maketrans({"\u0623": "\u0627", "\u0625": "\u0627", "\u0622": "\u0627", "\u0649": "\u064a"})
_ARABIC_ARTICLE: Final = re.compile(
    "(?:[\u0648\u0641]?(?:\u0627\u0644|\u0628\u0627\u0644|\u0643\u0627\u0644|\u0644\u0644))(?=...)"
)
_LATIN_GREEK: Final = re.compile("[a-z\u00df-\u024f\u0370-\u03ff\u1e00-\u1fff]")
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
_CONTRACTIONS: Final = frozenset({"s", "t", "re", "ve", "ll", "d", "m"})
_SPOKEN_SYMBOLS: Final = {"+": "plus", "#": "sharp"}

_FUNCTION_WORDS: Final = frozenset(
    """
    a about above after again against all am an and any are aren arent as at be because been before being below
    between both but by can cannot cant could couldn couldnt did didn didnt do does doesn doesnt doing don dont
    down during each either else ever few for from further get gets getting give given go goes going gone got
    had hadn has hasn hasnt have haven having he her here hers herself him himself his how however i id if ill
    im in into is isn isnt it its itself ive just let lets like ll many may me might more most much must my
    myself no nor not of off on once one only or other ought our ours out over own per please re s same shall
    she should shouldn so some such t than that thats the their theirs them themselves then there these they
    theyre this those though through thus to too under until up upon us ve very was wasn wasnt we well were
    weren what whats when where whether which while who whom whose why will with within without won wont would
    wouldn wouldnt yet you your yours yourself yourselves
    """.split()  # noqa: SIM905 (a list of 200 quoted words reads worse)
)


def plain_tokens(text: str) -> list[str]:
    """Tokens without stemming, in order: what ``names`` holds, and what a fuzzy match compares."""
    return [token for token in _words(text) if token]


def tokens(text: str) -> list[str]:
    """Tokens as they are indexed, in order: casefolded, NFKC, lightly stemmed, each at most ``LONGEST_TOKEN``."""
    return [stem(token) for token in _words(text) if token]


def query_terms(text: str, limit: int = QUERY_TERMS) -> list[str]:
    """The distinct terms of a query, function words dropped unless nothing else is left, at most ``limit``.

    Where more are left, those most likely to be rare stay: long ones and ones with digits, earlier before later.
    """
    said = plain_tokens(text[:_LONGEST_TEXT])
    kept = [token for token in said if token not in _FUNCTION_WORDS] or said
    distinct = list(dict.fromkeys(stem(token) for token in kept))
    if len(distinct) <= limit:
        return distinct
    order = {term: place for place, term in enumerate(distinct)}
    rare = sorted(distinct, key=lambda term: (-len(term) - 4 * any(map(str.isdigit, term)), order[term]))[:limit]
    return sorted(rare, key=order.__getitem__)


def _words(text: str) -> Iterator[str]:
    text = text[:_LONGEST_TEXT]
    for part in [text] if _is_plain(text) else text.split():  # no word goes beyond white space
        if _is_plain(part):
            yield from _PLAIN_WORDS.findall(part.lower())  # as _spelt_words, in a twentieth of the time
        elif len(part) <= _SHORT:
            yield from _short_words(part)
        else:
            yield from _spelt_words(part)


def _is_plain(text: str) -> bool:
    return text.isascii() and not _MEANT.search(text)


@lru_cache(maxsize=16_384)
def _short_words(text: str) -> tuple[str, ...]:
    return tuple(_spelt_words(text))


def _spelt_words(text: str) -> Iterator[str]:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    for word, apostrophe, symbols in _runs(folded):
        for piece in _segments(word):
            yield from _forms(piece)
        if apostrophe and apostrophe not in _CONTRACTIONS:
            yield from _forms(apostrophe)
        if symbols:
            spoken = word + "".join(_SPOKEN_SYMBOLS.get(ch, f"u{ord(ch):x}") for ch in symbols)
            yield spoken[:LONGEST_TOKEN]


def _runs(text: str) -> Iterator[tuple[str, str, str]]:
    """Words as (letters, what follows an apostrophe, symbols that belong to the word or stand alone)."""
    word: list[str] = []
    symbols: list[str] = []
    after: list[str] | None = None
    for ch in f"{text} ":
        category = unicodedata.category(ch)
        if category[0] in "LMN":
            if symbols:
                yield "".join(word), "".join(after or ()), "".join(symbols)
                word, symbols, after = [], [], None
            (word if after is None else after).append(ch)
        elif category == "Cf":
            continue
        elif ch in "'\u2019" and word and after is None and not symbols:
            after = []
        elif (ch in _SPOKEN_SYMBOLS and word and len(symbols) < 4) or category == "So":
            symbols.append(ch)
        else:
            if word or symbols:
                yield "".join(word), "".join(after or ()), "".join(symbols[:4])
            word, symbols, after = [], [], None


def _segments(word: str) -> Iterator[str]:
    """A run of letters as words: scripts written without spaces are segmented by ICU's dictionaries."""
    if word.isascii() or not _UNSPACED.search(word):
        if word:
            yield word
        return
    # ICU counts UTF-16 units, Python code points.
    units = word.encode("utf-16-le", "surrogatepass")
    text = word if len(units) == 2 * len(word) else "".join(ch if ch <= "\uffff" else "\u4e00" for ch in word)
    for start, end in WordBreaker(text, "und").segments():
        yield word[start:end]


def _forms(word: str) -> Iterator[str]:
    """The tokens of one word: itself, in pieces if long; for Han, Kana and Hangul its pairs of characters too.

    Pairs find a word inside a longer one and a Korean noun before its particle.
    """
    word = _folded(word)
    if _PAIRED.match(word) and len(word) > 2:
        for start in range(min(len(word), 200) - 1):
            yield word[start : start + 2]
    if len(word) == 2 and _HANGUL_PAIR.match(word):
        yield word[0]
    for start in range(0, len(word), LONGEST_TOKEN):
        yield word[start : start + LONGEST_TOKEN]


def _folded(word: str) -> str:
    if word.isascii():
        return word
    if _ARABIC.search(word):
        bare = _ARABIC_MARKS.sub("", word).translate(_ARABIC_LETTERS)
        return _ARABIC_ARTICLE.sub("", bare, count=1) if _ARABIC_ARTICLE.match(bare) else bare
    if _LATIN_GREEK.search(word):
        return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", word)))
    return word


_DOUBLED: Final = re.compile(r"([bdfgmnprt])\1\Z")
_VOWEL: Final = re.compile("[aeiouy]")
_ENDINGS: Final = (
    ("ational", "ate"), ("ization", "ize"), ("isation", "ize"), ("fulness", "ful"), ("ousness", "ous"),
    ("iveness", "ive"), ("ements", "e"), ("ement", "e"), ("ments", ""), ("ment", ""), ("nesses", ""), ("ness", ""),
    ("ingly", ""), ("edly", ""), ("ations", "ate"), ("ation", "ate"), ("ators", "ate"), ("ator", "ate"),
)  # fmt: skip


@lru_cache(maxsize=65_536)
def stem(token: str) -> str:
    """A light English stem: plural, past and progressive endings, adverbs and the commonest nouns made of verbs."""
    if len(token) < 4 or not _ASCII_WORD.match(token) or token[-1].isdigit():
        return token
    word = _singular(token)
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            word = word[: -len(ending)] + instead
            break
    word = _verb(word)
    if word.endswith("ly") and len(word) >= 6:
        word = word[:-2]
    if word.endswith("y") and len(word) > 3 and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _singular(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _verb(word: str) -> str:
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) >= 3 and _VOWEL.search(base):
            return base[:-1] if _DOUBLED.search(base) else base
    return word
