"""Names that may stand in a request, and what their endings stand for."""

from __future__ import annotations

import pytest

from app.errors import InvalidInput
from app.ingest.names import Way, file_type, name_of_address, session_file


@pytest.mark.parametrize(
    "name", ["notes.md", "Übersicht 2026.PDF", "日本.txt", "a.b.jsonl", "c++.md", "x" * 190 + ".md"]
)
def test_plain_names_are_taken_in_any_script(name: str) -> None:
    assert file_type(name).ending == name[name.rfind(".") :].lower()


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", ".", "..", ".md", ".hidden.md", "a.md ", " a.md", "a.md.", "a/b.md", "a\\b.md", "/etc/a.md"),
        *("../a.md", "a\x00.md", "a\n.md", "a\x7f.md", "a\u202e.md", "a\ud800.md", "a:b.md", "a?.md", "a*.md", 'a".md'),
        *("con.md", "NUL.txt", "com1.md", "Lpt9.json", "CONIN$.md", "x" * 300 + ".md", "é" * 120 + ".md"),
        *("a", "a.exe", "a.doc", "a.md.exe", "a.tar.gz", "Makefile"),
    ],
)
def test_what_leads_elsewhere_or_cannot_be_stored_everywhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        file_type(name)


def test_endings_say_how_text_is_made() -> None:
    ways = {ending: file_type(f"a{ending}").way for ending in (".md", ".vtt", ".pdf", ".jsonl", ".png", ".html")}
    assert ways == {
        ".md": Way.TEXT,
        ".vtt": Way.CONVERT,
        ".pdf": Way.CONVERT,
        ".jsonl": Way.TRANSCRIPT,
        ".png": Way.CONVERT,
        ".html": Way.CONVERT,
    }


def test_a_session_names_its_file() -> None:
    assert session_file("s-1") == session_file("s-1.jsonl") == "s-1.jsonl"


@pytest.mark.parametrize(
    ("path", "content_type", "name"),
    [
        ("/", "text/html; charset=utf-8", "a.example.html"),
        ("/docs/", "application/xhtml+xml", "a.example.html"),
        ("/article", "Text/HTML", "article.html"),
        ("/v2.1", "text/html", "v2.1.html"),
        ("/a.md", "text/plain", "a.md"),
        ("/a.md", "", "a.md"),
        ("/read%20me", "text/plain", "read me.txt"),
        ("/%E6%97%A5", "text/markdown", "日.md"),
        ("/..%2Fa%00", "application/json", "-a-.json"),
        ("/.htaccess", "text/plain", "htaccess.txt"),
        ("/con", "text/html", "a.example.html"),
        ("/feed", "application/rss+xml", "feed.xml"),
        ("/api", "application/ld+json", "api.json"),
        ("/a.docx", "application/zip", "a.docx"),
        ("/a.JPEG", "image/jpg", "a.jpeg"),
        ("/" + "ä" * 200, "text/html", "ä" * 75 + ".html"),
    ],
)
def test_an_address_and_a_type_give_a_name(path: str, content_type: str, name: str) -> None:
    found = name_of_address(f"https://a.example{path}", content_type)
    assert found == name
    file_type(found)
