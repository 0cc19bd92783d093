"""A host that publishes documents of clients, which this gateway trusts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.oauth.publisher import Publisher, publishing


@pytest_asyncio.fixture
async def publisher(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Publisher]:
    async with publishing(tmp_path_factory.mktemp("publisher")) as opened:
        monkeypatch.setenv("SSL_CERT_FILE", str(opened.authority))
        yield opened
