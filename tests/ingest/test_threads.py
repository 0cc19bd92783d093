"""What reads whole files has threads of its own, in both directions."""

from __future__ import annotations

import threading

from app.ingest.threads import in_thread
from tests.access.test_snapshot import shared_threads_taken


async def test_whole_files_are_read_while_all_shared_threads_are_taken() -> None:
    with shared_threads_taken():
        assert (await in_thread(threading.current_thread)).name.startswith("ingest")
