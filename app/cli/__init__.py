"""The command ``graphkeep``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; what goes wrong on purpose is a sentence and an exit code, never a traceback."""
    if sys.argv[1:] == ["pending"]:  # a hook of every session: nothing else is imported for it
        from app.cli.client.pending import run

        run()
        return
    from app.cli.client.console import note
    from app.cli.root import commands
    from app.errors import CallError, StartError

    try:
        commands()
    except StartError as error:
        note(f"graphkeep: {error.message}")
        sys.exit(error.exit_code)
    except CallError as error:
        note(f"graphkeep: {error.message}")
        sys.exit(1)
