"""Folders of what arrives: what never began goes soon, and a tenant's that was erased does not come back."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from app.errors import NotFound
from app.ingest.files import EMPTY_SECONDS, Files

DAYS = 7 * 24 * 3600.0


def test_an_upload_without_a_byte_goes_after_an_hour_and_one_with_a_byte_later(tmp_path: Path) -> None:
    files = Files(tmp_path, limit=100)
    files.prepare("tn-a")
    parts = files.parts("tn-a")
    long_ago = time.time() - EMPTY_SECONDS - 60
    for name, content, at in (("old", b"", long_ago), ("fed", b"x", long_ago), ("new", b"", time.time())):
        for path, body in ((parts / f"{name}.bin", content), (parts / f"{name}.json", b"{}")):
            path.write_bytes(body)
            os.utime(path, (at, at))
    files.sweep_parts(seconds=DAYS)
    assert sorted(path.name for path in parts.iterdir()) == ["fed.bin", "fed.json", "new.bin", "new.json"]


async def test_no_folder_of_an_erased_tenant_comes_back(tmp_path: Path) -> None:
    """Fault 29: neither by what arrived before the erasure, nor by the next file of a slow form, nor by a converter."""
    files = Files(tmp_path, limit=100)
    files.prepare("tn-a")
    staged = files.stage("tn-a")
    await staged.finish()
    shutil.rmtree(tmp_path / "tenants" / "tn-a")
    with pytest.raises(FileNotFoundError):
        files.keep(staged.path, "tn-a", "in-1")
    with pytest.raises(FileNotFoundError):
        files.scratch("tn-a")
    with pytest.raises(NotFound, match="put away"):
        files.stage("tn-a")
    assert list((tmp_path / "tenants").iterdir()) == []
