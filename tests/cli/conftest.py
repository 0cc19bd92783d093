"""Whole gateways, started as a person starts them."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import engine_cache
from tests.ports import free_port

GRAPHKEEP = [sys.executable, "-c", "from app.cli import main; main()"]
START_SECONDS = 240
"""A first start on a busy machine; the engine may have to be fetched."""


@dataclass
class Place:
    """A home of its own with ports of its own, and at most one ``graphkeep dev`` in it."""

    home: Path
    http: int = field(default_factory=free_port)
    https: int = field(default_factory=free_port)
    extra: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    ready: dict[str, str] = field(default_factory=dict)
    token: str = ""

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NEO4J_", "GRAPHKEEP_"))}
        return {
            **kept,
            "GRAPHKEEP_HOME": str(self.home),
            "GRAPHKEEP_HTTP_PORT": str(self.http),
            "GRAPHKEEP_HTTPS_PORT": str(self.https),
            "GRAPHKEEP_ENGINE_CACHE": str(engine_cache()),
            "GRAPHKEEP_HEAP": "512m",
            "GRAPHKEEP_PAGE_CACHE": "64m",
            "GRAPHKEEP_EMBEDDING": "none",
            "GRAPHKEEP_PLAN_AHEAD": "false",
            **self.extra,
        }

    @property
    def authority(self) -> Path:
        return self.home / "caddy" / "pki" / "authorities" / "local" / "root.crt"

    def run(self, *arguments: str, seconds: float = START_SECONDS) -> subprocess.CompletedProcess[str]:
        """A command of this home, from start to end."""
        return subprocess.run(
            [*GRAPHKEEP, *arguments],
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=seconds,
            check=False,
        )

    def answer(self, *arguments: str) -> Any:
        """What a command answers with ``--json``."""
        ended = self.run(*arguments, "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def launch(self) -> None:
        """Begin to start; ``wait_until_ready`` follows."""
        self.process = subprocess.Popen(
            [*GRAPHKEEP, "dev", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def wait_until_ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        until = time.monotonic() + START_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(until - time.monotonic()), "not ready in time"
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.ready = json.loads(line)

    def children(self) -> list[psutil.Process]:
        """Every process that works in this home."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            command = process.info["cmdline"] or []
            if any(str(self.home) in part for part in command) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found

    def stop(self, how: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Signal the process alone, as Ctrl-C does after make; its exit code and what it said on stderr."""
        assert self.process is not None
        self.process.send_signal(how)
        _, said = self.process.communicate(timeout=60)
        code, self.process = self.process.returncode, None
        return code, said


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    """Two gateways side by side, started at the same time."""
    first = Place(tmp_path_factory.mktemp("first") / "home with spaces")
    second = Place(tmp_path_factory.mktemp("second") / "home")
    for place in (first, second):
        place.launch()
    try:
        for place in (first, second):
            place.wait_until_ready()
        yield first, second
    finally:
        for place in (first, second):
            if place.process is not None:
                place.stop()
