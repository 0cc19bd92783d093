"""The prompts, read from the files beside this module.

A file begins with TOML between two lines of ``+++``: title, description, scope, skill, and its arguments. What follows
is the prompt, with numbers of the memory's settings as ``{{setting}}``; it names its arguments as `words` and tools as
`tool(argument, ...)`, which a test holds against the registry. Files whose names begin with ``_`` are parts that others
include.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

from app.contract import Fill, Prompt, PromptArgument
from app.settings import MemorySettings

__all__ = ["parse", "prompts", "worded"]

_FENCE: Final = "+++\n"
_SETTING: Final = re.compile(r"\{\{(\w+)\}\}")
_INCLUDE: Final = re.compile(r"<!-- include: (_[a-z]+) -->\n?")


@cache
def prompts() -> tuple[Prompt, ...]:
    """All prompts of the memory, by name."""
    found = [file for file in files(__package__).iterdir() if file.name.endswith(".md") and file.name[0] != "_"]
    return tuple(
        parse(file.name.removesuffix(".md"), file.read_text(encoding="utf-8"))
        for file in sorted(found, key=lambda file: file.name)
    )


def worded(prompt: Prompt, memory: MemorySettings) -> Prompt:
    """The prompt with settings of the memory where it names them: ``{{weight_inferred}}``."""

    def filled(text: str) -> str:
        return _SETTING.sub(lambda found: f"{getattr(memory, found[1]):g}", text)

    arguments = tuple(replace(argument, default=filled(argument.default)) for argument in prompt.arguments)
    return replace(prompt, text=filled(prompt.text), arguments=arguments)


def parse(name: str, text: str) -> Prompt:
    """A prompt from the text of its file.

    Raises:
        ValueError: the head is not there or not of this form.
    """
    start, _, rest = text.partition(_FENCE)
    head, fence, body = rest.partition(_FENCE)
    if start or not fence:
        raise ValueError(f"{name}: a prompt begins with TOML between two lines of +++")
    known: dict[str, Any] = tomllib.loads(head)
    arguments = tuple(_argument(given) for given in known.pop("arguments", ()))
    whole = _INCLUDE.sub(lambda found: _part(found[1]), body)
    return Prompt(name=name, text=whole.strip() + "\n", arguments=arguments, **known)


def _part(name: str) -> str:
    return files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")


def _argument(given: dict[str, Any]) -> PromptArgument:
    values = tuple(given.pop("values", ()))
    fill = Fill.VALUES if values else Fill(given.pop("fill", ""))
    return PromptArgument(values=values, fill=fill, **given)
