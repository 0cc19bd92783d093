"""Commands that change a tenant and what its members are in it."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from app.cli.client.console import emit, note, say
from app.cli.people import Json, answer, do, tenants, users
from app.counting import counted

__all__ = ["layers", "tenants", "users"]

layers = typer.Typer(help="Layers of a tenant.", no_args_is_help=True)
tenants.add_typer(layers, name="layer")

Name = Annotated[str, typer.Argument(help="Name of the tenant.")]
Email = Annotated[str, typer.Argument(help="E-mail address of the account.")]
Tenant = Annotated[str, typer.Option(help="Tenant in which that is.")]


@tenants.command("rename")
def tenant_rename(
    name: Name, new: Annotated[str, typer.Argument(help="The name from now on.")], as_json: Json = False
) -> None:
    """Give a tenant another name. Its tokens, connections and records stay."""
    found = do(lambda administration: administration.rename_tenant(name, new))
    answer(found, f"Tenant {found['from']} is named {found['name']} now.", as_json)


@tenants.command("delete")
def tenant_delete(
    name: Name,
    confirm: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name once more (required): this cannot be undone.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Delete a tenant for good and erase all of it; a signed certificate says what went and what may be left on disk.

    Every gateway refuses its tokens within 5 seconds, and its name is free again. A deletion that was cut short goes
    on when the command is repeated.
    """
    if confirm is None:
        raise typer.BadParameter(
            f"this cannot be undone, so --confirm wants the tenant's name once more: --confirm {shlex.quote(name)}. "
            "Nothing was changed."
        )
    found = do(lambda administration: administration.delete_tenant(name, confirm, shown=note))
    erased = ", ".join(f"{kind} {many}" for kind, many in found["certificate"]["erased"].items()) or "nothing"
    files = counted(found["certificate"]["files"], "file")
    answer(found, f"Tenant {name} is deleted and erased: {erased}; {files}. Certificate: {found['file']}", as_json)


@layers.command("add")
def layer_add(
    name: Name,
    layer: Annotated[str, typer.Argument(help="Name of the layer, for example project:atlas.")],
    as_json: Json = False,
) -> None:
    """Make a layer of a tenant. Give it to members with `graphkeep user layers`."""
    found = do(lambda administration: administration.add_layer(name, layer))
    answer(found, f"Tenant {found['name']} has the layers {', '.join(found['layers'])}.", as_json)


@layers.command("list")
def layer_list(name: Name, as_json: Json = False) -> None:
    """List the layers of a tenant; `tenant` is what everyone in it shares."""
    found = do(lambda administration: administration.layers(name))
    answer(found, "\n".join(found["layers"]), as_json)


@users.command("list")
def user_list(tenant: Annotated[str, typer.Option(help="Only of this tenant.")], as_json: Json = False) -> None:
    """List the members of a tenant."""
    found = do(lambda administration: administration.members(tenant))
    if as_json:
        emit({"members": found})
    for member in () if as_json else found:
        reads, writes = (" ".join(member[what]) for what in ("read_layers", "write_layers"))
        say("\t".join((member["email"], member["role"], f"reads {reads}", f"writes {writes or '-'}")))


@users.command("role")
def user_role(
    email: Email,
    role: Annotated[str, typer.Argument(help="owner, member or reader.")],
    tenant: Tenant,
    as_json: Json = False,
) -> None:
    """Change the role of a member. A lower one ends the tokens and connections that they have there."""
    found = do(lambda administration: administration.change_user(email, tenant, role_name=role))
    answer(found, f"{found['email']} is {found['role']} of {found['tenant']}.", as_json)


@users.command("layers")
def user_layers(
    email: Email,
    tenant: Tenant,
    read_layer: Annotated[
        list[str] | None, typer.Option(help="A layer to read, repeatable. Default: those they read now.")
    ] = None,
    write_layer: Annotated[
        list[str] | None, typer.Option(help="A layer to write, repeatable. Default: those they write now.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show or change which layers a member may read and write."""
    found = do(lambda administration: administration.change_user(email, tenant, read=read_layer, write=write_layer))
    reads, writes = (", ".join(found[what]) or "none" for what in ("read_layers", "write_layers"))
    answer(found, f"{found['email']} reads {reads} and writes {writes} of {found['tenant']}.", as_json)
