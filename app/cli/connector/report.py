"""What the doctor found, step by step."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2

__all__ = ["NotTried", "Report", "Step", "Trouble"]

State = Literal["ok", "failed", "not tried"]


class Trouble(Exception):
    """A step failed: what was seen, and what to change."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy


class NotTried(Exception):
    """A step could not be taken; ``args[0]`` says why. The life goes on."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the life. ``remedy`` says what to change where it failed."""

    step: str
    state: State
    detail: str
    remedy: str = ""
    milliseconds: int = 0


@dataclass(slots=True)
class Report:
    """The steps so far. After the first failure nothing more is tried: what follows would fail for the same reason."""

    url: str
    steps: list[Step] = field(default_factory=list)

    @property
    def failed(self) -> Step | None:
        """The step that failed."""
        return next((step for step in self.steps if step.state == "failed"), None)

    @property
    def complete(self) -> bool:
        """Whether every step was taken, and none failed."""
        return all(step.state == "ok" for step in self.steps)

    async def take(self, name: str, action: Callable[[], Awaitable[str]]) -> None:
        """Take one step; ``action`` answers what it saw."""
        if self.failed is not None:
            self.steps.append(Step(name, "not tried", f"after {self.failed.step!r} had failed"))
            return
        began = time.perf_counter()
        try:
            found = ("ok", await action(), "")
        except Trouble as trouble:
            found = ("failed", trouble.detail, trouble.remedy)
        except NotTried as reason:
            found = ("not tried", str(reason), "")
        except (httpx2.HTTPError, OSError) as error:
            found = (
                "failed",
                f"no answer ({type(error).__name__}: {error})",
                "Check that the gateway and the proxy before it run, and that no firewall stands between.",
            )
        state, detail, remedy = found
        self.steps.append(Step(name, state, detail, remedy, round((time.perf_counter() - began) * 1000)))  # type: ignore[arg-type]

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        failed = self.failed
        return {
            "ok": failed is None,
            "complete": self.complete,
            "url": self.url,
            "failed": failed.step if failed is not None else None,
            "remedy": failed.remedy if failed is not None else None,
            "steps": [
                {
                    "step": step.step,
                    "state": step.state,
                    "detail": step.detail,
                    "remedy": step.remedy,
                    "ms": step.milliseconds,
                }
                for step in self.steps
            ],
        }
