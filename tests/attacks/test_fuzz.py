"""Hundreds of requests that nobody should send: each is refused in its own form, none is an error of ours, and
nothing piles up. The same ones in every run of ``make test``; ``make soak`` draws forty times as many anew."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from app.oauth.authorize import PENDING_SECONDS
from app.oauth.login.sessions import cookie_name
from app.store.control import authorizations
from app.store.statement import statement
from tests.attacks.conftest import House, told
from tests.attacks.shots import MACHINES, PATHS, Known, Shot, shots
from tests.oauth.conftest import CALLBACK, form_of

TOGETHER = 20
EXAMPLES, SOAK_EXAMPLES = 25, 1000
FEW = 10
"""What the right requests among them may leave: one grant, its code and tokens."""

WORDS = re.compile(r"[\x20-\x21\x23-\x5b\x5d-\x7e]+")
"""What error and error_description may consist of (RFC 6749 §5.2)."""

STATUSES = {200, 201, 204, 303, 400, 401, 403, 404, 405, 413, 415, 429}
FORGET_BUDGET = statement("tests.attacks_forget", "MATCH (a:_SignInAttempts) DELETE a", writes=True, control=True)
ADD_QUESTIONS = statement(
    "tests.add_questions",
    """
    UNWIND range(1, $n) AS i
    CREATE (p:_PendingAuthorization {id: replace(randomUUID() + randomUUID(), '-', ''), expires_at: $at + i})
    RETURN count(p)
    """,
    writes=True,
    control=True,
)


async def known(house: House) -> Known:
    """A client with everything that it can hold, a question with its form, and a page to sign in."""
    life = await house.life()
    await life.register(token_endpoint_auth_method="client_secret_post")
    proof = {"client_id": life.client["client_id"], "client_secret": life.client["client_secret"]}
    tokens = (await life.exchange(await life.code(), client_secret=proof["client_secret"])).json()
    code, verifier = await life.code(), life.verifier
    consent = {name: values[0] for name, values in form_of((await life.to_consent()).text).items()}
    stranger = await house.life(signed_in=False)
    sign_in = form_of((await stranger.browser.get(f"{life.address}/sign-in")).text)
    asked = dict(parse_qsl(urlsplit(life.question()).query))
    mark = cookie_name(life.address)
    token = {"token": tokens["access_token"], "token_type_hint": "access_token"}
    return Known(
        {
            "/authorize": [asked, {**asked, "prompt": "login", "response_mode": "query"}],
            "/token": [
                {
                    "grant_type": "authorization_code",
                    "code": code,
                    "redirect_uri": CALLBACK,
                    "code_verifier": verifier,
                    "resource": f"{life.address}/mcp",
                    **proof,
                },
                {
                    "grant_type": "refresh_token",
                    "refresh_token": tokens["refresh_token"],
                    "scope": "memory:read",
                    **proof,
                },
                {"grant_type": "client_credentials", "scope": "memory:read", **proof},
                {
                    "grant_type": "authorization_code",
                    "code": code,
                    "client_assertion": tokens["access_token"],
                    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                },
            ],
            "/revoke": [{**token, **proof}, {"token": tokens["refresh_token"], **proof}],
            "/introspect": [{**token, **proof}],
            "/consent": [{**consent, "answer": "allow", "tenant": life.person.tenant.id}],
            "/sign-in": [
                {
                    "csrf": sign_in["csrf"][0],
                    "email": life.person.email,
                    "password": "wrong words",
                    "request": consent["request"],
                }
            ],
        },
        {
            "/consent": f"{mark}={life.browser.cookies[mark]}",
            "/sign-in": f"{mark}={stranger.browser.cookies[mark]}",
        },
    )


async def fire(client: httpx2.AsyncClient, shot: Shot) -> httpx2.Response:
    """The answer. A machine too busy to read it (503 with Retry-After) is asked again."""
    url = f"{shot.path}?{shot.query}" if shot.query else shot.path
    async with asyncio.timeout(120):
        while True:
            answer = await client.request(shot.method, url, content=shot.body, headers=shot.headers)
            if answer.status_code != 503 or "retry-after" not in answer.headers:
                return answer
            await asyncio.sleep(0.5)


def judge(shot: Shot, answer: httpx2.Response) -> None:
    """Refuse what is no answer of this endpoint."""
    assert answer.status_code in STATUSES, (shot, answer.status_code, answer.text[:300])
    assert "planted" not in answer.headers.get("set-cookie", ""), shot
    if answer.status_code == 303:
        where = answer.headers["location"]
        assert where.startswith((f"{CALLBACK}?", "/consent?request=", "/sign-in", "/signed-in")), (shot, where)
        told = dict(parse_qsl(urlsplit(where).query))
        assert all(WORDS.fullmatch(told.get(name, "x")) for name in ("error", "error_description")), (shot, where)
    if answer.status_code in (405, 413) or shot.method in ("OPTIONS", "HEAD"):
        return
    assert "no-store" in answer.headers["cache-control"], shot
    if shot.path in MACHINES and answer.status_code >= 400:
        said = answer.json()
        assert said.keys() <= {"error", "error_description"}, (shot, said)
        assert WORDS.fullmatch(said["error"]), (shot, said)
        assert WORDS.fullmatch(said["error_description"]), (shot, said)


async def each_of(
    volleys: st.SearchStrategy[list[Shot]],
    fired: Callable[[list[Shot]], Awaitable[None]],
    *,
    examples: int,
    derandomize: bool,
) -> None:
    """Draw so many volleys and await each one's end."""
    loop = asyncio.get_running_loop()

    @settings(
        max_examples=examples,
        derandomize=derandomize,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )
    @given(volleys)
    def hold(drawn: list[Shot]) -> None:
        asyncio.run_coroutine_threadsafe(fired(drawn), loop).result()

    await asyncio.to_thread(hold)


