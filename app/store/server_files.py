"""Files of the managed database in its home folder: configuration, password, limits checked before anything starts."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from app.errors import StartError

__all__ = ["JAVA_FLAGS", "Home", "check_memory", "choose_port"]

_NO_SPACE_EXIT: Final = 73  # EX_CANTCREAT of sysexits.h
_BUSY_EXIT: Final = 69  # EX_UNAVAILABLE
_CONFIGURATION_EXIT: Final = 78  # EX_CONFIG

_LEAST_SPACE: Final = 200 * 1024 * 1024
_UNITS: Final = {"m": 2**20, "g": 2**30}

_FIRST_STORE: Final = "data"
_STORE: Final = re.compile(r"data(-\d{1,9})?\Z")

JAVA_FLAGS: Final[Sequence[str]] = (
    "-XX:+UseG1GC",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:+DisableExplicitGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djdk.nio.maxCachedBufferSize=1024",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.leakDetection.level=DISABLED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--enable-native-access=ALL-UNNAMED",
    "-Dorg.neo4j.shaded.lucene9.vectorization.upperJavaFeatureVersion=25",
    "-Dlog4j2.disable.jmx=true",
    "-Dfile.encoding=UTF-8",
)

# Loopback only, no telemetry, no reading of files or addresses from a query, bounded time and memory. A plan
# serves parameters of every size: else each new size of a list or text is planned anew, a tenth of a second or more.
_CONFIGURATION: Final = """\
server.default_listen_address=127.0.0.1
server.bolt.listen_address=127.0.0.1:{port}
server.bolt.advertised_address=127.0.0.1:{port}
server.http.enabled=false
server.directories.data={store}
server.memory.pagecache.size={page_cache}
db.query.default_language=CYPHER_25
db.transaction.timeout=150s
dbms.memory.transaction.total.max=600m
db.memory.transaction.max=128m
db.lock.acquisition.timeout=5s
db.transaction.concurrent.maximum=200
dbms.security.allow_csv_import_from_file_urls=false
internal.dbms.cypher_ip_blocklist=0.0.0.0/0,::/0
dbms.usage_report.enabled=false
dbms.fleet_manager.enabled=false
server.fleet_discovery.enabled=false
internal.cypher.use_parameter_size=false
db.tx_log.preallocate=false
db.tx_log.rotation.retention_policy=keep_none
"""


class Home:
    """The folder of one managed database.

    Its files lie in one store, a folder whose name the file ``store`` has ("data" without it). A store is exchanged for
    another (``app.store.compacting``) by writing that one name; what is left beside it is swept away.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration = folder / "conf"
        self.password_file = folder / "password"
        self.record = folder / "server.json"
        self.lock = folder / "lock"
        self.logs = folder / "logs"
        self.console = self.logs / "console.log"
        self._pointer = folder / "store"

    def prepare(self) -> None:
        """Make the folder, for its owner alone, and see that it can be written and has room.

        Raises:
            StartError: it cannot be used, with the reason.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder.chmod(0o700)
            self.configuration.mkdir(exist_ok=True)
            self.console.parent.mkdir(exist_ok=True)
            probe = self.folder / "probe"
            probe.write_bytes(b"graphkeep")
            probe.unlink()
            free = shutil.disk_usage(self.folder).free
        except OSError as error:
            raise StartError(
                f"the folder of the database cannot be used: {self.folder} ({error.strerror}); "
                "set GRAPHKEEP_HOME to a folder that this user may write",
                exit_code=_NO_SPACE_EXIT,
            ) from error
        if free < _LEAST_SPACE:
            raise StartError(
                f"the disk of {self.folder} has {free // 2**20} MB free; the database needs {_LEAST_SPACE // 2**20} MB",
                exit_code=_NO_SPACE_EXIT,
            )

    def configure(self, *, port: int, page_cache: str, store: str) -> None:
        """Write the server's configuration, for the store of that name."""
        (self.configuration / "neo4j.conf").write_text(
            _CONFIGURATION.format(port=port, page_cache=page_cache, store=store)
        )

    @property
    def store(self) -> str:
        """Name of the store in use.

        Raises:
            StartError: another is named than is there; nothing is made in its place.
        """
        try:
            name = self._pointer.read_text().strip()
        except FileNotFoundError:
            return _FIRST_STORE
        if not _STORE.match(name) or not (self.folder / name).is_dir():
            raise StartError(
                f"the folder that {self._pointer} names is missing; restore {self.folder} from a copy",
                exit_code=_CONFIGURATION_EXIT,
            )
        return name

    def next_store(self) -> str:
        """A name for a new store."""
        number = self.store.removeprefix(_FIRST_STORE).removeprefix("-")
        return f"{_FIRST_STORE}-{int(number or 1) + 1}"

    def use(self, store: str) -> None:
        """Make this store the one in use, at once and for good."""
        draft = self._pointer.with_suffix(".new")
        with draft.open("w") as file:
            file.write(f"{store}\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._pointer)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def sweep(self) -> None:
        """Remove every store but the one in use: what an exchange left, before or after the name was written."""
        used = self.store
        for path in self.folder.glob(f"{_FIRST_STORE}*"):
            if _STORE.match(path.name) and path.name != used and path.is_dir():
                shutil.rmtree(path)

    def is_initialised(self, store: str) -> bool:
        """Whether the server's own password was set once in this store."""
        return (self.folder / store / "dbms" / "auth.ini").exists()

    @property
    def initialised(self) -> bool:
        """Whether it was set in the store in use."""
        return self.is_initialised(self.store)

    def password(self) -> str:
        """The generated password, made at first use in a file that only the owner reads.

        Raises:
            StartError: the data is there but its password is gone.
        """
        with contextlib.suppress(FileNotFoundError):
            kept = self.password_file.read_text().strip()
            if self.initialised or kept.isalnum():
                return kept
            self.password_file.unlink()
        if self.initialised:
            raise StartError(
                f"the password file of the database is missing: {self.password_file}; restore it, or the data cannot "
                "be opened",
                exit_code=_CONFIGURATION_EXIT,
            )
        # Letters and digits alone: the server's tool takes a password that begins with a hyphen for an option.
        password = secrets.token_hex(32)
        handle = os.open(self.password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as stream:
            stream.write(password + "\n")
        return password

    def last_words(self) -> str:
        """The end of what the server said, for a message about why it did not start."""
        try:
            lines = self.console.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        telling = [line.strip() for line in lines if re.search(r"ERROR|Caused by|Exception|rror:", line)]
        return "; ".join(telling[-2:])[:400]


def choose_port(wanted: int | None, recorded: int | None) -> int:
    """``wanted`` if given, else the port used last if it is free, else any free one.

    Raises:
        StartError: the wanted port is taken.
    """
    if wanted is not None:
        if not _free(wanted):
            raise StartError(f"port {wanted} for the database is taken; choose another", exit_code=_BUSY_EXIT)
        return wanted
    if recorded and _free(recorded):
        return recorded
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def check_memory(heap: str, page_cache: str) -> None:
    """See that heap and page cache fit into the machine; the server refuses to start otherwise.

    Raises:
        StartError: they do not.
    """
    wanted = _size(heap) + _size(page_cache)
    present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if wanted > present * 0.9:
        raise StartError(
            f"heap {heap} and page cache {page_cache} of the database do not fit into this machine's "
            f"{present // 2**20} MB; lower GRAPHKEEP_HEAP or GRAPHKEEP_PAGE_CACHE",
            exit_code=_CONFIGURATION_EXIT,
        )


def _size(text: str) -> int:
    return int(text[:-1]) * _UNITS[text[-1]]
