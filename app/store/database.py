"""The connection to the database: one driver for one event loop."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from neo4j import AsyncDriver, AsyncGraphDatabase
from neo4j.exceptions import AuthError, ClientError, ConfigurationError, UnsupportedServerProduct

from app.context import Deadline, Scope
from app.errors import StartError
from app.store.asking import Asked, ask
from app.store.execution import Execution, Trace
from app.store.failures import DATABASE_FAILURES, is_shut_out, unavailable
from app.store.guard import guarded
from app.store.idempotency import Idempotency
from app.store.session import ControlSession, TenantSession, Writing

__all__ = ["OLDEST_ENGINE", "ControlSession", "Database", "Idempotency", "TenantSession", "Writing"]

OLDEST_ENGINE: Final = (2026, 2)
"""The first release whose Community edition filters inside a vector index (SEARCH)."""

_CONFIGURATION_EXIT: Final = 78  # EX_CONFIG of sysexits.h
_ADDRESS: Final = re.compile(r"(bolt|neo4j)(\+s|\+ssc)?://[^/\s]+")
_CONNECT_SECONDS: Final = 5.0
_ACQUIRE_SECONDS: Final = 8.0
_COMMAND_SECONDS: Final = 60.0


class Database:
    """A driver and what is opened on it."""

    def __init__(self, driver: AsyncDriver, name: str) -> None:
        self.driver = driver
        self.name = name
        self._execution = Execution(driver, name)
        self.control = ControlSession(self._execution)

    @classmethod
    async def connect(cls, uri: str, user: str, password: str, database: str, *, pool_size: int) -> Database:
        """Make the driver; nothing is sent yet, so a database that is away is no failure.

        Raises:
            StartError: the address is not one of Bolt.
        """
        try:
            if not _ADDRESS.match(uri):  # the driver also takes http://, which carries none of what is needed here
                raise ValueError(uri)
            # liveness_check_timeout stays unset: a task cancelled during that check leaks its pool slot for ever.
            driver = AsyncGraphDatabase.driver(
                uri,
                auth=(user, password),
                max_connection_pool_size=pool_size,
                connection_timeout=_CONNECT_SECONDS,
                connection_acquisition_timeout=_ACQUIRE_SECONDS,
                notifications_min_severity="OFF",
                telemetry_disabled=True,
                user_agent="graphkeep",
            )
        except (ConfigurationError, ValueError) as error:
            raise StartError(
                "NEO4J_URI is not an address of a Neo4j server; it looks like bolt://host:7687 or neo4j+s://host",
                exit_code=_CONFIGURATION_EXIT,
            ) from error
        return cls(driver, database)

    async def verify(self) -> None:
        """Check that the server answers, lets us in and is new enough.

        Raises:
            DatabaseUnavailable: it does not answer; try again later.
            StartError: it refuses the password, does not know the database, or is too old.
        """
        try:
            async with self.driver.session(database=self.name, bookmark_manager=None) as session:
                summary = await (await session.run("RETURN 1")).consume()
        except AuthError as error:
            raise StartError(
                "the database refused the user or password; set NEO4J_USER and NEO4J_PASSWORD to the server's own",
                exit_code=_CONFIGURATION_EXIT,
            ) from error
        except UnsupportedServerProduct as error:
            raise StartError("NEO4J_URI does not lead to a Neo4j server", exit_code=_CONFIGURATION_EXIT) from error
        except ClientError as error:
            if is_shut_out(error):
                raise unavailable("not_applied") from error
            raise StartError(
                "the database named by NEO4J_DATABASE does not exist on this server", exit_code=_CONFIGURATION_EXIT
            ) from error
        except DATABASE_FAILURES as error:
            raise unavailable("not_applied") from error
        self._check_version(summary.server.agent)

    @staticmethod
    def _check_version(agent: str) -> None:
        found = re.match(r"Neo4j/(\d+)\.(\d+)", agent)
        if found is None or (int(found[1]), int(found[2])) < OLDEST_ENGINE:
            raise StartError(
                f"the server is {agent}; graphkeep needs Neo4j 2026.02 or newer, whose vector search filters by tenant",
                exit_code=_CONFIGURATION_EXIT,
            )

    def session(self, scope: Scope, *, deadline: Deadline, request_id: str) -> TenantSession:
        """Open the door to one tenant's graph for one call."""
        return TenantSession(self._execution, scope, deadline, request_id)

    async def ask(
        self,
        text: str,
        parameters: Mapping[str, Any],
        *,
        confined: bool,
        deadline: Deadline,
        request_id: str,
        rows: int,
        characters: int,
    ) -> Asked:
        """An operator's own reading query, for ``graph_cypher`` alone: judged here, then run; see ``app.store.asking``.

        ``confined``: each path of it must be fixed to the parameter ``tenant``.

        Raises:
            InvalidInput: the guard or the database refuses it.
            CallError: what the store raises.
        """
        query = guarded(text, confined=confined)
        return await ask(
            *(self.driver, self.name, query, parameters, deadline, Trace(request_id)), rows=rows, characters=characters
        )

    async def command(self, text: str) -> None:
        """Run a schema command, for this room's schema module alone.

        Raises:
            CallError: see ``Execution.read``.
        """
        await self._execution.command(text, Deadline.after(_COMMAND_SECONDS))

    async def close(self) -> None:
        """Wait for commits under way, then close every connection."""
        await self._execution.close()
        await self.driver.close()
