"""Parts of one answer at the same time."""

from __future__ import annotations

import asyncio

import pytest

from app.together import together


async def test_answers_come_in_the_order_of_their_parts() -> None:
    second_is_done = asyncio.Event()

    async def first() -> str:
        await second_is_done.wait()
        return "first"

    async def second() -> int:
        second_is_done.set()
        return 2

    assert await together(first(), second()) == ("first", 2)


async def test_where_one_fails_the_others_are_called_off_and_its_error_is_told() -> None:
    began, called_off = asyncio.Event(), asyncio.Event()

    async def for_ever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()

    async def failing() -> None:
        await began.wait()
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await together(for_ever(), failing())
    assert called_off.is_set()
