"""Requests at the endpoints of the authorization server: right ones with a field or two spoiled, and noise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

from hypothesis import strategies as st

__all__ = ["MACHINES", "PATHS", "Known", "Shot", "shots"]

MACHINES = ("/token", "/register", "/revoke", "/introspect")
PATHS = ("/authorize", *MACHINES, "/consent", "/sign-in")
FORM = "application/x-www-form-urlencoded"

SPECIAL = (
    "",
    " ",
    "\x00",
    "\r\nSet-Cookie: planted=1",
    "\ud800",
    "\u202e",
    "é" * 50,
    "𝕏",
    "null",
    "-1",
    "1e999",
    "%00",
    "%",
    "'",
    '"',
    "\\",
    "${7*7}{{7*7}}<script>",
    "' OR 1=1 --",
    "../../etc/passwd",
    "x" * 5000,
    "a.b.c",
    "gk1.",
    "gk1..",
    "sa-",
    "sa-000000000000000000000000",
    "http://",
    "https://",
    "https://client.invalid/metadata.json",
    "https://127.0.0.1/metadata.json",
    "https://[::1",
    "https://x:99999999/",
    "cursor://",
    "javascript:alert(1)",
    "S256",
    "plain",
    "code",
    "token",
    "authorization_code",
    "refresh_token",
    "client_credentials",
    "urn:ietf:params:oauth:grant-type:jwt-bearer",
    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    "memory:read memory:write admin offline_access",
    "none",
    "login",
    "eyJhbGciOiJub25lIn0.e30.",
)


@dataclass(frozen=True)
class Known:
    """What is good at the gateway: the fields of a right request by path, and cookies of the pages."""

    right: Mapping[str, Sequence[Mapping[str, str]]]
    cookies: Mapping[str, str]


@dataclass(frozen=True)
class Shot:
    """One request. ``query`` and ``body`` are sent as they are."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def encoded(pairs: Sequence[tuple[str, str]]) -> str:
    return "&".join("=".join(quote_plus(each.encode("utf-8", "surrogatepass")) for each in pair) for pair in pairs)


def texts(known: Known) -> st.SearchStrategy[str]:
    good = sorted({value for fields in known.right.values() for each in fields for value in each.values()})
    surrogates: Any = st.characters()
    return st.one_of(st.sampled_from(SPECIAL), st.sampled_from(good), st.text(surrogates, max_size=60))


@st.composite
def spoiled(draw: st.DrawFn, known: Known, path: str) -> list[tuple[str, str]]:
    """The fields of a right request, up to three times changed, doubled, left out or added to."""
    pairs = list(draw(st.sampled_from(known.right[path])).items())
    names = sorted({name for fields in known.right.values() for each in fields for name in each})
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(pairs)))
        if place == len(pairs):
            pairs.append((draw(st.sampled_from(names) | st.sampled_from(SPECIAL)), draw(texts(known))))
            continue
        how = draw(st.sampled_from(("change", "change", "double", "drop")))
        if how == "drop":
            del pairs[place]
        else:
            changed = (pairs[place][0], draw(texts(known)))
            pairs[place : place + (how == "change")] = [changed]
        if not pairs:
            break
    return pairs


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(SPECIAL) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
METADATA: Mapping[str, Any] = {
    "client_name": "Fuzzed",
    "redirect_uris": ["http://127.0.0.1/callback"],
    "token_endpoint_auth_method": "none",
    "grant_types": ["authorization_code"],
    "response_types": ["code"],
    "scope": "memory:read",
    "client_uri": "https://example.org",
    "application_type": "native",
}


@st.composite
def metadata(draw: st.DrawFn) -> bytes:
    """The body of a registration with up to three values of any kind."""
    body = dict(METADATA)
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(sorted(METADATA)) | st.text(max_size=8))
        values = st.lists(st.sampled_from(SPECIAL), max_size=12) if name == "redirect_uris" else st.nothing()
        body[name] = draw(JSON | values)
    return json.dumps(body).encode()


def headers() -> st.SearchStrategy[dict[str, str]]:
    """Credentials and origins of all kinds; most requests have none."""
    value = st.sampled_from(
        ("Basic !!!", "Basic Z2sxLng6eA==", "Basic /////w==", "Basic", "Bearer x", "Digest a=b", "")
    )
    extra = {"Authorization": value, "Origin": st.sampled_from(("https://evil.example", "null", "https://claude.ai"))}
    return st.just({}) | st.just({}) | st.fixed_dictionaries({}, optional=extra)


@st.composite
def shots(draw: st.DrawFn, known: Known) -> Shot:
    """One request at one of :data:`PATHS`."""
    path = draw(st.sampled_from(PATHS))
    said = {**draw(headers()), **({"Cookie": known.cookies[path]} if path in known.cookies else {})}
    if draw(st.integers(0, 9)) == 0:
        return draw(noise(path, said))
    if path == "/register":
        return Shot("POST", path, body=draw(metadata()), headers={"Content-Type": "application/json", **said})
    fields = encoded(draw(spoiled(known, path)))
    if path == "/authorize" or (path in ("/consent", "/sign-in") and draw(st.booleans())):
        return Shot("GET", path, query=fields, headers=said)
    return Shot("POST", path, body=fields.encode(), headers={"Content-Type": FORM, **said})


@st.composite
def noise(draw: st.DrawFn, path: str, said: Mapping[str, str]) -> Shot:
    kind = draw(st.sampled_from((FORM, "application/json", "text/plain", "multipart/form-data; boundary=x", "")))
    query = draw(st.binary(max_size=80)).hex() if draw(st.booleans()) else encoded([("a", draw(st.text(max_size=50)))])
    return Shot(
        draw(st.sampled_from(("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"))),
        path,
        query=query,
        body=draw(st.binary(max_size=300)),
        headers={"Content-Type": kind, **said},
    )
