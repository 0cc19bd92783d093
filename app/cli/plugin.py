"""The plugin folder for Claude Code, made of the same prompts that the gateway serves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from app.cli.toolsets import every_prompt, every_resource
from app.contract import Prompt, PromptArgument

__all__ = ["files", "prompts_page", "write"]

FLAG: Final = ("no", "yes")
HOOK: Final = "command -v graphkeep >/dev/null 2>&1 && graphkeep pending || true"
"""Where the command is missing, a session begins as without the plugin."""

_README: Final = """\
# graphkeep for Claude Code

Written by `graphkeep plugin` from the prompts that the gateway serves; change those, not these files.

1. `claude --plugin-dir plugin` tries it; a marketplace installs it for good.
2. Set `GRAPHKEEP_ADDRESS` to the gateway's address (default `http://localhost:8080`). `/mcp` signs in.
3. For the line that a session begins with, the command `graphkeep` must be found: in a checkout, say
   `ln -s "$PWD/.venv/bin/graphkeep" ~/.local/bin/`. It needs a token of `graphkeep token create --scope memory:read`
   in `~/.config/graphkeep/token` (readable by you alone) or in `GRAPHKEEP_TOKEN`. Without the command or a token
   nothing is printed. The line counts conversations of this device that were not sent yet, too; `graphkeep push`
   sends them (scope `ingest:write`), and `/graph-dream` begins with that.
"""


def files() -> dict[str, str]:
    """The text of every file, by its path in the folder."""
    found = {
        ".claude-plugin/plugin.json": _json(_manifest()),
        ".mcp.json": _json(_servers()),
        "hooks/hooks.json": _json(_hooks()),
        "README.md": _README,
    }
    for prompt in every_prompt():
        found[f"skills/{prompt.skill}/SKILL.md"] = _skill(prompt)
        found[f"commands/{prompt.skill}.md"] = _command(prompt)
    return found


def write(folder: Path) -> int:
    """Write the folder; how many files it has.

    Raises:
        OSError: it cannot be written.
    """
    made = files()
    for name, text in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return len(made)


def prompts_page() -> str:
    """``docs/PROMPTS.md``: every prompt with its parameters, and what is read by address."""
    lines = [
        "# Prompts and resources",
        "",
        "Written by `make docs` from `app/memory/prompts/` and `app/memory/offered/`. An MCP client shows the prompts",
        "as commands (Claude Code: `/mcp__graphkeep__dream`); the folder `plugin/` has the same as skills.",
        "",
        "| prompt | skill | what it does | parameters |",
        "|---|---|---|---|",
    ]
    for prompt in every_prompt():
        parameters = "<br>".join(_parameter(argument) for argument in prompt.arguments)
        lines.append(f"| `{prompt.name}` | `/{prompt.skill}` | {prompt.description} | {parameters} |")
    lines += [
        "",
        "A run (`dream`, `bootstrap`, `weekly-maintenance`) holds a lease by `graph_run`, so that two devices never do",
        "one at once; one that was silent for half an hour may be gone on with on another device, where its watermarks",
        "stand. Nothing is merged or pruned unless a person asks for it.",
        "",
        "| resource | what it is |",
        "|---|---|",
        *(f"| `{resource.uri}` | {resource.description} |" for resource in every_resource()),
    ]
    return "\n".join(lines) + "\n"


def _parameter(argument: PromptArgument) -> str:
    default = f" (default {argument.default})" if argument.default else " (required)" if argument.required else ""
    return f"`{argument.name}`{default}: {argument.description}"


def _manifest() -> Mapping[str, object]:
    return {
        "name": "graphkeep",
        "version": version("graphkeep"),
        "description": "One private graph memory for you and your agents, reachable from every device.",
        "license": "MIT",
        "keywords": ["memory", "knowledge-graph", "mcp"],
    }


def _servers() -> Mapping[str, object]:
    return {"mcpServers": {"graphkeep": {"type": "http", "url": "${GRAPHKEEP_ADDRESS:-http://localhost:8080}/mcp"}}}


def _hooks() -> Mapping[str, object]:
    hook = {"type": "command", "command": HOOK, "timeout": 5}
    return {"hooks": {"SessionStart": [{"matcher": "startup|resume", "hooks": [hook]}]}}


def _skill(prompt: Prompt) -> str:
    head = [
        "---",
        f"name: {prompt.skill}",
        f"description: {json.dumps(prompt.description, ensure_ascii=False)}",
        *_hint(prompt),
        "---",
        "",
    ]
    return "\n".join([*head, *_parameters(prompt), prompt.text])


def _command(prompt: Prompt) -> str:
    head = ["---", f"description: {json.dumps(prompt.description, ensure_ascii=False)}", *_hint(prompt), "---", ""]
    return "\n".join([*head, f"Follow the skill `{prompt.skill}`. Arguments: $ARGUMENTS", ""])


def _hint(prompt: Prompt) -> list[str]:
    words = " ".join(_option(argument) for argument in prompt.arguments)
    return [f"argument-hint: {json.dumps(words)}"] if words else []


def _option(argument: PromptArgument) -> str:
    flag = f"--{argument.name.replace('_', '-')}"
    if argument.values == FLAG:
        return f"[{flag}]"
    shown = "|".join(argument.values) or argument.name
    return f"<{shown}>" if argument.required else f"[{flag} <{shown}>]"


def _parameters(prompt: Prompt) -> Iterator[str]:
    if not prompt.arguments:
        return
    yield "Parameters, from what follows the command (`$ARGUMENTS`):"
    for argument in prompt.arguments:
        yield f"- {_parameter(argument)} As {_option(argument)}."
    yield ""


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
