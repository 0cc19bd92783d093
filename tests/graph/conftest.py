"""Sessions with time to spare: a busy machine must not fail a test of what is found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from app.store.database import TenantSession


@pytest.fixture
def open_session(open_session: Callable[..., TenantSession]) -> Callable[..., TenantSession]:
    return partial(open_session, seconds=600.0)
