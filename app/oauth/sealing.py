"""Encryption at rest of signing keys, named secrets and the local snapshot: AES-256-GCM (NIST SP 800-38D)."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.errors import StartError
from app.settings import OAuthSettings

__all__ = ["KEY_FILE", "Sealer", "UnreadableSeal", "write_private"]

KEY_FILE: Final = "secret.key"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
OTHERS: Final = 0o077
"""Rights of a file that are not its owner's."""

BAD_CONFIGURATION: Final = 78  # EX_CONFIG


class UnreadableSeal(Exception):
    """A sealed value was made with another key, for another purpose, or was changed."""


class Sealer:
    """Seals bytes for one purpose; what was sealed for one purpose does not open for another."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a sealing key has {KEY_BYTES} bytes")
        self._cipher = AESGCM(key)

    @classmethod
    def of(cls, settings: OAuthSettings, home: Path) -> Sealer:
        """The sealer of this installation: the key of the settings, else that of a 0600 file made on first use.

        Raises:
            StartError: the configured key or the file does not hold 32 bytes in base64url, or others may read the
                file.
        """
        if settings.secret_key is not None:
            return cls(_decode(settings.secret_key.get_secret_value(), "GRAPHKEEP_SECRET_KEY"))
        return cls(_decode(_file_key(home / KEY_FILE), f"the file {KEY_FILE} in the home folder"))

    def seal(self, value: bytes, purpose: str) -> str:
        """Encrypt and authenticate ``value``; the answer is base64url text."""
        nonce = os.urandom(NONCE_BYTES)
        return base64.urlsafe_b64encode(nonce + self._cipher.encrypt(nonce, value, purpose.encode())).decode()

    def open(self, sealed: str, purpose: str) -> bytes:
        """Undo :meth:`seal`.

        Raises:
            UnreadableSeal: another key, another purpose, or changed text.
        """
        try:
            raw = base64.urlsafe_b64decode(sealed)
            return self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], purpose.encode())
        except (binascii.Error, ValueError, InvalidTag) as error:
            raise UnreadableSeal("a sealed value cannot be opened with this key") from error


def write_private(path: Path, content: bytes, *, replace: bool = True) -> bool:
    """Write a file that only its owner reads, whole or not at all.

    With ``replace=False`` an existing file stays, and the answer is False: of several writers one wins.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
            return True
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        return True
    finally:
        Path(temporary).unlink(missing_ok=True)


def _file_key(path: Path) -> str:
    if not path.exists():
        write_private(path, base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)), replace=False)
    if path.stat().st_mode & OTHERS:
        raise StartError(
            f"the file {path} opens every key of this gateway, and others on this machine may read it. Close it with "
            f"`chmod 600 {path}`.",
            exit_code=BAD_CONFIGURATION,
        )
    return path.read_text("ascii", errors="replace").strip()


def _decode(text: str, origin: str) -> bytes:
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise StartError(
            f"{origin} must hold {KEY_BYTES} bytes in base64url; make one with "
            '`python -c "import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())"`.',
            exit_code=BAD_CONFIGURATION,
        )
    return key
