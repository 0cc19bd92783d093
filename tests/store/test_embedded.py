"""The managed server: a real child process, started, lost, found again and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from neo4j.exceptions import Neo4jError

from app.context import Deadline, Scope
from app.errors import CallError, StartError
from app.store.child import ChildRecord
from app.store.database import Database
from app.store.embedded import EmbeddedServer, running_server
from app.store.engine import fetch_engine, installed_engine
from app.store.schema import migrate, status
from app.store.server_files import Home, check_memory, choose_port
from tests.conftest import engine_cache
from tests.store.statements import ADD, FIND

ROOT = Path(__file__).parents[2]
SMALL = {"heap": "400m", "page_cache": "32m"}

GATEWAY = """
import asyncio, sys
from pathlib import Path
from app.store.embedded import EmbeddedServer

async def main():
    server = EmbeddedServer(Path(sys.argv[1]), engine_cache=Path(sys.argv[2]), heap="400m", page_cache="32m")
    await server.start(lambda line: None)
    print("up", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def managed(home: Path, **options) -> EmbeddedServer:
    return EmbeddedServer(home, engine_cache=engine_cache(), **{**SMALL, **options})


@pytest_asyncio.fixture(scope="module")
async def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@asynccontextmanager
async def open_database(address) -> AsyncIterator[Database]:
    database = await Database.connect(address.uri, address.user, address.password, "neo4j", pool_size=5)
    try:
        yield database
    finally:
        await database.close()


def session(database, seconds: float = 90.0):  # a server that has just started plans its first queries slowly
    scope = Scope("t", ("",), ("",), "", "s")
    return database.session(scope, deadline=Deadline.after(seconds), request_id="embedded")


async def add(writing):
    return (await writing.run(ADD, id="ada", name="Ada"))[0]


async def test_a_life_of_the_managed_server_over_an_orderly_stop_and_a_killed_gateway(home):
    lines: list[str] = []
    server = managed(home)
    address = await server.start(lines.append)
    files = home / "neo4j"
    try:
        assert address.uri.startswith("bolt://127.0.0.1:")
        assert lines
        assert address.password not in "".join(lines)
        assert address.password not in repr(address)
        assert stat.S_IMODE((files / "password").stat().st_mode) == 0o600
        assert stat.S_IMODE(files.stat().st_mode) == 0o700
        assert running_server(home) == address
        record = ChildRecord.read(files / "server.json")
        assert record is not None
        assert address.password not in _visible(record.pid)
        assert _listeners(record.pid) <= {"0100007F", "0000000000000000FFFF00000100007F"}, "loopback only"

        with pytest.raises(StartError, match="another graphkeep") as caught:
            await managed(home).start(lines.append)
        assert caught.value.exit_code == 69
        assert running_server(home) == address

        async with open_database(address) as database:
            async with open_database(address) as replica:
                await asyncio.gather(migrate(database), migrate(replica))
            assert (await status(database)).ready
            assert await session(database).write(add) == {"id": "ada", "times": 1}
            await _reaches_nothing(database)

            await server.stop()
            assert running_server(home) is None
            assert not record.alive(str(files))
            with pytest.raises(CallError) as gone:
                await session(database, 2).read(FIND, id="ada")
            assert gone.value.retryable
            assert gone.value.outcome == "not_applied"

            await _is_there_for_the_next_gateway(home, address, database)
    finally:
        await server.stop()


async def _is_there_for_the_next_gateway(home, address, database) -> None:
    """The port, the password and the data stay; a gateway that is killed leaves nothing that blocks the next start."""
    gateway = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        GATEWAY,
        str(home),
        str(engine_cache()),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert gateway.stdout is not None
    assert await gateway.stdout.readline() == b"up\n"
    assert running_server(home) == address
    assert (await session(database).read(FIND, id="ada"))[0]["times"] == 1
    orphan = ChildRecord.read(home / "neo4j" / "server.json")
    assert orphan is not None
    assert orphan.alive(str(home / "neo4j"))
    gateway.send_signal(signal.SIGKILL)
    await gateway.wait()

    server = managed(home)
    assert await server.start(lambda line: None) == address
    try:
        assert not orphan.alive(str(home / "neo4j"))
        assert (await session(database).read(FIND, id="ada"))[0]["times"] == 1
    finally:
        await server.stop()


async def test_a_lost_password_file_is_explained_and_nothing_is_started(home):
    password = home / "neo4j" / "password"
    kept = password.read_text()
    password.unlink()
    try:
        with pytest.raises(StartError, match="password file"):
            await managed(home).start(lambda line: None)
    finally:
        password.write_text(kept)
        password.chmod(0o600)
    assert running_server(home) is None


def test_a_password_is_never_taken_for_an_option_of_the_servers_tool(tmp_path):
    for number in range(300):  # one in 64 would begin with a hyphen in an alphabet that has one
        files = Home(tmp_path / f"{number}")
        files.prepare()
        assert files.password().isalnum()
        assert files.password() == files.password()
    files.password_file.write_text("-left-by-an-older-version\n")
    assert files.password().isalnum()


def test_a_store_is_exchanged_by_one_name_and_what_is_left_is_swept_away(tmp_path):
    files = Home(tmp_path / "neo4j")
    files.prepare()
    assert (files.store, files.next_store()) == ("data", "data-2")
    for name in ("data", "data-2", "database-notes"):
        (files.folder / name / "dbms").mkdir(parents=True)
    files.sweep()
    assert not (files.folder / "data-2").exists(), "never finished: the old one stays"
    (files.folder / "data-2").mkdir()
    files.use("data-2")
    again = Home(tmp_path / "neo4j")
    assert (again.store, again.next_store()) == ("data-2", "data-3")
    again.sweep()
    assert sorted(path.name for path in files.folder.glob("data*")) == ["data-2", "database-notes"]
    (files.folder / "data-2").rmdir()
    with pytest.raises(StartError, match="is missing"):  # never an empty memory in its place
        again.initialised  # noqa: B018


async def test_a_busy_port_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"port {port}") as caught:
            await managed(tmp_path, port=port).start(lambda line: None)
        assert caught.value.exit_code == 69
        assert choose_port(None, port) != port
    assert running_server(tmp_path) is None


