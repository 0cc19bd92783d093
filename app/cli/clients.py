"""Commands about clients, grants, service accounts and signing keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.client.console import emit, say
from app.cli.people import Json, answer, do

if TYPE_CHECKING:
    from app.cli.connections import Connections

__all__ = ["accounts", "clients", "grants", "keys"]

clients = typer.Typer(help="Programs that people connect.", no_args_is_help=True)
grants = typer.Typer(help="What people allowed programs to do.", no_args_is_help=True)
accounts = typer.Typer(help="Service accounts: programs that act for a tenant, without a person.", no_args_is_help=True)
keys = typer.Typer(help="Keys that tokens are signed with.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="Tenant that it belongs to.")]
Account = Annotated[str, typer.Argument(help="Client id or name from `graphkeep service-account list`.")]


@clients.command("add")
def client_add(
    name: Annotated[str, typer.Argument(help="Name that people see when it asks them.")],
    redirect_uri: Annotated[list[str], typer.Option(help="Where people are sent back to, byte for byte; repeatable.")],
    method: Annotated[
        str, typer.Option(help="client_secret_basic, client_secret_post, or none for a client without a secret.")
    ] = "client_secret_basic",
    as_json: Json = False,
) -> None:
    """Make a client and print its id and secret once: only a hash of the secret is stored."""
    made = _do(lambda connections: connections.add_client(name, redirect_uri, method))
    secret = f"\nclient_secret {made['client_secret']}" if made["client_secret"] else ""
    answer(made, f"client_id {made['client_id']}{secret}", as_json)


@clients.command("list")
def client_list(as_json: Json = False) -> None:
    """List the clients that were added here or that people connected."""
    found = _do(lambda connections: connections.clients())
    if as_json:
        emit({"clients": found})
    for client in () if as_json else found:
        shown = client["client_id"] if client["kind"] != "registered" else client["id"]
        say("\t".join((shown, client["kind"], client["state"], client["name"], client["host"], client["used"] or "-")))


@clients.command("remove")
def client_remove(
    client: Annotated[str, typer.Argument(help="Id from `graphkeep client list`.")], as_json: Json = False
) -> None:
    """Delete a client: it is unknown at once, and its tokens stop within 5 seconds."""
    gone = _do(lambda connections: connections.remove_client(client))
    answer(gone, f"{gone['name']} is deleted. Undo it with: graphkeep client restore '{client}'", as_json)


@clients.command("restore")
def client_restore(
    client: Annotated[str, typer.Argument(help="Id from `graphkeep client list`.")], as_json: Json = False
) -> None:
    """Let a deleted client ask people again; what it had been granted stays revoked."""
    back = _do(lambda connections: connections.restore_client(client))
    answer(back, f"{back['name']} may be connected again.", as_json)


@grants.command("list")
def grant_list(
    user: Annotated[str | None, typer.Option(help="Only this user's, by e-mail address.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only for this tenant.")] = None,
    as_json: Json = False,
) -> None:
    """List what programs may do at present, the last used first."""
    found = _do(lambda connections: connections.grants(user, tenant))
    if as_json:
        emit({"grants": found})
    for grant in () if as_json else found:
        scopes = " ".join(grant["scopes"])
        say("\t".join((grant["id"], grant["user"], grant["tenant"], grant["client"], grant["used"], scopes)))


@grants.command("revoke")
def grant_revoke(
    grant: Annotated[str, typer.Argument(help="Id from `graphkeep grant list`.")], as_json: Json = False
) -> None:
    """End a grant; every gateway follows within 5 seconds."""
    ended = _do(lambda connections: connections.revoke_grant(grant))
    answer(ended, f"{ended['client']} may do nothing any more for {ended['user']} in {ended['tenant']}.", as_json)


@accounts.command("add")
def account_add(
    name: Annotated[str, typer.Argument(help="Name, for example nightly-import.")],
    tenant: Tenant,
    scope: Annotated[list[str], typer.Option(help="What it may do, for example memory:read; repeatable.")],
    read_layer: Annotated[
        list[str] | None, typer.Option(help="A layer to read, repeatable. Default: tenant-wide.")
    ] = None,
    write_layer: Annotated[
        list[str] | None,
        typer.Option(help="A layer to write, repeatable; the first is where writes go. Default: tenant-wide."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a service account and print its id and secret once: only a hash of the secret is stored."""
    read = read_layer or ["tenant"]
    write = write_layer if write_layer is not None else ["tenant"] if _writes(scope) else []
    made = _do(lambda connections: connections.add_account(tenant, name, scopes=scope, read=read, write=write))
    answer(made, f"client_id {made['client_id']}\nclient_secret {made['client_secret']}", as_json)


@accounts.command("list")
def account_list(tenant: Tenant, as_json: Json = False) -> None:
    """List the service accounts of a tenant."""
    found = _do(lambda connections: connections.accounts(tenant))
    if as_json:
        emit({"service_accounts": found})
    for account in () if as_json else found:
        scopes = " ".join(account["scopes"])
        say("\t".join((account["client_id"], account["name"], account["used"] or "-", scopes)))


@accounts.command("renew")
def account_renew(account: Account, tenant: Tenant, as_json: Json = False) -> None:
    """Exchange a secret: the old one ends at once, tokens that it gave within 5 seconds."""
    made = _do(lambda connections: connections.renew_account(tenant, account))
    answer(made, f"client_id {made['client_id']}\nclient_secret {made['client_secret']}", as_json)


@accounts.command("remove")
def account_remove(account: Account, tenant: Tenant, as_json: Json = False) -> None:
    """Delete a service account: its tokens stop within 5 seconds."""
    gone = _do(lambda connections: connections.remove_account(tenant, account))
    answer(gone, f"{gone['name']} is deleted.", as_json)


@keys.command("list")
def key_list(as_json: Json = False) -> None:
    """List the signing keys: which one signs, which only verify tokens that still live."""
    _show_keys(_do(lambda connections: connections.keys()), as_json)


@keys.command("rotate")
def key_rotate(as_json: Json = False) -> None:
    """Make a new signing key. It signs in 10 seconds; tokens of the old one stay valid."""
    _show_keys(_do(lambda connections: connections.rotate_key()), as_json)


def _show_keys(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        emit({"keys": found})
    for key in () if as_json else found:
        say("\t".join((key["id"], key["state"], key["signs_from"], key["signs_until"] or "-")))


def _writes(scopes: list[str]) -> bool:
    return any(scope.endswith(":write") for scope in scopes)


def _do(work: Callable[[Connections], Awaitable[Any]]) -> Any:
    async def connected(administration: Any) -> Any:
        from app.cli.connections import Connections

        return await work(Connections(administration.database, administration.settings))

    return do(connected)
