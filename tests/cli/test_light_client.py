"""The base dependencies alone: what `pip install graphkeep` brings."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def closure(names: list[str]) -> dict[str, Distribution]:
    """Installed distributions that ``names`` need, extras left out."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(name) for name in names]
    while waiting:
        requirement = waiting.pop()
        key = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if key in found:
            continue
        found[key] = distribution(requirement.name)
        for line in found[key].requires or []:
            inner = Requirement(line)
            extras = requirement.extras or {""}
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(inner)
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the base dependencies and nothing else."""
    folder = tmp_path_factory.mktemp("base")
    requires = [line for line in distribution("graphkeep").requires or [] if "extra ==" not in line]
    for found in closure(requires).values():
        for file in found.files or []:
            top = file.parts[0]
            if top != ".." and not (folder / top).exists():
                (folder / top).symlink_to(Path(str(found.locate_file(top))))
    meta = next(folder_.name for folder_ in Path(str(distribution("graphkeep").locate_file(""))).glob("graphkeep-*"))
    (folder / meta).symlink_to(Path(str(distribution("graphkeep").locate_file(meta))))
    (folder / "app").symlink_to(ROOT / "app")
    return folder


def run(base: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"import sys; sys.path.insert(0, {str(base)!r}); "
    return subprocess.run(
        # -I -S: neither the environment's packages nor this folder can be imported.
        [sys.executable, "-I", "-S", "-c", path + code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=base,
    )


def test_help_and_version_work_with_the_base_alone(base: Path) -> None:
    code = "from app.cli import main; main()"
    helped = run(base, code, "--help")
    assert helped.returncode == 0, helped.stderr
    for command in ("dev", "serve", "stdio", "doctor", "tenant", "user", "token", "version"):
        assert command in helped.stdout
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", run(base, code, "version").stdout)
    assert run(base, code, "token", "create", "--help").returncode == 0


@pytest.mark.parametrize(
    "command", [["dev"], ["serve"], ["stdio"], ["doctor"], ["tenant", "list"], ["token", "list"]], ids=" ".join
)
def test_a_command_that_needs_an_extra_names_the_line_that_installs_it(base: Path, command: list[str]) -> None:
    ended = run(base, "from app.cli import main; main()", *command)
    assert ended.returncode == 69
    assert "pip install 'graphkeep[" in ended.stderr
    assert "server" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_light_client_imports_nothing_beyond_the_base(base: Path) -> None:
    modules = [path.stem for path in (ROOT / "app" / "cli" / "client").glob("[a-z]*.py")]
    assert len(modules) >= 4
    imports = "; ".join(f"import app.cli.client.{module}" for module in modules)
    ended = run(base, f"{imports}; print(sorted(m for m in sys.modules if m.startswith('app.')))")
    assert ended.returncode == 0, ended.stderr
    loaded = set(re.findall(r"'(app\.[^']+)'", ended.stdout))
    assert {name for name in loaded if not name.startswith(("app.cli", "app.settings"))} == {
        *("app.config_file", "app.counting", "app.errors"),
    }