async def test_a_home_that_cannot_be_written_is_explained(tmp_path):
    (tmp_path / "neo4j").write_text("a file where the folder should be")
    with pytest.raises(StartError, match="GRAPHKEEP_HOME") as caught:
        await managed(tmp_path).start(lambda line: None)
    assert caught.value.exit_code == 73


async def test_a_full_disk_is_explained_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr("app.store.server_files._LEAST_SPACE", 2**62)
    with pytest.raises(StartError, match="MB free") as caught:
        await managed(tmp_path).start(lambda line: None)
    assert caught.value.exit_code == 73


def test_memory_that_the_machine_does_not_have_is_refused():
    check_memory("64m", "32m")
    with pytest.raises(StartError, match="GRAPHKEEP_HEAP"):
        check_memory("4000g", "256m")


async def test_a_server_that_refuses_its_configuration_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr("app.store.server_files._CONFIGURATION", "server.memory.pagecache.size=99999g\n")
    with pytest.raises(StartError) as caught:
        await managed(tmp_path).start(lambda line: None)
    assert caught.value.exit_code in {70, 78}
    assert "console.log" in caught.value.message or "configuration" in caught.value.message
    assert running_server(tmp_path) is None


def test_a_record_of_another_process_with_the_same_number_is_not_ours(tmp_path):
    mine = ChildRecord.of(os.getpid(), 1)
    assert not mine.alive("--no-such-mark")
    assert not ChildRecord(os.getpid(), mine.started + 1, 1).alive(sys.executable)
    assert ChildRecord.read(tmp_path / "absent") is None
    (tmp_path / "bad").write_text("{")
    assert ChildRecord.read(tmp_path / "bad") is None


def test_an_engine_that_is_not_whole_is_not_used(tmp_path):
    jars = tmp_path / "environments/envs/org/neo4j/neo4j/x/jars"
    jars.mkdir(parents=True)
    (jars.parent / "jgo.lock.toml").write_text("")
    (jars / "neo4j-2026.09.0.jar").write_bytes(b"half")
    assert installed_engine(tmp_path) is None
    assert installed_engine(engine_cache()) is not None


def test_no_room_for_the_engine_is_said_before_it_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr("app.store.engine._SPACE", 2**62)
    with pytest.raises(StartError, match="MB free") as caught:
        fetch_engine(tmp_path / "engine", lambda line: None, threading.Event())
    assert caught.value.exit_code == 73


def test_a_fetch_that_was_stopped_says_that_the_next_start_goes_on(tmp_path):
    stop = threading.Event()
    stop.set()
    with pytest.raises(StartError, match="goes on"):
        fetch_engine(tmp_path / "engine", lambda line: None, stop)


async def _reaches_nothing(database) -> None:
    """A query can read neither files nor addresses."""
    for source in ("http://127.0.0.1:9/x.csv", "file:///etc/passwd"):
        async with database.driver.session(database="neo4j") as raw:
            with pytest.raises(Neo4jError, match=r"blocked|not allowed|disabled|configuration|security"):
                await (await raw.run("LOAD CSV FROM $source AS line RETURN line", source=source)).consume()


def _visible(pid: int) -> str:
    """What others on the machine can read of the process: its command line and environment."""
    return "".join(Path(f"/proc/{pid}/{name}").read_text() for name in ("cmdline", "environ"))


def _listeners(pid: int) -> set[str]:
    """Addresses (as /proc spells them) at which the process listens."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(fields[1].split(":")[0])
    return found
