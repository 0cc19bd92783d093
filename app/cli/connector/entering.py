"""Ways to sign in: with a one-time link, or through the store of a gateway on this machine."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from app.cli.connector.browser import Browser
from app.cli.connector.report import Trouble
from app.errors import NotFound

if TYPE_CHECKING:
    from app.settings import Settings

__all__ = ["Cookie", "Link", "through_the_store"]

SESSION_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Link:
    """A one-time link, as an owner or operator gives it to a person."""

    url: str

    async def enter(self, browser: Browser) -> None:
        """Follow it.

        Raises:
            Trouble: it belongs to another address, was used, has expired, or would set a password.
        """
        origin = f"{urlsplit(self.url).scheme}://{urlsplit(self.url).netloc}"
        if origin != browser.origin:
            raise Trouble(f"the link is for {origin}", f"Take the link for {browser.origin}: each address has its own.")
        page = await browser.get(self.url)
        form = next((form for form in page.forms if form.method.lower() == "post"), None)
        if form is None:
            raise Trouble("the link does not work", "It was used or has expired: make a new one.")
        if form.wanted:
            raise Trouble(
                "the link asks to set a password, which is not the doctor's to choose",
                "Open it yourself and set the password; then make a new link for the doctor.",
            )
        after = await browser.submit(page, form)
        if not browser.cookies or after.path == page.path:
            raise Trouble(f"the link leads to {after.path} with status {after.status}", "Make a new link.")


@dataclass(frozen=True, slots=True)
class Cookie:
    """A session that was made in the store."""

    name: str
    value: str

    async def enter(self, browser: Browser) -> None:
        """Bring the cookie along."""
        browser.cookies[self.name] = self.value


@asynccontextmanager
async def through_the_store(settings: Settings, address: str, email: str | None) -> AsyncIterator[Cookie]:
    """A session of ten minutes for a person of the gateway whose database this machine reaches; ended afterwards.

    ``email`` names the person; by default the first owner of ``home``.

    Raises:
        NotFound: there is no such person.
        StartError: no way to the database.
    """
    from app.access.service import accounts_of
    from app.cli.database import connected
    from app.cli.local import first_owner
    from app.oauth.login.sessions import cookie_name
    from app.oauth.secrets import digest
    from app.store.control.browser import BrowserStore, SessionRecord
    from app.store.control.tenants import HOME_TENANT

    async with connected(settings) as database:
        accounts = accounts_of(settings, database)
        user = await accounts.users.by_email(email or await first_owner(accounts, HOME_TENANT))
        if user is None:
            raise NotFound(f"{email} is nobody here; name a member with --user.")
        store, token, now = BrowserStore(database.control), secrets.token_urlsafe(32), time.time()
        await store.add_session(SessionRecord(digest(token), user.id, address, now, now + SESSION_SECONDS))
        await accounts.audit.append(tenant="", actor="command", action="doctor.sign_in", target=user.id)
        try:
            yield Cookie(cookie_name(address), token)
        finally:
            await store.end_session(digest(token))
