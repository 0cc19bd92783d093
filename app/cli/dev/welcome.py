"""What ``graphkeep dev`` says when it is ready."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Welcome", "called_as"]


@dataclass(frozen=True, slots=True)
class Welcome:
    """The addresses and the way in. ``https`` and ``http`` are base addresses without a trailing slash."""

    https: str
    http: str
    home: Path
    links: Mapping[str, str]
    """One-time sign-in links by the address that they are for: a browser's session belongs to one address."""
    owner: str
    root_certificate: Path
    command: str = "graphkeep"
    """How a person calls this program from where it was started."""

    def line(self) -> dict[str, str]:
        """For programs."""
        return {
            "mcp": f"{self.https}/mcp",
            "https": self.https,
            "http": self.http,
            "home": str(self.home),
            "signin": next(iter(self.links.values())),
        }

    def words(self) -> str:
        """For people: where it is, how to get in, and what to paste into each client."""
        ways = "\n".join(f"  sign in once         {link}" for link in self.links.values())
        plain = f"{self.http}/mcp"
        cursor = json.dumps({"mcpServers": {"graphkeep": {"url": plain}}})
        certificate = shlex.quote(str(self.root_certificate))
        return f"""
graphkeep is ready.

  MCP address          {self.https}/mcp
  without TLS          {plain}   (this machine only; an address of its own)
{ways}
  root certificate     {self.root_certificate}
  data                 {self.home}
  account              {self.owner}, owner of the tenant `home` and operator

Connect a client (it opens the browser, you sign in and consent):

  Claude Code          claude mcp add --transport http graphkeep {plain}
  over HTTPS           NODE_EXTRA_CA_CERTS={certificate} claude
                       after: claude mcp add --transport http graphkeep {self.https}/mcp
  Cursor               ~/.cursor/mcp.json: {cursor}
  MCP Inspector        npx @modelcontextprotocol/inspector --transport http --server-url {plain}
  without a browser    {self.command} token create --user {self.owner} --tenant home --scope memory:read
                       it only reads; --scope may be repeated, and without one it may do all that you may

Ctrl-C stops everything; the data stays.
"""


def called_as(program: str) -> str:
    """What a person types to run ``program``, a path of this command, again from the folder where they are."""
    path = Path(program).absolute()
    if path.name != "graphkeep" or not path.is_file():
        return "graphkeep"
    found = shutil.which("graphkeep")
    if found is not None and os.path.samefile(found, path):
        return "graphkeep"
    here = Path.cwd()
    if not path.is_relative_to(here):
        return shlex.quote(str(path))
    near = path.relative_to(here)
    return shlex.quote(str(near) if len(near.parts) > 1 else f"./{near}")
