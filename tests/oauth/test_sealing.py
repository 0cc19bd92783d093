from __future__ import annotations

import base64
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.errors import StartError
from app.oauth.sealing import KEY_FILE, Sealer, UnreadableSeal, write_private
from app.settings import OAuthSettings


def test_what_was_sealed_opens_for_the_same_purpose_only() -> None:
    sealer = Sealer(bytes(range(32)))
    sealed = sealer.seal(b"value", "one")
    assert sealer.open(sealed, "one") == b"value"
    assert sealer.seal(b"value", "one") != sealed
    with pytest.raises(UnreadableSeal):
        sealer.open(sealed, "two")
    with pytest.raises(UnreadableSeal):
        Sealer(bytes(32)).open(sealed, "one")


@pytest.mark.parametrize("text", ["", "A", "AAAA", "é", "!" * 60, base64.urlsafe_b64encode(bytes(60)).decode()])
def test_what_was_never_sealed_does_not_open(text: str) -> None:
    with pytest.raises(UnreadableSeal):
        Sealer(bytes(32)).open(text, "one")


def test_the_key_file_is_made_once_and_private(tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = OAuthSettings(secret_key=None)
    sealed = Sealer.of(settings, home).seal(b"value", "one")
    assert Sealer.of(settings, home).open(sealed, "one") == b"value"
    assert stat.S_IMODE((home / KEY_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_file_that_others_may_read_is_refused_with_what_to_do(tmp_path: Path, mode: int) -> None:
    settings = OAuthSettings(secret_key=None)
    Sealer.of(settings, tmp_path)
    (tmp_path / KEY_FILE).chmod(mode)
    with pytest.raises(StartError, match="chmod 600"):
        Sealer.of(settings, tmp_path)
    (tmp_path / KEY_FILE).chmod(0o600)
    Sealer.of(settings, tmp_path)


def test_processes_that_start_at_once_agree_on_the_key_file(tmp_path: Path) -> None:
    settings = OAuthSettings(secret_key=None)
    with ThreadPoolExecutor(8) as pool:
        sealers = list(pool.map(lambda _: Sealer.of(settings, tmp_path), range(8)))
    sealed = sealers[0].seal(b"value", "one")
    assert [each.open(sealed, "one") for each in sealers] == [b"value"] * 8


@pytest.mark.parametrize("text", ["short", "!" * 43, base64.urlsafe_b64encode(bytes(16)).decode()])
def test_an_unusable_key_stops_the_start_and_says_how_to_make_one(tmp_path: Path, text: str) -> None:
    with pytest.raises(StartError, match="GRAPHKEEP_SECRET_KEY must hold 32 bytes") as refusal:
        Sealer.of(OAuthSettings(secret_key=SecretStr(text)), tmp_path)
    assert text not in refusal.value.message
    assert refusal.value.exit_code == 78


def test_a_broken_key_file_stops_the_start(tmp_path: Path) -> None:
    write_private(tmp_path / KEY_FILE, "é broken".encode())
    with pytest.raises(StartError, match=KEY_FILE):
        Sealer.of(OAuthSettings(secret_key=None), tmp_path)


def test_a_private_file_is_written_whole_or_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert write_private(path, b"first")
    assert not write_private(path, b"second", replace=False)
    assert path.read_bytes() == b"first"
    assert write_private(path, b"third")
    assert path.read_bytes() == b"third"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