async def storm(house: House, capfd: pytest.CaptureFixture[str], *, examples: int, derandomize: bool) -> None:
    await house.database.control.write(lambda writing: writing.run(FORGET_BUDGET))
    right = await known(house)
    before, statuses = await house.records(), Counter[str]()
    asked: Counter[str] = Counter()
    async with httpx2.AsyncClient(base_url=house.addresses[0], trust_env=False, timeout=120) as client:

        async def all_of(drawn: list[Shot]) -> None:
            answers = await asyncio.gather(*(fire(client, shot) for shot in drawn))
            for shot, answer in zip(drawn, answers, strict=True):
                judge(shot, answer)
                asked[shot.path] += 1
                statuses[str(answer.status_code)] += 1
                statuses["question"] += answer.headers.get("location", "").startswith("/consent?request=")
                statuses["sign-in"] += shot.path == "/sign-in" and shot.method == "POST"

        volleys = st.lists(shots(right), min_size=TOGETHER, max_size=TOGETHER)
        await each_of(volleys, all_of, examples=examples, derandomize=derandomize)
    assert sum(asked.values()) >= examples * TOGETHER
    assert set(asked) == set(PATHS)
    assert min(statuses[each] for each in ("200", "201", "303", "400", "401")) > FEW  # right ones are among them
    grown = {label: n - before.get(label, 0) for label, n in (await house.records()).items()}
    assert grown.pop("_PendingAuthorization", 0) <= statuses["question"]
    assert grown.pop("_Audit", 0) <= statuses["sign-in"] + FEW
    assert grown.pop("_SignInAttempts", 0) <= min(statuses["sign-in"], 1000) + 1
    assert all(n <= FEW for n in grown.values()), grown
    assert [line for line in told(capfd) if line.get("event") == "oauth_refused"]


async def test_five_hundred_spoiled_requests_are_refused_in_words_and_leave_nothing(
    house: House, capfd: pytest.CaptureFixture[str]
) -> None:
    await storm(house, capfd, examples=EXAMPLES, derandomize=True)


@pytest.mark.soak
async def test_twenty_thousand_spoiled_requests_are_refused_in_words_and_leave_nothing(
    house: House, capfd: pytest.CaptureFixture[str]
) -> None:
    await storm(house, capfd, examples=SOAK_EXAMPLES, derandomize=False)


async def test_of_questions_that_nobody_answers_the_newest_are_kept(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of authorization requests takes a bounded place: what is beyond it goes, the oldest first."""
    services, most = house.services.main, 50
    monkeypatch.setattr(authorizations, "MOST_PENDING", most)
    monkeypatch.setattr(authorizations, "PART", 10_000)
    life = await house.life()
    await life.register()
    older = time.time() + PENDING_SECONDS / 2  # not over yet, or the gateway's own sweeping would have them
    await house.database.control.write(lambda writing: writing.run(ADD_QUESTIONS, n=most + 150, at=older))
    page = await life.to_consent()
    await services.authorizations.sweep(0.0)
    assert (await house.records())["_PendingAuthorization"] == most
    assert life.returned(await life.answer(page))["code"]
