"""Commands that let people in: invitations, one-time links, another address for an account."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.client.console import emit, say
from app.cli.people import Json, answer, do
from app.cli.tenancy import Email, users
from app.counting import counted

if TYPE_CHECKING:
    from app.cli.admitting import Admitting

__all__ = ["users"]

Tenant = Annotated[str, typer.Option(help="Tenant that the invitation leads into.")]


@users.command("invite")
def user_invite(
    tenant: Tenant,
    role: Annotated[str, typer.Option(help="owner, member or reader.")] = "member",
    email: Annotated[
        str | None, typer.Option(help="Only the account of this address can accept. Default: whoever has the link.")
    ] = None,
    read_layer: Annotated[
        list[str] | None, typer.Option(help="A layer that they may read, repeatable. Default: those of the role.")
    ] = None,
    write_layer: Annotated[
        list[str] | None, typer.Option(help="A layer that they may write, repeatable. Default: those of the role.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Public address at which it is accepted. Default: the first one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a link that makes one person a member: with the account they have, or a new one. It is valid for 7 days."""
    made = _do(
        lambda admitting: admitting.invite(
            tenant, role, email=email, read=read_layer, write=write_layer, address=address
        )
    )
    words = f"Give this link to the person, it makes them {made['role']} of {made['tenant']} once:\n{made['link']}"
    answer(made, words, as_json)


@users.command("invitations")
def user_invitations(tenant: Tenant, as_json: Json = False) -> None:
    """List the invitations into a tenant that nobody has accepted yet."""
    found = _do(lambda admitting: admitting.invitations(tenant))
    if as_json:
        emit({"invitations": found})
    for each in () if as_json else found:
        say("\t".join((each["id"], each["role"], each["email"] or "whoever has the link", f"until {each['expires']}")))


@users.command("withdraw")
def user_withdraw(
    invitation: Annotated[str, typer.Argument(help="Id from `graphkeep user invitations`.")],
    tenant: Tenant,
    as_json: Json = False,
) -> None:
    """Make the link of an invitation worthless."""
    gone = _do(lambda admitting: admitting.withdraw(tenant, invitation))
    answer(gone, f"Invitation {gone['id']} is withdrawn.", as_json)


@users.command("link")
def user_link(email: Email, as_json: Json = False) -> None:
    """Print a link for each public address that signs a person in once, within a day, and lets them set a password."""
    made = _do(lambda admitting: admitting.link(email))
    answer(made, "\n".join(made["signin"]), as_json)


@users.command("email")
def user_email(
    old: Annotated[str, typer.Argument(help="Address of the account now.")],
    new: Annotated[str, typer.Argument(help="Address from now on.")],
    as_json: Json = False,
) -> None:
    """Give an account another address. It stays the same account: memberships, connections and records stay."""
    changed = _do(lambda admitting: admitting.change_email(old, new))
    answer(changed, f"The account of {changed['from']} has the address {changed['email']} now.", as_json)


@users.command("sign-out")
def user_sign_out(
    email: Email,
    programs: Annotated[
        bool, typer.Option("--programs", help="Disconnect their programs too, and end their tokens, in every tenant.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Sign every browser of a person out, and make open sign-in links of theirs worthless."""
    ended = _do(lambda admitting: admitting.sign_out(email, programs=programs))
    more = " Their programs and tokens are refused within 5 seconds." if programs else ""
    browsers = counted(ended["ended"], "browser")
    answer(ended, f"Signed out: {browsers} of {ended['email']}.{more}", as_json)


@users.command("show")
def user_show(email: Email, as_json: Json = False) -> None:
    """Show one account: its tenants and its ways to sign in."""
    found = _do(lambda admitting: admitting.show(email))
    answer(
        found,
        "\n".join(
            (
                f"{found['email']} ({found['id']}), since {found['created']}",
                "tenants: " + (", ".join(f"{one['tenant']} ({one['role']})" for one in found["tenants"]) or "none"),
                f"password: {'yes' if found['password'] else 'no'}, passkeys: {found['passkeys']}, "
                f"recovery codes: {found['recovery_codes']}, providers: {', '.join(found['providers']) or 'none'}",
                f"browsers signed in: {found['browsers']}",
            )
        ),
        as_json,
    )


def _do(work: Callable[[Admitting], Awaitable[Any]]) -> Any:
    async def admitted(administration: Any) -> Any:
        from app.cli.admitting import Admitting

        return await work(Admitting(administration.database, administration.settings))

    return do(admitted)
