"""docs/BACKUP.md and the units that it names."""

from __future__ import annotations

import re
import shlex

from app.cli.moving import Source
from app.memory.moving.sources import SOURCES
from tests.docs.test_readme import ROOT, parse

PAGE = (ROOT / "docs" / "BACKUP.md").read_text(encoding="utf-8")


def test_every_command_of_the_page_exists_with_its_options() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("graphkeep ")]
    for line in lines:
        parse(shlex.split(line)[1:])
    assert {shlex.split(line)[1] for line in lines} == {"backup", "restore", "import", "tenant", "compact", "reembed"}


def test_every_source_is_described() -> None:
    assert {source.value for source in Source} == set(SOURCES)
    assert all(f"| `{name}` |" in PAGE for name in SOURCES)


def test_the_nightly_backup_runs_a_command_that_exists_at_a_time_that_the_page_names() -> None:
    service, timer = (
        (ROOT / "deploy" / "systemd" / f"graphkeep-backup.{kind}").read_text() for kind in ("service", "timer")
    )
    (command,) = re.findall(r"^ExecStart=\S+/graphkeep (.*)$", service, re.MULTILINE)
    parse(shlex.split(command))
    assert "OnCalendar=*-*-* 03:00:00" in timer
    assert "at 3 in the morning" in PAGE
    assert "-mtime +30" in service
    assert re.findall(r"^\[(\w+)\]$", timer, re.MULTILINE) == ["Unit", "Timer", "Install"]
