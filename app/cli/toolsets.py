"""Every toolset's tools, prompts and resources, in one order: what the documents and the local commands list."""

from __future__ import annotations

from app.contract import Prompt, Resource, Tool

__all__ = ["every_prompt", "every_resource", "every_tool"]


def every_tool() -> tuple[Tool, ...]:
    """All tools of this version."""
    from app.ingest.tools import TOOLS as INGEST
    from app.memory.tools import TOOLS as MEMORY

    return (*MEMORY, *INGEST)


def every_prompt() -> tuple[Prompt, ...]:
    """All prompts of this version, worded as the defaults have it."""
    from app.memory.prompts.loading import prompts, worded
    from app.settings import MemorySettings

    return tuple(worded(prompt, MemorySettings.model_construct()) for prompt in prompts())


def every_resource() -> tuple[Resource, ...]:
    """All resources of this version."""
    from app.memory.offered.resources import RESOURCES

    return RESOURCES
