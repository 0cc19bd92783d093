"""Commands about tenants, users and personal tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.client.console import emit, require, say
from app.cli.client.reading import read_settings

if TYPE_CHECKING:
    from app.cli.administration import Administration

__all__ = ["Json", "answer", "do", "tenants", "tokens", "users"]

tenants = typer.Typer(help="Tenants: each a memory of its own.", no_args_is_help=True)
users = typer.Typer(help="People and what they are in a tenant.", no_args_is_help=True)
tokens = typer.Typer(help="Personal access tokens, for agents without a browser.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]


@tenants.command("add")
def tenant_add(
    name: Annotated[str, typer.Argument(help="Name, for example family-archive.")], as_json: Json = False
) -> None:
    """Make a tenant."""
    made = do(lambda administration: administration.add_tenant(name))
    answer(made, f"Tenant {made['name']} made. Next: graphkeep user add EMAIL --tenant '{made['name']}'", as_json)


@tenants.command("suspend")
def tenant_suspend(name: Annotated[str, typer.Argument(help="Name of the tenant.")], as_json: Json = False) -> None:
    """Refuse every call of a tenant; every gateway follows within 5 seconds. Its data stays."""
    found = do(lambda administration: administration.suspend_tenant(name))
    answer(found, f"Tenant {found['name']} is suspended. Undo it with: graphkeep tenant resume '{name}'", as_json)


@tenants.command("resume")
def tenant_resume(name: Annotated[str, typer.Argument(help="Name of the tenant.")], as_json: Json = False) -> None:
    """Let a suspended tenant go on."""
    found = do(lambda administration: administration.resume_tenant(name))
    answer(found, f"Tenant {found['name']} is {found['state']}.", as_json)


@tenants.command("list")
def tenant_list(as_json: Json = False) -> None:
    """List the tenants."""
    found = do(lambda administration: administration.tenants())
    if as_json:
        emit({"tenants": found})
    for tenant in () if as_json else found:
        say(f"{tenant['name']}\t{tenant['state']}{' (operators)' if tenant['admin'] else ''}")


@users.command("add")
def user_add(
    email: Annotated[str, typer.Argument(help="E-mail address: the name of the account.")],
    tenant: Annotated[str, typer.Option(help="Tenant that they belong to.")],
    role: Annotated[
        str | None, typer.Option(help="owner, member or reader. Default: what they are, or else member.")
    ] = None,
    read_layer: Annotated[
        list[str] | None,
        typer.Option(
            help="A layer that they may read, repeatable. Default: those they have, or else every one for owners and "
            "tenant-wide for others."
        ),
    ] = None,
    write_layer: Annotated[
        list[str] | None, typer.Option(help="A layer that they may write, repeatable. Default: as for reading.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make someone a member of a tenant, or change what they are there; print a link that signs them in once."""
    made = do(lambda administration: administration.add_user(email, tenant, role, read=read_layer, write=write_layer))
    answer(
        made,
        f"{made['email']} is {made['role']} of {made['tenant']}. Give them this link, it signs them in once:\n"
        + "\n".join(made["signin"]),
        as_json,
    )


@users.command("remove")
def user_remove(
    email: Annotated[str, typer.Argument(help="E-mail address of the account.")],
    tenant: Annotated[str, typer.Option(help="Tenant that they shall leave.")],
    as_json: Json = False,
) -> None:
    """End a membership: the tokens that it gave stop within 5 seconds. The account stays."""
    ended = do(lambda administration: administration.remove_user(email, tenant))
    answer(ended, f"{email} does not belong to {tenant} any more.", as_json)


@tokens.command("create")
def token_create(
    user: Annotated[str, typer.Option(help="E-mail address of the user that the token acts for.")],
    tenant: Annotated[str, typer.Option(help="Tenant that it is bound to.")],
    scope: Annotated[
        list[str] | None, typer.Option(help="A scope, repeatable. Default: all that the role allows.")
    ] = None,
    read_layer: Annotated[
        list[str] | None, typer.Option(help="A layer to read, repeatable. Default: all that the user may.")
    ] = None,
    write_layer: Annotated[
        list[str] | None,
        typer.Option(help="A layer to write, repeatable; the first is where writes go. Default: tenant-wide."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=365, help="Days that it is valid.")] = 90,
    as_json: Json = False,
) -> None:
    """Make a token and print it once: only its id is stored."""
    made = do(
        lambda administration: administration.create_token(
            user, tenant, scopes=scope, read=read_layer, write=write_layer, days=days
        )
    )
    answer(made, made["token"], as_json)


@tokens.command("list")
def token_list(
    user: Annotated[str | None, typer.Option(help="Only this user's.")] = None, as_json: Json = False
) -> None:
    """List tokens by id; the tokens themselves are stored nowhere."""
    found = do(lambda administration: administration.tokens(user))
    if as_json:
        emit({"tokens": found})
    for token in () if as_json else found:
        scopes = " ".join(token["scopes"])
        say("\t".join((token["id"], token["user"], token["tenant"], token["state"], token["expires"], scopes)))


@tokens.command("revoke")
def token_revoke(
    token_id: Annotated[str, typer.Argument(help="Id from `graphkeep token list`.")], as_json: Json = False
) -> None:
    """End a token; every gateway follows within 5 seconds."""
    ended = do(lambda administration: administration.revoke_token(token_id))
    answer(ended, f"Token {ended['id']} is revoked.", as_json)


def answer(value: Mapping[str, Any], words: str, as_json: bool) -> None:
    """Print what a command found: a line of JSON for scripts, words for people."""
    if as_json:
        emit(value)
    else:
        say(words)


def do(work: Callable[[Administration], Awaitable[Any]]) -> Any:
    """Run one piece of administration on the database that the settings lead to."""
    require("server")
    settings = read_settings()
    from app.cli.administration import administration
    from app.edge import logs

    # Standard output is for the answer.
    logs.configure("warning")

    async def run() -> Any:
        async with administration(settings) as opened:
            return await work(opened)

    return asyncio.run(run())
