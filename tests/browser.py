"""What every page must be in a real Chromium: free of findings of axe, and no wider than the screen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import CDPSession, Page, ViewportSize

SHOTS = os.environ.get("GRAPHKEEP_TEST_SCREENSHOTS")
"""A folder for pictures of every page."""
SIZES: Final = {"desktop": ViewportSize(width=1280, height=900), "phone": ViewportSize(width=375, height=740)}


async def inspect(page: Page, name: str, sizes: Mapping[str, ViewportSize] = SIZES) -> None:
    """No finding of axe and nothing wider than the screen: colours change with the scheme alone, not with the width."""
    for size, scheme in (("desktop", "light"), ("phone", "dark")):
        await page.set_viewport_size(sizes[size])
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        if SHOTS:
            await page.screenshot(path=f"{SHOTS}/{name}-{size}-{scheme}.png", full_page=True)
        wide = await page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        assert not wide, f"{name} is wider than a {size}"
        found = await Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, f"{name}, {size}, {scheme}: {found.generate_report()}"


async def authenticator(session: CDPSession, *, verifies: bool = True) -> str:
    """Give a browser a platform authenticator that answers by itself; its id."""
    await session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": verifies,
        "automaticPresenceSimulation": True,
    }
    added = await session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return str(added["authenticatorId"])
