"""The converter as a process of its own: ``python -I -m app.ingest.convert SOURCE RESULT NAME MEGABYTES SECONDS``.

It reads one file that a stranger may have made, so it first gives up what it does not need: memory and time beyond the
limits, the network, other programs. The caller watches the clock. Ends with 0 and the text in RESULT, or with another
code and one JSON object ``{"reason": …}`` on standard output, in words of this module alone.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final, NoReturn

from app.ingest.cues import spoken

__all__ = ["FAILED", "MISSING", "REFUSED", "Refused", "check_archive", "main"]

REFUSED: Final = 3
MISSING: Final = 4
FAILED: Final = 5

ENTRIES: Final = 5_000
UNPACKED: Final = 512 * 1024 * 1024
RATIO: Final = 200
RATIO_FROM: Final = 1024 * 1024
"""Smaller entries may be packed as tightly as they like."""

_ARCHIVES: Final = frozenset({".docx", ".xlsx", ".pptx", ".epub", ".zip"})
_PACKED: Final = (
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"7z\xbc\xaf",
    b"Rar!",
    b"\x28\xb5\x2f\xfd",
)
"""How archives begin."""
_IMAGES: Final = frozenset({".png", ".jpg", ".jpeg"})
_SUBTITLES: Final = frozenset({".srt", ".vtt"})
_TAGS: Final = {270: "Description", 306: "Date", 315: "Artist", 33432: "Copyright", 37510: "Comment"}
_UNSAID: Final = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.bind",
    "socket.sendto",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
)


class Refused(Exception):
    """The file is not opened at all; the message says why."""


def check_archive(path: Path, ending: str) -> None:
    """Look at an archive's table before anything is unpacked.

    Raises:
        Refused: it unpacks to too much, holds archives, or names files outside itself.
    """
    packed = _is_archive(path)
    if packed != (ending in _ARCHIVES):
        raise Refused("its content is not what its name says")
    if not packed:
        return
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            _check_entries(entries)
            if ending == ".zip":
                _check_nested(archive, entries)
    except (zipfile.BadZipFile, zlib.error, ValueError, OSError, NotImplementedError, EOFError):
        raise Refused("the archive is damaged") from None


def _check_entries(entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > ENTRIES:
        raise Refused(f"the archive has more than {ENTRIES} entries")
    if sum(entry.file_size for entry in entries) > UNPACKED:
        raise Refused(f"the archive unpacks to more than {UNPACKED // 2**20} MiB")
    for entry in entries:
        _check_entry(entry)


def _check_nested(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> None:
    """Office documents are archives too: whoever has some sends them one by one, so that each is looked at."""
    for entry in entries:
        with archive.open(entry) as file:
            if file.read(6).startswith(_PACKED):
                raise Refused("the archive holds another archive or an office document; send it by itself")


def _check_entry(entry: zipfile.ZipInfo) -> None:
    parts = entry.filename.replace("\\", "/").split("/")
    if ".." in parts or parts[0] == "" or ":" in parts[0] or "\0" in entry.filename:
        raise Refused("the archive names files outside itself")
    if entry.flag_bits & 1:
        raise Refused("the archive is encrypted")
    if entry.file_size > RATIO_FROM and entry.file_size > RATIO * max(1, entry.compress_size):
        raise Refused("the archive is packed tighter than any document is")


def _is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) in {b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"}


def _bounded(megabytes: int, seconds: int) -> None:
    for kind, limit in (
        (resource.RLIMIT_AS, megabytes * 1024 * 1024),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 64 * 1024 * 1024),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
    ):
        resource.setrlimit(kind, (limit, limit))


def _first_to_go() -> None:
    """When the machine runs out of memory, this process ends before any other."""
    with contextlib.suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text("1000")


def _alone(event: str, _: tuple[Any, ...]) -> None:
    if event in _UNSAID:
        raise PermissionError("a converter needs neither a network nor other programs")


def _picture(path: Path, name: str) -> str:
    """What an image says of itself; its content is for eyes."""
    from PIL import Image

    with Image.open(path) as image:
        lines = [f"# {name}", "", f"An image ({image.format}, {image.width} x {image.height} pixels)."]
        said = {_TAGS[tag]: value for tag, value in image.getexif().items() if tag in _TAGS}
        said |= {str(key): value for key, value in image.info.items() if isinstance(value, str)}
    lines += [f"- {key}: {' '.join(str(value).split())[:2000]}" for key, value in said.items()]
    return "\n".join(lines) + "\n"


def _converted(path: Path, ending: str, name: str) -> str:
    if ending in _IMAGES:
        return _picture(path, name)
    if ending in _SUBTITLES:
        return spoken(path.read_text("utf-8", errors="replace"))
    from markitdown import MarkItDown, StreamInfo

    with path.open("rb") as file:
        text: str = (
            MarkItDown(enable_plugins=False)
            .convert_stream(file, stream_info=StreamInfo(extension=ending, filename=f"document{ending}"))
            .text_content
        )
    return text


def _end(code: int, reason: str) -> NoReturn:
    sys.stdout.write(json.dumps({"reason": reason}))
    sys.stdout.flush()
    sys.exit(code)


def main(arguments: list[str]) -> None:
    """Convert one file."""
    source, result, name = Path(arguments[0]), Path(arguments[1]), arguments[2]
    ending = Path(name).suffix.lower()
    _first_to_go()
    _bounded(int(arguments[3]), int(arguments[4]))
    sys.addaudithook(_alone)
    try:
        check_archive(source, ending)
        text = _converted(source, ending, name)
    except Refused as refused:
        _end(REFUSED, str(refused))
    except ImportError:
        _end(MISSING, "this gateway has no converter; its operator can install it: pip install 'graphkeep[convert]'")
    except MemoryError:
        _end(FAILED, "it needs more memory than a conversion may take")
    except Exception as error:  # noqa: BLE001 - of libraries that read what strangers made; only the kind is told
        missing = type(error).__name__ == "MissingDependencyException"
        _end(
            MISSING if missing else FAILED,
            "a part of the converter for this format is not installed"
            if missing
            else "it could not be read as such a file",
        )
    if not text.strip():
        _end(FAILED, "no text was found in it (pictures of text are not recognised)")
    try:
        result.write_text(text, encoding="utf-8", errors="replace")
    except OSError:
        _end(FAILED, "its text is longer than 64 MiB")


if __name__ == "__main__":
    main(sys.argv[1:])
