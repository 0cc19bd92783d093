"""A real Neo4j server as a managed child process: bound to loopback, its password generated, stopped in order.

One gateway owns a home at a time (a lock that dies with the process). A server left by a killed gateway gets
SIGTERM from the kernel; the next start waits for it, or ends it, before it starts its own.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from app.errors import DatabaseUnavailable, StartError
from app.store.child import ChildRecord, launch, stop_process
from app.store.database import Database
from app.store.engine import Engine, fetch_engine
from app.store.server_files import JAVA_FLAGS, Home, check_memory, choose_port

__all__ = ["EmbeddedServer", "ServerAddress", "running_server"]

_USER: Final = "neo4j"
_START_SECONDS: Final = 180.0
_STOP_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.1
_SERVER: Final = "org.neo4j.server.Neo4jCommunity"
_ADMIN: Final = "org.neo4j.cli.AdminTool"
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "HOME", "JDK_JAVA_OPTIONS")
"""Variables that reach the server; the last is Java's own way to take further options."""

_SOFTWARE_EXIT: Final = 70  # EX_SOFTWARE of sysexits.h
_BUSY_EXIT: Final = 69  # EX_UNAVAILABLE
_CONFIGURATION_EXIT: Final = 78  # EX_CONFIG

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server listens and how to get in."""

    uri: str
    user: str
    password: str = field(repr=False)


def running_server(home: Path) -> ServerAddress | None:
    """The managed server of ``home`` that runs now, for a command beside the gateway; None if none does."""
    files = Home(home / "neo4j")
    record = ChildRecord.read(files.record)
    if record is None or not record.alive(str(files.folder)):
        return None
    try:
        return ServerAddress(f"bolt://127.0.0.1:{record.port}", _USER, files.password_file.read_text().strip())
    except OSError:
        return None


class EmbeddedServer:
    """The server of one home folder: data in ``<home>/neo4j``, engine in ``engine_cache`` (``<home>/engine``)."""

    def __init__(
        self,
        home: Path,
        *,
        port: int | None = None,
        heap: str = "1g",
        page_cache: str = "256m",
        engine_cache: Path | None = None,
    ) -> None:
        home = home.expanduser().absolute()
        self._files = Home(home / "neo4j")
        self._mark = str(self._files.folder)
        self._port = port
        self._heap = heap
        self._page_cache = page_cache
        self._engine_cache = engine_cache or home / "engine"
        self._lock: IO[str] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._record: ChildRecord | None = None

    @property
    def files(self) -> Home:
        """Its files, for who holds the home (:meth:`hold`)."""
        return self._files

    def hold(self) -> None:
        """Make the home and take it for this process alone, until :meth:`stop`.

        Raises:
            StartError: another has it, or it cannot be used.
        """
        self._files.prepare()
        if self._lock is None:
            self._take_lock()

    async def start(self, progress: Progress, *, store: str | None = None) -> ServerAddress:
        """Fetch the engine if need be, start the server and wait until it answers.

        ``progress`` is called with one line at a time, also from another thread. ``store``: another store of the home
        than the one in use. Without it, what an exchange of stores left goes once the server answers.

        Raises:
            StartError: it cannot start; nothing is left running.
        """
        check_memory(self._heap, self._page_cache)
        self.hold()
        try:
            used = store or self._files.store
            engine = await self._engine(progress)
            recorded = await self._end_stale(progress)
            port = choose_port(self._port, recorded)
            self._files.configure(port=port, page_cache=self._page_cache, store=used)
            password = await self._set_password(engine, used)
            address = ServerAddress(f"bolt://127.0.0.1:{port}", _USER, password)
            progress("Starting the database")
            await self._launch(engine, port)
            await self._wait_until_it_answers(address)
            if store is None:
                await asyncio.to_thread(self._files.sweep)
        except BaseException:
            await self.stop()
            raise
        return address

    async def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Stop the server and give the home back: asked first, forced after ``seconds``. Does nothing without them."""
        await self.halt(seconds)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    async def halt(self, seconds: float = _STOP_SECONDS) -> None:
        """Stop the server and keep the home."""
        if self._record is not None:
            await stop_process(self._record, self._mark, seconds=seconds)
        if self._process is not None:
            await self._process.wait()
        self._record = self._process = None

    async def ended(self) -> int:
        """Wait until the server has ended by itself; its exit code."""
        if self._process is None:
            return 0
        return await self._process.wait()

    def _take_lock(self) -> None:
        lock = self._files.lock.open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise StartError(
                "another graphkeep runs with this home; stop it, or set GRAPHKEEP_HOME to another folder",
                exit_code=_BUSY_EXIT,
            ) from None
        self._lock = lock

    async def _engine(self, progress: Progress) -> Engine:
        stop = threading.Event()
        try:
            return await asyncio.to_thread(fetch_engine, self._engine_cache, progress, stop)
        finally:
            stop.set()

    async def _end_stale(self, progress: Progress) -> int | None:
        """End a server that an earlier gateway left; the port it had."""
        stale = ChildRecord.read(self._files.record)
        if stale is None:
            return None
        if stale.alive(self._mark):
            progress("Stopping the database that an earlier run left")
            await stop_process(stale, self._mark, seconds=_STOP_SECONDS)
        return stale.port

    async def _set_password(self, engine: Engine, store: str) -> str:
        password = self._files.password()
        if self._files.is_initialised(store):
            return password
        # "@file" keeps the password off the command line, where every user of the machine could read it.
        command = (str(engine.java), "-cp", engine.class_path, _ADMIN, "dbms", "set-initial-password")
        process = await launch(
            (*command, f"@{self._files.password_file}"), log=self._files.console, environment=self._environment()
        )
        code = await process.wait()
        if code != 0:
            raise StartError(
                f"the database's password could not be set (exit code {code}); see {self._files.console}",
                exit_code=_SOFTWARE_EXIT,
            )
        return password

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {**kept, "NEO4J_HOME": self._mark, "NEO4J_CONF": str(self._files.configuration)}

    async def _launch(self, engine: Engine, port: int) -> None:
        self._files.console.write_bytes(b"")
        memory = (f"-Xms{self._heap}", f"-Xmx{self._heap}")
        place = ("--home-dir", self._mark, "--config-dir", str(self._files.configuration))
        self._process = await launch(
            (str(engine.java), *memory, *JAVA_FLAGS, "-cp", engine.class_path, _SERVER, *place),
            log=self._files.console,
            environment=self._environment(),
        )
        self._record = ChildRecord.of(self._process.pid, port)
        self._record.write(self._files.record)

    async def _wait_until_it_answers(self, address: ServerAddress) -> None:
        process = self._process
        if process is None:
            raise StartError("the database was not started", exit_code=_SOFTWARE_EXIT)
        ended = asyncio.ensure_future(process.wait())
        answers = asyncio.ensure_future(_answers(address))
        try:
            await asyncio.wait((ended, answers), timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if answers.done():
                await answers
            elif ended.done():
                raise self._why(ended.result())
            else:
                raise StartError(
                    f"the database did not answer within {_START_SECONDS:.0f} s; see {self._files.console}",
                    exit_code=_BUSY_EXIT,
                )
        finally:
            for task in (ended, answers):
                task.cancel()
            await asyncio.gather(ended, answers, return_exceptions=True)

    def _why(self, code: int) -> StartError:
        """The reason for an early end; exit codes of Neo4j: 1 start failure, 2 store locked, 3 configuration."""
        words = self._files.last_words()
        if code == 2:
            return StartError(
                "the database's files are in use by another process; stop that one first", exit_code=_BUSY_EXIT
            )
        if code == 3:
            return StartError(f"the database refused its configuration: {words}", exit_code=_CONFIGURATION_EXIT)
        if "No space left" in words:
            return StartError("the disk is full; the database could not start", exit_code=73)
        return StartError(
            f"the database ended while starting (exit code {code}): {words or 'no reason given'}; "
            f"see {self._files.console}",
            exit_code=_SOFTWARE_EXIT,
        )


async def _answers(address: ServerAddress) -> None:
    """Return once the server lets us in."""
    database = await Database.connect(address.uri, address.user, address.password, "neo4j", pool_size=1)
    try:
        while True:
            try:
                return await database.verify()
            except DatabaseUnavailable:
                await asyncio.sleep(_POLL_SECONDS)
    finally:
        await database.close()
