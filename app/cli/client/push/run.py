"""``graphkeep push``: find, take secrets out, ask what is there, send the rest."""

from __future__ import annotations

import json
import ssl
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from app.cli.client.console import EX_CONFIG, emit, note, say
from app.cli.client.place import client_folder, read_token
from app.cli.client.push.begun import Begun
from app.cli.client.push.found import LeftOut, Local, find, folder, left_out
from app.cli.client.push.gateway import Gateway, Known, Refused
from app.cli.client.push.prepared import Prepared, prepare
from app.cli.client.push.sent import Sent
from app.counting import counted
from app.errors import StartError

__all__ = ["Options", "Tally", "push", "report", "run"]

_BLOCK: Final = 4 * 1024 * 1024
_NAMED: Final = 5
"""Files of one reason that a line names."""
_SECONDS: Final = 60.0
_LONGEST_SESSION: Final = 200
"""Characters of a session's id that the gateway takes; a longer one it finds in the file."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    address: str
    root: Path | None = None
    agents: bool = False
    layer: str | None = None
    dry_run: bool = False
    authority: Path | None = None
    again: tuple[str, ...] = ()
    """Names or sessions that are sent although they were cancelled at the gateway."""


@dataclass(slots=True)
class Tally:
    """What became of the files; ``sent_bytes`` travelled, ``redacted`` secrets stayed here."""

    sent: list[str] = field(default_factory=list)
    unchanged: int = 0
    cancelled: list[str] = field(default_factory=list)
    """Taken out of the queue at the gateway, and the same here since then."""
    failed: dict[str, str] = field(default_factory=dict)
    sent_bytes: int = 0
    redacted: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    """What is never sent, or not without being asked for."""

    def shown(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "sent": self.sent,
            "unchanged": self.unchanged,
            "cancelled": self.cancelled,
            "failed": self.failed,
            "sent_bytes": self.sent_bytes,
            "redacted": self.redacted,
            "left_out": [{"file": str(each.path), "why": each.why} for each in self.left_out],
        }


def run(options: Options, *, as_json: bool) -> int:
    """Send what is new; 1 when a file could not be sent.

    Raises:
        StartError: there is no token, no gateway, or no folder.
    """
    root = options.root or folder()
    if not (root / "projects").is_dir():
        raise StartError(f"{root} has no folder `projects`: nothing of Claude Code is there", exit_code=EX_CONFIG)
    files = find(root, agents=options.agents)
    with _client(options) as client:
        tally = push(Gateway(client, options.address), files, options, progress=_progress())
    tally.left_out = left_out(root, agents=options.agents)
    if as_json:
        emit(tally.shown())
        return 1 if tally.failed else 0
    report(tally, dry_run=options.dry_run)
    return 1 if tally.failed else 0


def report(tally: Tally, *, dry_run: bool) -> None:
    """Say in words what became of the files."""
    verb = "would be sent" if dry_run else "sent"
    say(
        f"{counted(len(tally.sent), 'file')} {verb} ({tally.sent_bytes / 1e6:.1f} MB), {tally.unchanged} unchanged, "
        f"{counted(tally.redacted, 'secret')} taken out"
    )
    for why, names in _by_reason(tally.left_out).items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        say(f"left out ({why}): {', '.join(names[:_NAMED])}{more}")
    if tally.cancelled:
        say(f"not sent, since cancelled at the gateway (--again NAME sends it): {', '.join(tally.cancelled)}")
    for name, reason in tally.failed.items():
        note(f"not sent: {name}: {reason}")


def _by_reason(passed: Sequence[LeftOut]) -> dict[str, list[str]]:
    """The files' names with the folder that each lies in."""
    found: dict[str, list[str]] = {}
    for each in passed:
        found.setdefault(each.why, []).append("/".join(each.path.parts[-3:]))
    return found


def push(gateway: Gateway, files: Sequence[Local], options: Options, *, progress: Callable[[str], None]) -> Tally:
    """Send each file that the gateway does not have as it is here; one that fails stops no other."""
    tally, begun, sent = Tally(), Begun(client_folder() / "push.json"), Sent()
    try:
        with tempfile.TemporaryDirectory(prefix="graphkeep-push-") as scratch:
            for number, local in enumerate(files, start=1):
                progress(f"{number} of {len(files)}: {local.name}")
                try:
                    _deal_with(gateway, local, Path(scratch), options, begun, sent, tally)
                except OSError as error:
                    tally.failed[local.name] = error.strerror or "it cannot be read"
                except Refused as refused:
                    tally.failed[local.name] = str(refused)
    finally:
        if not options.dry_run:
            sent.write()
    return tally


