"""Writes the documents that derive from the code: ``python -m app.cli.documents``. A test compares them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from app.cli import plugin
from app.cli.client.old_variables import OLD_VARIABLES
from app.cli.client.variables import Variable, variables
from app.config_file import BEHAVIOUR, IN_ONE, KEYS, bounds
from app.settings import LimitSettings, MemorySettings

__all__ = ["PAGES", "env_example", "half_lives", "main", "settings_page", "tools_page"]

_COMPOSE_VARIABLES: Final = (
    ("GRAPHKEEP_DOMAIN", "", "Name of the public host; docker-compose.yml and the Caddyfile read it."),
    ("GRAPHKEEP_ACME_EMAIL", "", "Address for notices of the certificate authority."),
    ("GRAPHKEEP_NOTES", "./notes", "Folder of notes, mounted read-only."),
    ("GRAPHKEEP_BIND_ADDR", "", "Private address to publish on, with deploy/compose.private.yml."),
    ("NEO4J_HEAP", "1g", "Heap of the database's container."),
    ("NEO4J_PAGECACHE", "512m", "Page cache of the database's container."),
    ("NEO4J_MEM_LIMIT", "4g", "Memory limit of the database's container; it has no swap beyond it."),
    ("GATEWAY_MEM_LIMIT", "2g", "Memory limit of the gateway's container."),
    ("BOLT_BIND_ADDR", "127.0.0.1", "Address at which the database's container publishes Bolt."),
    ("AGENT_NETWORK", "graphkeep-agents", "Docker network that agents share with the gateway."),
    ("AGENT_NETWORK_EXTERNAL", "false", "`true`: join that network instead of making it."),
)


def env_example() -> str:
    """``.env.example``: every setting as a comment, with its default."""
    lines = [
        "# Settings of graphkeep: copy to .env and uncomment what you change. Written by `make docs`.",
    ]
    for room, group in groupby(variables(), key=lambda variable: variable.room_words):
        lines += ["", f"# == {room}"]
        for variable in group:
            lines += [f"# {variable.words}", f"#{variable.name}={_default(variable)}"]
    lines += ["", "# == Read by docker-compose.yml and the Caddyfile only"]
    for name, default, words in _COMPOSE_VARIABLES:
        lines += [f"# {words}", f"#{name}={default}"]
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """``docs/SETTINGS.md``: every setting, and what became of the variables of older systems."""
    lines = [
        "# Settings",
        "",
        "Written by `make docs` from `app/settings`. A setting is an environment variable, or a line in a",
        "file `.env` in the folder where graphkeep is started. A misspelt `GRAPHKEEP_` variable is named in a warning",
        "when a command starts.",
    ]
    for (room, words), group in groupby(variables(), key=lambda variable: (variable.room, variable.room_words)):
        lines += [
            "",
            f"## {room.removesuffix('Settings')}: {words}",
            "",
            "| variable | default | what it does |",
            "|---|---|---|",
        ]
        for variable in group:
            also = f" (also {', '.join(f'`{alias}`' for alias in variable.aliases)})" if variable.aliases else ""
            lines.append(f"| `{variable.name}`{also} | {_code(_default(variable))} | {_cell(variable.words)} |")
    lines += [
        "",
        "## Half-lives",
        "",
        "How fast `graph_decay` lets things fade, by the defaults above: what is left after a day, and after how many",
        "days half of it is left. Confidence of entities counts from when they were last seen, the weight of relations",
        "from when they were last confirmed. Nothing falls below 0.01; rules (subtype `rule`) and theirs stay.",
        "",
        "| what | left after a day | half-life, days |",
        "|---|---|---|",
        *(f"| {what} | {rate} | {days:.0f} |" for what, rate, days in half_lives()),
        "",
        "## Containers",
        "",
        "Read by `docker-compose.yml` and the `Caddyfile`, not by the gateway.",
        "",
        "| variable | default | what it does |",
        "|---|---|---|",
        *(f"| `{name}` | {_code(default)} | {_cell(words)} |" for name, default, words in _COMPOSE_VARIABLES),
        "",
        "## config.json",
        "",
        "A file `config.json` in the home folder, as the graph-memory server kept it, counts below the environment.",
        "What cannot be read, is out of range or sets nothing here is said in a warning and costs no start. What is",
        "marked can differ by tenant: `graphkeep tenant behaviour NAME --set query.default_limit=50`; every gateway",
        "follows within 5 seconds. The schemas of the tools go on naming the defaults of this table.",
        "",
        "| key | from | to | default | by tenant | here |",
        "|---|---|---|---|---|---|",
        *_file_keys(),
        "| `decay.rates.<Type>` | 0.001 | 1 | | • | `GRAPHKEEP_DECAY_RATES` |",
        "",
        "## Variables of older systems",
        "",
        "| variable | here | |",
        "|---|---|---|",
    ]
    for old in OLD_VARIABLES:
        lines.append(f"| `{old.name}` | {f'`{old.became}`' if old.became else 'not read'} | {_cell(old.words)} |")
    return "\n".join(lines) + "\n"


def half_lives() -> list[tuple[str, float, float]]:
    """(what, rate, half-life in days) of everything that fades, as the defaults have it."""
    memory = MemorySettings.model_construct()
    rates = [*memory.rates.items(), ("other types", memory.decay_other_rate), ("relations", memory.decay_edge_rate)]
    return [(what, rate, math.log(0.5) / math.log(rate)) for what, rate in rates]


def _file_keys() -> Iterator[str]:
    for key, field in KEYS.items():
        room = MemorySettings if key in BEHAVIOUR else LimitSettings
        within, variable = bounds(room, key), _variable(field)
        default = variable.default * IN_ONE.get(key, 1)
        own = "•" if key in BEHAVIOUR else ""
        most = "" if math.isinf(within.most) else f"{within.most:g}"
        yield f"| `{key}` | {within.least:g} | {most} | {default:g} | {own} | `{variable.name}` |"


def _variable(field: str) -> Variable:
    return next(variable for variable in variables() if variable.field == field)


def tools_page() -> str:
    """``docs/TOOLS.md``: every tool of the registry with its inputs, scope and cost."""
    from app.cli.toolsets import every_tool

    lines = [
        "# Tools",
        "",
        "Written by `make docs` from the registry. Success carries `ok: true`; a failure that a caller can act on",
        "is `{ok: false, reason, message, retryable, outcome, retry_after_ms?}`, where `outcome` says whether anything",
        "was applied. [MEMORY.md](MEMORY.md) says which tool is for what.",
        "",
        "`cost` is what a call takes from the bucket of its tenant and client (by default 20 at once, 120 a minute). A",
        "call begins when 5 of its tokens are there, and what it costs beyond is owed: one over the whole graph is",
        "possible beside others, and the next call waits until that is paid. `deadline` is its class",
        "([DESIGN.md](DESIGN.md#8-numbers)). A connection has the tools that its scopes allow.",
        "",
        "| tool | what for | scope | cost | deadline | reads only |",
        "|---|---|---|---|---|---|",
    ]
    tools = every_tool()
    lines += (
        f"| [`{tool.name}`](#{tool.name}) | {_cell(tool.title)} | `{tool.scope}` | {int(tool.cost)} "
        f"| {tool.deadline.value} | {'yes' if tool.read_only else 'no'} |"
        for tool in tools
    )
    for tool in tools:
        lines += ["", f"## {tool.name}", "", tool.description.strip(), ""]
        if tool.operators_only:
            lines += [f"For operators. Everyone else: {tool.instead}", ""]
        schema = tool.input.model_json_schema()
        lines += ["| argument | type | |", "|---|---|---|", *_arguments(schema, schema)]
    return "\n".join(lines) + "\n"


def _arguments(part: Mapping[str, Any], schema: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """A row for each field of ``part`` of the schema, and below it those of the objects that it holds."""
    required = set(part.get("required", ()))
    for name, rule in part.get("properties", {}).items():
        words = _cell(str(rule.get("description", "")))
        default = rule.get("default")
        if default is not None:
            words = f"{words} Default {_code(json.dumps(default))}.".strip()
        yield f"| `{within}{name}`{'' if name in required else ' (optional)'} | {_type(rule, schema)} | {words} |"
        held, many = _held(rule, schema)
        yield from _arguments(held, schema, f"{within}{name}{many}.")


def _held(rule: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """What the field holds, or each item of its list; then ``[]`` stands behind its name."""
    rule = _plain(rule, schema)
    if rule.get("type") != "array":
        return rule, ""
    held, many = _held(rule.get("items", {}), schema)
    return held, f"[]{many}"


def _plain(rule: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rule without reference and without null."""
    if "$ref" in rule:
        return _plain(schema["$defs"][rule["$ref"].rsplit("/", 1)[-1]], schema)
    if "anyOf" in rule:
        return _plain(next(option for option in rule["anyOf"] if option.get("type") != "null"), schema)
    return rule


def _type(rule: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    rule = _plain(rule, schema)
    if "enum" in rule:
        return " or ".join(f"`{value}`" for value in rule["enum"])
    if rule.get("type") == "array":
        return f"list of {_type(rule.get('items', {}), schema)}"
    return str(rule.get("type", "any"))


def _default(variable: Variable) -> str:
    value = variable.default
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES: Final = {
    ".env.example": env_example,
    "docs/SETTINGS.md": settings_page,
    "docs/TOOLS.md": tools_page,
    "docs/PROMPTS.md": plugin.prompts_page,
}


def main() -> None:
    """Write each page, and the plugin folder, into the checkout."""
    root = Path(__file__).resolve().parents[2]
    for name, write in PAGES.items():
        (root / name).write_text(write(), encoding="utf-8")
    plugin.write(root / "plugin")


if __name__ == "__main__":
    main()
