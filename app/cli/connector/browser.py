"""A browser without a window: cookies, forms and redirects of the gateway's pages, with plain requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

import httpx2

__all__ = ["Browser", "Form", "Page"]

MAX_REDIRECTS: Final = 10
CHOSEN: Final = ("checkbox", "radio")
VALUELESS: Final = ("submit", "button", "image", "reset", "file")


@dataclass(slots=True)
class Form:
    """A form as it would be sent: ``fields`` in order, ``buttons`` as (name, value), ``wanted`` required and empty."""

    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    buttons: list[tuple[str, str]] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)

    def offers(self, name: str, value: str) -> bool:
        """Whether it has this button."""
        return (name, value) in self.buttons


@dataclass(frozen=True, slots=True)
class Page:
    """Where the browser ended: a page of the gateway, or the address elsewhere that it was sent to."""

    url: str
    status: int
    text: str
    forms: list[Form]
    elsewhere: str = ""

    @property
    def path(self) -> str:
        """Path of the page."""
        return urlsplit(self.url).path

    def form(self, name: str, value: str) -> Form | None:
        """The form with this button."""
        return next((form for form in self.forms if form.offers(name, value)), None)


class Browser:
    """Keeps the cookies of one origin, and follows its redirects; what leads elsewhere is only noted."""

    def __init__(self, client: httpx2.AsyncClient, origin: str) -> None:
        self._client = client
        self.origin = origin
        self.cookies: dict[str, str] = {}

    async def get(self, url: str) -> Page:
        """Open an address."""
        return await self._followed("GET", urljoin(self.origin, url), None)

    async def submit(self, page: Page, form: Form, /, button: tuple[str, str] | None = None, **values: str) -> Page:
        """Send a form as it stands on the page; ``values`` fill fields in."""
        pairs = [(name, values.pop(name, value)) for name, value in form.fields]
        pairs += [*values.items(), *([button] if button is not None else [])]
        return await self._followed(form.method, urljoin(page.url, form.action), pairs)

    async def _followed(self, method: str, url: str, pairs: list[tuple[str, str]] | None) -> Page:
        for _ in range(MAX_REDIRECTS):
            answer = await self._sent(method, url, pairs)
            location = answer.headers.get("location")
            if location is None or not 300 <= answer.status_code < 400:
                return Page(url, answer.status_code, answer.text, _forms(answer))
            url = urljoin(url, location)
            if _origin(url) != self.origin:
                return Page(url, answer.status_code, "", [], elsewhere=url)
            if answer.status_code not in (307, 308):
                method, pairs = "GET", None
        return Page(url, answer.status_code, "it redirects for ever", [])

    async def _sent(self, method: str, url: str, pairs: list[tuple[str, str]] | None) -> httpx2.Response:
        headers: dict[str, str] = {"Accept": "text/html"}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if method.upper() == "GET":
            answer = await self._client.get(url, headers=headers)
        else:
            headers |= {"Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded"}
            answer = await self._client.post(url, headers=headers, content=urlencode(pairs or []))
        self._keep(answer)
        return answer

    def _keep(self, answer: httpx2.Response) -> None:
        for line in answer.headers.get_list("set-cookie"):
            for name, morsel in SimpleCookie(line).items():
                if morsel.value and morsel["max-age"] != "0":
                    self.cookies[name] = morsel.value
                else:
                    self.cookies.pop(name, None)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _forms(answer: httpx2.Response) -> list[Form]:
    if not answer.headers.get("content-type", "").startswith("text/html"):
        return []
    reader = _Reader()
    reader.feed(answer.text)
    return reader.forms


class _Reader(HTMLParser):
    """Reads the forms of a page (HTML §4.10.22, constructing the entry list)."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._form: Form | None = None
        self._select = ""
        self._options: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = Form(given.get("action", ""), given.get("method", "get"))
            self.forms.append(self._form)
        elif self._form is None or "disabled" in given:
            return
        elif tag == "input":
            self._input(self._form, given)
        elif tag == "button" and given.get("type", "submit") == "submit":
            self._form.buttons.append((given.get("name", ""), given.get("value", "")))
        elif tag == "select":
            self._select, self._options = given.get("name", ""), []
        elif tag == "option":
            self._options.append((given.get("value", ""), "selected" in given))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "select" and self._form is not None and self._options and self._select:
            chosen = next((value for value, selected in self._options if selected), self._options[0][0])
            self._form.fields.append((self._select, chosen))
            self._select = ""

    @staticmethod
    def _input(form: Form, given: Mapping[str, str]) -> None:
        kind, name = given.get("type", "text"), given.get("name", "")
        if kind == "submit":
            form.buttons.append((name, given.get("value", "")))
        if not name or kind in VALUELESS:
            return
        if kind in CHOSEN and "checked" not in given:
            return
        value = given.get("value", "on" if kind in CHOSEN else "")
        form.fields.append((name, value))
        if "required" in given and not value:
            form.wanted.append(name)
