"""One truth: registry, README, plugin manifest, shipped skills and prompts."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import yaml

from app.cli.plugin import HOOK, files, write
from app.cli.toolsets import every_prompt, every_tool

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugin"


def test_the_shipped_folder_is_what_the_prompts_say() -> None:
    """Decisions, one truth; W-M33: skills and prompts of the source had drifted apart."""
    shipped = {str(path.relative_to(PLUGIN)): path.read_text("utf-8") for path in PLUGIN.rglob("*") if path.is_file()}
    assert shipped == files(), "write it again: make docs"


def test_every_prompt_has_a_skill_and_a_command_and_none_has_more() -> None:
    made = files()
    skills = {prompt.skill for prompt in every_prompt()}
    assert {name.split("/")[1] for name in made if name.startswith("skills/")} == skills
    assert {Path(name).stem for name in made if name.startswith("commands/")} == skills
    assert {"graph-dream", "graph-bootstrap", "graph-capture", "graph", "ingest", "ingest-audio"} <= skills


def test_a_skill_has_the_words_of_its_prompt_and_a_head_that_parses() -> None:
    made = files()
    for prompt in every_prompt():
        _, head, body = made[f"skills/{prompt.skill}/SKILL.md"].split("---\n", 2)
        assert yaml.safe_load(head)["name"] == prompt.skill
        assert yaml.safe_load(head)["description"] == prompt.description
        assert body.endswith(prompt.text)
        for argument in prompt.arguments:
            assert f"`{argument.name}`" in body


def test_manifest_server_and_hook_are_of_the_form_that_claude_code_reads() -> None:
    made = files()
    manifest = json.loads(made[".claude-plugin/plugin.json"])
    assert (manifest["name"], manifest["version"]) == ("graphkeep", version("graphkeep"))
    assert json.loads(made[".mcp.json"])["mcpServers"]["graphkeep"]["url"].endswith("/mcp")
    hook = json.loads(made["hooks/hooks.json"])["hooks"]["SessionStart"][0]["hooks"][0]
    assert (hook["type"], hook["command"]) == ("command", HOOK)


def test_the_hook_is_silent_where_the_command_is_missing() -> None:
    done = subprocess.run(["/bin/sh", "-c", HOOK], env={"PATH": ""}, capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_readme_names_the_prompts_and_no_tool_that_does_not_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.split("## Prompts and skills", 1)[1].split("\n## ", 1)[0]
    named = set(re.findall(r"`([a-z-]+)`", section))
    assert {prompt.name for prompt in every_prompt()} <= named
    assert set(re.findall(r"\bgraph_[a-z_]+", text)) <= {tool.name for tool in every_tool()}


def test_the_folder_is_written_where_asked(tmp_path: Path) -> None:
    assert write(tmp_path / "there") == len(files())
    assert (tmp_path / "there" / "skills" / "graph" / "SKILL.md").exists()
