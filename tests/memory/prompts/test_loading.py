"""What the prompts say is what the tools are: one truth."""

from __future__ import annotations

import re

import pytest

from app.cli.toolsets import every_prompt, every_tool
from app.context import SCOPES
from app.contract import Prompt, Tool
from app.memory.prompts.loading import parse
from app.protocol.registry import Registry

TOOLS = {tool.name: tool for tool in every_tool()}
PROMPTS = {prompt.name: prompt for prompt in every_prompt()}
REGISTRY = Registry(TOOLS.values())

CALL = re.compile(r"`((?:graph|semantic|document)_[a-z_]+)\(([^`]*)\)`")
MENTION = re.compile(r"`((?:graph)_[a-z_]+)`")


def _calls(prompt: Prompt) -> list[tuple[str, list[str]]]:
    return [
        (name, [part.strip() for part in " ".join(arguments.split()).split(",") if part.strip()])
        for name, arguments in CALL.findall(prompt.text)
    ]


def test_the_prompts_are_those_of_the_contract() -> None:
    """Contract §15 and §16: each of the source's commands is a prompt."""
    assert set(PROMPTS) == {
        *("dream", "bootstrap", "weekly-maintenance", "weekly-analysis", "capture", "graph", "graph-ask"),
        *("graph-stats", "graph-find", "graph-boost", "graph-briefing", "graph-backup", "ingest", "ingest-audio"),
    }
    assert len({prompt.skill for prompt in PROMPTS.values()}) == len(PROMPTS)


@pytest.mark.parametrize("name", PROMPTS)
def test_every_tool_and_argument_that_a_prompt_names_exists(name: str) -> None:
    """W-M33: prompts, skills and tools of the source had drifted apart."""
    prompt = PROMPTS[name]
    assert _calls(prompt), "a prompt leads to tools"
    for tool_name, arguments in _calls(prompt):
        schema = REGISTRY.input_schema(tool_name)
        assert schema is not None, tool_name
        for argument in arguments:
            key, _, value = argument.partition("=")
            assert key in schema["properties"], f"{tool_name}({argument})"
            allowed = schema["properties"][key].get("enum")
            assert not value or allowed is None or value in allowed, f"{tool_name}({argument})"
    assert set(MENTION.findall(prompt.text)) <= set(TOOLS)


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_uses_each_of_its_arguments_and_reaches_no_further_than_its_scope(name: str) -> None:
    prompt = PROMPTS[name]
    assert prompt.scope in SCOPES
    for argument in prompt.arguments:
        assert f"`{argument.name}`" in prompt.text or re.search(rf"\b{argument.name}\b", prompt.text), argument.name
        assert argument.default in ("", *argument.values) or not argument.values
    writes = {tool.name for tool, _ in _with(prompt) if not tool.read_only}
    # graph-find and graph-ask name one writing or operators' tool beside the way without it.
    assert not writes or prompt.scope == "memory:write" or name == "graph-find"


def _with(prompt: Prompt) -> list[tuple[Tool, list[str]]]:
    return [(TOOLS[name], arguments) for name, arguments in _calls(prompt)]


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_holds_nobodys_data(name: str) -> None:
    """W-M33: personal data was left in a shipped skill."""
    text = PROMPTS[name].text
    assert re.search(r"[\w.]+@[\w.]+\.\w+", text) is None
    assert re.search(r"(/home/|/Users/|[A-Z]:\\)", text) is None
    assert len(text) < 12_000


def test_runs_take_the_lease_and_give_it_back_and_never_merge() -> None:
    """W-M30, and decisions: no automatic pruning or merging."""
    for name in ("dream", "bootstrap", "weekly-maintenance", "capture"):
        actions = [arguments[0] for tool, arguments in _calls(PROMPTS[name]) if tool == "graph_run"]
        assert {"action=begin", "action=finish"} <= set(actions)
        assert "graph_merge" not in {tool for tool, _ in _calls(PROMPTS[name])}
    for name in ("dream", "bootstrap", "capture"):
        text = PROMPTS[name].text
        assert "graph_prune" not in text
        assert all(weight in text for weight in ("0.7", "0.5", "0.3"))
        assert "never an instruction" in text
    assert "graph_prune(mode=execute" in PROMPTS["weekly-maintenance"].text
    assert {"prune": "no"}.items() <= {
        argument.name: argument.default for argument in PROMPTS["weekly-maintenance"].arguments
    }.items()


def test_a_file_without_its_head_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with TOML"):
        parse("x", "# no head")
    with pytest.raises(ValueError, match="begins with TOML"):
        parse("x", "+++\ntitle = 'x'\n")
