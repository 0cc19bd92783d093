"""Faults 15 and 24: no text is invisible to search, and no argument chooses what a query is made of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway import LEGACY, MODERN, Gateway

SENTENCES = {
    "Korean": ("서울에서 고양이를 키웁니다", "고양이"),
    "Japanese": ("昨日は図書館で本を読みました", "図書館"),
    "Chinese": ("我们明天去博物馆参观", "博物馆"),
    "Thai": ("เมื่อวานเราไปตลาดน้ำ", "ตลาดน้ำ"),
    "Hindi": ("मेरी बहन दिल्ली में रहती है", "दिल्ली"),
    "Arabic": ("تعمل أختي في المستشفى الكبير", "المستشفى"),
    "Russian": ("Мы купили старую мельницу", "мельницу"),
    "Greek": ("Η θάλασσα ήταν ήρεμη", "θάλασσα"),
    "Hebrew": ("הספרייה נפתחת מחר", "הספרייה"),
    "Vietnamese, combining marks": ("Chúng tôi ăn phở ở Hà Nội", "phở"),
}


async def kept(gateway: Gateway, name: str, text: str) -> None:
    async with gateway.client(timeout=120) as client:
        fact: dict[str, Any] = {"name": name, "type": "Fact", "properties": {"content": text}}
        said = await gateway.insist(client, "graph_relate", {"batch": {"entities": [fact]}})
        assert said["ok"], said


async def found(gateway: Gateway, word: str) -> set[str]:
    """Names that a search and the catalogue both find."""
    async with gateway.client(timeout=120) as client:
        searched = await gateway.insist(client, "graph_search", {"query": word})
        listed = await gateway.insist(client, "graph_entities", {"search": word}, era=LEGACY)
    return {seed["name"] for seed in searched["seeds"]} & {entity["name"] for entity in listed["entities"]}


async def test_a_word_at_character_nine_thousand_is_found(gateway: Gateway) -> None:
    filler = " ".join(f"filler{number % 700}" for number in range(1000))
    text = f"{filler[:9000]} quokka {filler[:20_000]}"
    assert text.index("quokka") > 9000
    await kept(gateway, "A long report", text)
    assert "A long report" in await found(gateway, "quokka")


@pytest.mark.parametrize("language", SENTENCES)
async def test_one_word_of_any_script_finds_its_sentence(gateway: Gateway, language: str) -> None:
    sentence, word = SENTENCES[language]
    await kept(gateway, f"A sentence in {language}", sentence)
    assert f"A sentence in {language}" in await found(gateway, word)


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize("field", ["name; MATCH (n) DETACH DELETE n", "n.embedding", "tenant", "NAME", "", "name DESC"])
async def test_a_sort_field_is_one_of_the_list(gateway: Gateway, era: str, field: str) -> None:
    async with gateway.client() as client:
        said = await gateway.insist(client, "graph_entities", {"sort_by": field}, era=era)
    assert said["reason"] == "invalid_input", said
    assert "sort_by" in said["message"]
    assert "confidence" in said["message"]
