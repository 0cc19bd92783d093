"""One request to one page: who asks, about which tenant, what was sent, and how the answer is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from app.console.once import Shown, keep
from app.console.rights import Right, Standing, judge, may
from app.console.service import Console
from app.console.templates import TEMPLATES
from app.errors import NotFound
from app.oauth.forms import Parameters
from app.oauth.login.sessions import Visit
from app.oauth.pages import document, see_other
from app.oauth.secrets import Secrets
from app.oauth.service import Place
from app.store.control.users import User

__all__ = ["SAID", "Desk", "Handler", "number_of"]

SIGN_OUT: Final = "sign-out"
"""Name of the form that signs a browser out, as :mod:`app.oauth.login.password_page` knows it."""

SAID: Final = {
    "added": "Added.",
    "changed": "Saved. Programs and tokens that are in use follow within 5 seconds.",
    "deleted": "The tenant is deleted. Its tokens are refused within 5 seconds; what it held is erased after that.",
    "disconnected": "Disconnected. What the program holds is refused within 5 seconds.",
    "ended": "Signed out there.",
    "limits": "The limits are saved. Every gateway follows within 5 seconds.",
    "password": "Your password is changed, and every other browser is signed out.",
    "removed": "Removed.",
    "renamed": "Renamed.",
    "resumed": "The tenant goes on.",
    "revoked": "Revoked. It is refused within 5 seconds.",
    "rotated": "There is a new signing key. It signs in a few seconds; tokens that were signed before stay valid.",
    "suspended": "The tenant is suspended. Its tokens and connections are refused within 5 seconds.",
    "withdrawn": "Withdrawn. The link is worthless now.",
}
"""What a page can say after something was done; addresses name only the word before the colon."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything about one request. ``place`` is by what the person may be here, None on pages about themselves."""

    console: Console
    request: Request
    visit: Visit
    secrets: Secrets
    user: User
    standing: Standing
    place: Place | None
    query: Parameters
    form: Parameters = field(default_factory=lambda: Parameters([]))
    problem: str = ""
    status: int = 200

    @property
    def tenant(self) -> Place:
        """The place whose tenant the page is about.

        Raises:
            NotFound: the page is about none.
        """
        if self.place is None:
            raise NotFound("There is no such page.")
        return self.place

    def part(self, name: str) -> str:
        """A part of the path, by its name in the table of pages."""
        return str(self.request.path_params[name])

    def member(self, tenant_id: str | None) -> Place:
        """The place in a tenant that a form or query names.

        Raises:
            NotFound, Forbidden: as :func:`~app.console.rights.judge` says.
        """
        place = judge(self.standing, Right.MEMBER, tenant_id or "")
        if place is None:
            raise NotFound("There is no such tenant.")
        return place

    def csrf(self, action: str) -> str:
        """The token of the form that is posted to ``action``."""
        return self.secrets.token("csrf", self.visit.address, self.visit.token, action)

    def troubled(self, problem: str, status: int) -> Desk:
        """The same request, to be shown again with what was wrong."""
        return replace(self, problem=problem, status=status)

    def show(self, template: str, *, scripted: bool = False, **values: Any) -> Response:
        """A page. Each knows the person, the tenant it is about, and what to say; few run our script."""
        said = SAID.get(self.query.one("said") or "", "")
        text = TEMPLATES.get_template(f"{template}.html").render(
            **{
                "user": self.user,
                "standing": self.standing,
                "operator": self.standing.operator,
                "owned": self.standing.owned,
                "place": self.place,
                "path": self.request.url.path,
                "host": self.visit.address.partition("://")[2],
                "csrf": self.csrf,
                "sign_out": self.csrf(SIGN_OUT),
                "problem": self.problem,
                "said": "" if self.problem else said,
                "operates": may(self.standing, Right.OPERATOR, changes=True),
                **values,
            }
        )
        return document(text, status=self.status, scripted=scripted)

    def go(self, path: str, said: str = "") -> Response:
        """Go on to a page of the console (303), which says what was done."""
        return see_other(f"{path}?said={said}" if said in SAID else path)

    async def show_once(self, shown: Shown) -> Response:
        """Go on to a page (303) that shows a secret to this browser, once."""
        return see_other(f"/console/shown/{await keep(self.console.shown, self.visit, shown)}")

    async def note(self, action: str, *, tenant: str = "", target: str = "", **detail: str) -> None:
        """Write to the audit trail what this person did."""
        await self.console.services.note(action, actor=self.user.id, tenant=tenant, target=target, **detail)


Handler = Callable[[Desk], Awaitable[Response]]


def number_of(text: str | None, default: int) -> int:
    """A whole number that a form holds; ``default`` where there is none that is one."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else default