def _deal_with(
    gateway: Gateway, local: Local, scratch: Path, options: Options, begun: Begun, sent: Sent, tally: Tally
) -> None:
    seen = local.path.stat()
    known = gateway.known(local.name, options.layer)
    sha256 = sent.sha256(local.path, seen)
    if sha256 is None or not _settled(local, known, sha256, options, tally):
        prepared = prepare(local, scratch)
        sha256 = prepared.sha256
        _send(gateway, prepared, known, options, begun, tally)
        prepared.path.unlink()
    sent.add(local.path, seen, sha256)


def _settled(local: Local, known: Known | None, sha256: str, options: Options, tally: Tally) -> bool:
    """Whether what is here, with this hash, is there already, or was cancelled there and not asked for."""
    if known is None or known.sha256 != sha256:
        return False
    if not known.cancelled:
        tally.unchanged += 1
        return True
    if {local.name, local.session} & set(options.again):
        return False
    tally.cancelled.append(local.name)
    return True


def _send(
    gateway: Gateway, prepared: Prepared, known: Known | None, options: Options, begun: Begun, tally: Tally
) -> None:
    local = prepared.local
    if prepared.size == 0:
        tally.unchanged += 1
        return
    if _settled(local, known, prepared.sha256, options, tally):
        return
    there = known if known is not None and not known.cancelled else None
    goes_on = there is not None and prepared.begins_with(there.size, there.sha256)
    tally.redacted += prepared.redacted
    if options.dry_run:
        tally.sent.append(local.name)
        tally.sent_bytes += prepared.size - (there.size if there is not None and goes_on else 0)
        return
    key = json.dumps([options.address, options.layer, local.name])
    url, offset = _going_on(gateway, begun, key, prepared.sha256)
    if url is None or offset is None:
        upload = gateway.begin(_metadata(prepared, options, there.sha256 if there and goes_on else None), prepared.size)
        url, offset = upload.url, upload.offset
        begun.put(key, url, prepared.sha256)
    tally.sent_bytes += _bytes(gateway, prepared, url, offset)
    begun.drop(key)
    tally.sent.append(local.name)


def _going_on(gateway: Gateway, begun: Begun, key: str, sha256: str) -> tuple[str | None, int | None]:
    """The upload of this file that was interrupted, and how far it got. One of what the file held then is ended: it can
    never become what the file holds now, and would lie at the gateway for days."""
    match begun.get(key):
        case None:
            return None, None
        case (url, sent) if sent == sha256:
            return url, gateway.offset(url)
        case (url, _):
            gateway.end(url)
            begun.drop(key)
    return None, None


def _bytes(gateway: Gateway, prepared: Prepared, url: str, offset: int) -> int:
    """Send the bytes from ``offset`` on; how many they were."""
    first = offset
    with prepared.path.open("rb") as file:
        while True:
            file.seek(offset)
            block = file.read(_BLOCK)
            offset = gateway.send(url, offset, block)
            if offset >= prepared.size:
                return prepared.size - first


def _metadata(prepared: Prepared, options: Options, continues: str | None) -> dict[str, str]:
    local = prepared.local
    meta = {"source": "claude-code" if local.kind == "transcript" else "memory-file"}
    if local.session is not None and len(local.session) <= _LONGEST_SESSION:
        meta["session_id"] = local.session
    said = {
        "filename": local.name,
        "sha256": prepared.sha256,
        "continues": continues,
        "layer": options.layer,
        "meta": json.dumps(meta),
    }
    return {key: value for key, value in said.items() if value is not None}


def _client(options: Options) -> httpx2.Client:
    verify: bool | ssl.SSLContext = True
    if options.authority is not None:
        try:
            verify = ssl.create_default_context()
            verify.load_verify_locations(cafile=str(options.authority))
        except OSError as error:
            raise StartError(f"--authority: {options.authority} is no PEM file", exit_code=EX_CONFIG) from error
    headers = {"authorization": f"Bearer {read_token()}", "user-agent": "graphkeep-push"}
    return httpx2.Client(headers=headers, verify=verify, timeout=_SECONDS, follow_redirects=False)


def _progress() -> Callable[[str], None]:
    """One line that changes on a terminal; nothing elsewhere, where the closing line says it all."""
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda line: print(f"\r\x1b[K{line[:100]}", end="", file=sys.stderr, flush=True)
