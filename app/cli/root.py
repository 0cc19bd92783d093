"""The commands. Each imports what it needs when it runs, so that ``graphkeep --help`` works with the base alone."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated

import typer

from app.cli import clients, inviting, moving, people, reembedding, rules
from app.cli.client.console import emit, require, say
from app.cli.client.reading import read_settings
from app.counting import counted

__all__ = ["commands"]

commands = typer.Typer(
    name="graphkeep",
    help="One private graph memory for people and their agents, reachable from every device over MCP.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
commands.add_typer(rules.tenants, name="tenant")
commands.add_typer(inviting.users, name="user")
commands.add_typer(people.tokens, name="token")
commands.add_typer(clients.clients, name="client")
commands.add_typer(clients.grants, name="grant")
commands.add_typer(clients.accounts, name="service-account")
commands.add_typer(clients.keys, name="key")
moving.register(commands)
commands.command()(reembedding.reembed)

Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]


@commands.command()
def dev(
    owner: Annotated[str | None, typer.Option(help="E-mail address of the first owner.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON when ready.")] = False,
) -> None:
    """Run everything on this machine: the database, the gateway, HTTPS."""
    require("server", "embedded")
    settings = read_settings()
    from app.cli.dev.supervisor import run

    run(settings, owner=owner, as_json=as_json)


@commands.command()
def serve() -> None:
    """Run the gateway alone (and the database, unless NEO4J_URI names one), behind a proxy of your own."""
    require("server")
    settings = read_settings()
    from app.cli.serving import run

    run(settings)


@commands.command()
def stdio(
    tenant: Annotated[str | None, typer.Option(help="Tenant to serve. Default: home.")] = None,
    user: Annotated[str | None, typer.Option(help="Whose tools and layers. Default: the tenant's first owner.")] = None,
) -> None:
    """Serve the tools to one local client over standard input and output."""
    require("server")
    settings = read_settings()
    from app.cli.local import run

    run(settings, tenant=tenant, user=user)


@commands.command()
def doctor(
    as_json: Json = False,
    alive: Annotated[bool, typer.Option("--alive", help="Only ask whether the gateway of this home answers.")] = False,
    connector: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Play a connector's whole life against this address instead, from anywhere."),
    ] = None,
    signin: Annotated[
        str | None, typer.Option(metavar="LINK", help="With --connector: a one-time link to sign in with.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="GRAPHKEEP_TOKEN",
            help="With --connector: a personal token to call tools with, where nobody signs in.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(help="With --connector on the gateway's machine: whom to sign in. Default: home's first owner."),
    ] = None,
    authority: Annotated[
        Path | None, typer.Option(help="With --connector: a root certificate (PEM) to trust besides the usual ones.")
    ] = None,
) -> None:
    """Say what works and what does not: settings, database, schema, model, addresses. Exit code 1 if anything fails."""
    require("server")
    settings = read_settings()
    if connector is not None:
        from app.cli.connector import run as connecting

        options = connecting.Options(signin=signin, token=token, user=user, authority=authority)
        raise typer.Exit(connecting.run(settings, connector, options, as_json=as_json))
    from app.cli.doctor import run

    raise typer.Exit(run(settings, as_json=as_json, alive=alive))


@commands.command()
def push(
    address: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="URL",
            help="Public address of the gateway. Default: GRAPHKEEP_ADDRESS, the file `address` beside the token, or "
            "this machine, at GRAPHKEEP_HTTP_PORT.",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Claude Code's folder. Default: CLAUDE_CONFIG_DIR, or .claude in your home.")
    ] = None,
    layer: Annotated[str | None, typer.Option(help="Layer to send into. Default: the token's write layer.")] = None,
    agents: Annotated[bool, typer.Option("--agents", help="Transcripts of helpers (agent-*) too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be sent, and what not.")] = False,
    again: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Send this one although it was cancelled; repeatable.")
    ] = None,
    authority: Annotated[
        Path | None, typer.Option(help="A root certificate (PEM) to trust besides the usual ones.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Send this device's Claude Code transcripts and memory files: only what is new, secrets taken out.

    The token comes from GRAPHKEEP_TOKEN or from the file `token` in this person's graphkeep folder.
    """
    from app.cli.client.place import read_address
    from app.cli.client.push.run import Options, run

    options = Options(
        address or read_address(),
        root=folder,
        agents=agents,
        layer=layer,
        dry_run=dry_run,
        authority=authority,
        again=tuple(again or ()),
    )
    raise typer.Exit(run(options, as_json=as_json))


@commands.command()
def pending() -> None:
    """Print what waits to be learned from, in one line, for the hook of a session; or nothing."""
    from app.cli.client.pending import run

    run()


@commands.command()
def plugin(
    folder: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("plugin"),
) -> None:
    """Write the plugin folder for Claude Code: skills, commands, the hook and the server's address to fill in."""
    require("server")
    from app.cli.plugin import write

    say(f"{counted(write(folder), 'file')} in {folder}")


@commands.command()
def version(as_json: Json = False) -> None:
    """Print the version."""
    found = installed_version("graphkeep")
    if as_json:
        emit({"version": found})
    else:
        say(found)
