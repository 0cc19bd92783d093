from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.client.old_variables import OLD_VARIABLES, OldVariable
from app.cli.client.variables import known, unknown_variables, variables
from app.settings import Settings

SAMPLES = {"port": "18999", "url": "https://memory.example.org", "other": "sample"}


def sample(name: str) -> str:
    if name.endswith("PORT"):
        return SAMPLES["port"]
    return SAMPLES["url"] if "URL" in name or "ISSUER" in name or "URI" in name else SAMPLES["other"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from app.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


def test_a_misspelt_variable_is_named_with_the_nearest_one() -> None:
    lines = unknown_variables({"GRAPHKEEP_HTP_PORT": "1", "PATH": "/bin", "GRAPHKEEP_HTTP_PORT": "1"})
    assert len(lines) == 1
    assert "GRAPHKEEP_HTP_PORT" in lines[0]
    assert "did you mean GRAPHKEEP_HTTP_PORT?" in lines[0]


def test_variables_of_the_tests_and_of_the_proxy_are_no_mistakes() -> None:
    assert unknown_variables({"GRAPHKEEP_TEST_DATA": "x", "GRAPHKEEP_DOMAIN": "x", "GRAPHKEEP_BIND_ADDR": "x"}) == []


def test_a_misspelt_line_of_the_env_file_is_named_too(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text("GRAPHKEEP_HOMME=/x\n")
    assert any("did you mean GRAPHKEEP_HOME?" in line for line in unknown_variables(dotenv=str(dotenv)))


@pytest.mark.parametrize("old", OLD_VARIABLES, ids=lambda old: old.name)
def test_a_variable_of_an_older_system_is_read_or_says_why_not(
    old: OldVariable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in known():
        monkeypatch.delenv(name, raising=False)
    if old.became is None:
        assert old.name not in known()
        assert len(old.words) > 20
        return
    target = next(variable for variable in variables() if variable.name == old.became)
    monkeypatch.setenv(old.name, sample(old.name))
    settings = Settings()
    rooms = vars(settings)
    room = next(value for value in rooms.values() if type(value).__name__ == target.room)
    value = getattr(room, target.field)
    given = value.get_secret_value() if target.secret else value
    assert sample(old.name) in (given if isinstance(given, tuple) else str(given))


def test_every_family_of_old_variables_is_in_the_table() -> None:
    names = {old.name for old in OLD_VARIABLES}
    assert names >= {
        "GRAPH_MEMORY_HOME",
        "KNOWLEDGE_MCP_ROOT",
        "NEO4J_URI",
        "NEO4J_USER",
        "NEO4J_PASSWORD",
        "NEO4J_DATABASE",
        "MCP_TRANSPORT",
        "MCP_PORT",
        "TLS_CERT",
        "TLS_KEY",
        "BOOTSTRAP_TENANT_ID",
        "LOCAL_TENANT_ID",
        "TENANT_ID_SOURCE",
        "CF_ACCESS_TEAM_DOMAIN",
        "CF_ACCESS_AUD",
        "OAUTH_ISSUER",
        "OAUTH_REDIRECT_URI_HOSTS",
        "OAUTH_MAX_CLIENTS",
        "OAUTH_ALLOWED_EMAILS",
        "OPENAI_API_KEY",
        "XAI_API_KEY",
        "AGENT_NETWORK",
        "BOLT_BIND_ADDR",
    }
    assert len(names) == len(OLD_VARIABLES)


def test_a_value_that_its_rule_forbids_ends_with_the_variables_name_and_no_traceback() -> None:
    ended = run("tenant", "list", GRAPHKEEP_HTTPS_PORT="no-port")
    assert ended.returncode == 78
    assert "GRAPHKEEP_HTTPS_PORT" in ended.stderr
    assert "nothing was started" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_secret_with_a_bad_value_is_not_quoted() -> None:
    ended = run("serve", NEO4J_URI="bolt://127.0.0.1:1", NEO4J_PASSWORD="hunter2", GRAPHKEEP_SECRET_KEY="hunter2")
    assert ended.returncode != 0
    assert "hunter2" not in ended.stderr + ended.stdout


def test_an_external_database_without_a_password_is_refused_before_anything_starts() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NEO4J_PASSWORD"}
    ended = subprocess.run(
        [sys.executable, "-c", "from app.cli import main; main()", "tenant", "list"],
        capture_output=True,
        text=True,
        env={**environment, "NEO4J_URI": "bolt://127.0.0.1:1"},
        timeout=120,
        check=False,
    )
    assert ended.returncode == 78
    assert "NEO4J_PASSWORD" in ended.stderr
