from __future__ import annotations

import json
import re
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.main import get_command

from app.cli.client.variables import known
from app.cli.dev.welcome import Welcome
from app.cli.documents import env_example
from app.cli.root import commands

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "REMOTE.md", "CONTRIBUTING.md")
READ_BY_AGENTS = {"GRAPHKEEP_TOKEN"}


@dataclass(frozen=True)
class Block:
    document: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        for language, body in re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            yield Block(name, language, body)


def shell_lines() -> Iterator[tuple[str, str]]:
    for block in blocks():
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                if line.strip() and not line.lstrip().startswith("#"):
                    yield block.document, line


def parse(arguments: list[str]) -> None:
    """Let the command line itself read the arguments, without running the command."""
    command = get_command(commands)
    while hasattr(command, "commands"):
        command = command.commands[arguments[0]]
        arguments = arguments[1:]
    command.make_context("graphkeep", list(arguments))


@pytest.mark.parametrize("block", [block for block in blocks() if block.language == "json"], ids=str)
def test_a_json_block_parses_and_configures_a_server(block: Block) -> None:
    assert json.loads(block.text)["mcpServers"]["graphkeep"]


def test_every_graphkeep_command_of_the_documents_exists_with_its_options() -> None:
    found = 0
    for _, line in shell_lines():
        for marker in ("graphkeep ", "run --rm tools "):
            at = re.search(rf"(^|[/\s]){re.escape(marker)}(?=[a-z])", line)
            if at and "claude mcp" not in line and "usermod" not in line and "useradd" not in line:
                words = shlex.split(line[at.end() :], comments=True)
                if words[0] in {"tenant", "user", "token", "doctor", "dev", "serve", "stdio", "version"}:
                    parse(words)
                    found += 1
    assert found >= 10


def test_every_command_of_the_documents_table_of_contents_is_a_make_target() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set()
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        named |= set(re.findall(r"(?:^|`|&& )make ([a-z-]+)", text, re.MULTILINE))
    assert named >= {"run", "test", "test-deps", "check", "bench", "soak", "format", "lock", "docs"}
    assert named <= targets


def test_every_file_and_heading_that_is_linked_exists() -> None:
    for name in DOCUMENTS:
        for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text(encoding="utf-8")):
            if target.startswith(("http://", "https://")):
                continue
            path, _, heading = target.partition("#")
            assert (ROOT / path).exists(), f"{name} links {target}"
            if heading:
                titles = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
                assert heading in slugs


def test_every_variable_of_the_documents_is_read_somewhere() -> None:
    compose = set(re.findall(r"^#([A-Z_]+)=", env_example(), re.MULTILINE))
    for name in (*DOCUMENTS, "docker-compose.yml", "Caddyfile", "deploy/systemd/graphkeep.service"):
        used = set(re.findall(r"\bGRAPHKEEP_[A-Z_]+\b", (ROOT / name).read_text(encoding="utf-8")))
        assert used <= known() | compose | READ_BY_AGENTS | {"GRAPHKEEP_", "GRAPHKEEP_UPSTREAM"}, name


def test_the_picture_has_words_for_those_who_cannot_see_it_and_two_colour_schemes() -> None:
    picture = (ROOT / "docs" / "data-flow.svg").read_text(encoding="utf-8")
    root = ET.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findtext(f"{space}desc") or "") > 200
    assert "prefers-color-scheme: dark" in picture
    assert re.search(r"!\[[^\]]{100,}\]\(docs/data-flow\.svg\)", (ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_welcome_names_each_client_with_lines_that_work() -> None:
    https, http = "https://localhost:9443", "http://localhost:9080"
    links = {https: f"{https}/sign-in/link?token=a", http: f"{http}/sign-in/link?token=b"}
    home = Path("/srv/my home")
    welcome = Welcome(https, http, home, links, "owner@graphkeep.internal", home / "root.crt")
    words = welcome.words()
    assert f"claude mcp add --transport http graphkeep {http}/mcp" in words
    assert "NODE_EXTRA_CA_CERTS='/srv/my home/root.crt'" in words
    cursor = json.loads(re.search(r"mcp\.json: (\{.*\})", words)[1])  # type: ignore[index]
    assert cursor == {"mcpServers": {"graphkeep": {"url": f"{http}/mcp"}}}
    assert f"@modelcontextprotocol/inspector --transport http --server-url {http}/mcp" in words
    for line in (*links.values(), f"{https}/mcp", str(home / "root.crt")):
        assert line in words
    line = next(line for line in words.splitlines() if "graphkeep token create" in line)
    parse(shlex.split(line.partition("graphkeep ")[2]))
    assert welcome.line()["signin"] == links[https]
