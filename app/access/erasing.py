"""Erasing a tenant for good, and the signed certificate that says so.

A deleted tenant keeps its record until nothing else is left of it, so an erasure that was cut short goes on: with the
next command, or in a gateway that runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from app.context import OVERRUN_SECONDS, Deadline
from app.errors import CallError, Conflict
from app.oauth.vault import Vault
from app.settings import Settings
from app.store.control.audit import Audit
from app.store.control.keys import Keys
from app.store.control.moves import Moves
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database
from app.store.moving.erase import counted, erase_data, erase_tenant, forget_tenant, found

__all__ = ["Erasing", "certificate_folder"]

TYP: Final = "graphkeep-erasure+jwt"
_FOLLOW_SECONDS: Final = 5.0
_SWEEP_SECONDS: Final = 60.0
_SHOWN_SECONDS: Final = 10.0
_ROUNDS: Final = 3
"""Times that is erased what a call that was under way still wrote."""

_REMAINS: Final = (
    "A scan of every property of every record, but for those of other tenants, of people, programs and the gateway, "
    "found nothing that names this tenant; its own record went right after this was signed.",
    "Until they are written over, the database's files may still hold freed records, index segments that were not yet "
    "merged and transaction logs; so may its page cache and the disk beneath. `graphkeep compact` rebuilds the "
    "managed database's files without them; the files of an external one are its operator's to rebuild.",
    "Backups that operators made and exports that people fetched lie outside the database: delete those by name.",
    "Log lines of gateways lie outside the database too. Whatever was logged of this tenant has its id in the field "
    "that `log_lines` names, and neither its name nor a text: remove the lines with one of those values.",
    "Accounts of people stay, without their membership; the operators' audit keeps one line without a name. Of what "
    "operators asked of this tenant alone with graph_cypher it keeps hashes; what they asked of all tenants at once "
    "stays there in their words.",
)


Shown = Callable[[str], None]
"""Told in a sentence what an erasure waits for."""


def _unseen(_: str) -> None:
    """Nobody is there to be told."""


@dataclass(frozen=True, slots=True)
class _Files:
    many: int
    size: int


class Erasing:
    """Erases tenants that were deleted. ``alone``: no gateway serves from this database, so nobody is waited for."""

    def __init__(self, database: Database, settings: Settings, vault: Vault, *, alone: bool = False) -> None:
        self._control = database.control
        self._settings = settings
        self._vault = vault
        self._alone = alone
        self._tenants = Tenants(database.control)

    async def pending(self, name: str | None = None) -> list[Tenant]:
        """Deleted tenants of which something is left, all or those that bore this name."""
        return [
            tenant
            for tenant in await self._tenants.all()
            if tenant.state is TenantState.DELETED and (name is None or tenant.name.casefold() == name.casefold())
        ]

    async def erase(self, tenant: Tenant, *, shown: Shown = _unseen) -> dict[str, Any]:
        """Erase everything of a deleted tenant: {"certificate", "signed", "file"}, ``signed`` being a JWS of it.

        First it waits, by default for about two minutes, and says so every ten seconds by ``shown``.

        Raises:
            Conflict: it is not deleted, or something of it is left. CallError: the database does not answer. In each
                case the erasure goes on with the next call.
        """
        if tenant.state is not TenantState.DELETED:
            raise Conflict("only a deleted tenant can be erased; nothing was changed.")
        await self._until_calls_are_over(shown)
        return await self._erase(tenant)

    async def keep_going(self) -> None:
        """Erase what was deleted, for ever: for a gateway, whose console deletes."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            with contextlib.suppress(CallError, OSError):
                await self.sweep()

    async def sweep(self) -> None:
        """Erase every tenant that was deleted: what is left of one keeps no other waiting.

        Raises:
            CallError: the database does not answer.
        """
        gone = await self.pending()
        if gone:
            await self._until_calls_are_over(_unseen)
        for tenant in gone:
            with contextlib.suppress(CallError, OSError):
                await self._erase(tenant)

    async def _until_calls_are_over(self, shown: Shown) -> None:
        """Until no call is under way that was let in before every replica knew of the deletion."""
        if self._alone:
            return
        limits = self._settings.limits
        longest = max(limits.write_seconds, limits.whole_graph_seconds)
        until = Deadline.after(_FOLLOW_SECONDS + longest + OVERRUN_SECONDS)
        shown(
            "Deleted: gateways let nothing in any more. Calls that were under way may last up to "
            f"{until.remaining():.0f} s; after that everything is erased. Cut short, it goes on in a running gateway, "
            "or when the command is repeated."
        )
        while not until.passed:
            await asyncio.sleep(min(_SHOWN_SECONDS, until.remaining()))
            if not until.passed:
                shown(f"Waiting for calls that were under way: {until.remaining():.0f} s left")
        shown("Erasing")

    async def _erase(self, tenant: Tenant) -> dict[str, Any]:
        moves = [left.data for left in await Moves(self._control).of_tenant(tenant.id)]
        owners = sorted({tenant.id, tenant.data, *moves})
        files = await asyncio.to_thread(self._counted_files, owners)
        counts: dict[str, int] = {}
        for owner in owners:
            for kind, many in (await counted(self._control, owner)).items():
                counts[kind] = counts.get(kind, 0) + many
        began = await self._tenants.note_erasure(
            tenant.id, {"records": counts, "files": files.many, "file_bytes": files.size, "began": _now()}
        )
        scan = await self._wipe(tenant, owners)
        made = await self._certified(tenant, owners, began, scan)
        await forget_tenant(self._control, tenant.id)
        return made

    async def _wipe(self, tenant: Tenant, owners: list[str]) -> dict[str, int]:
        """Erase until a scan finds nothing; that scan."""
        left: dict[str, int] = {}
        for _ in range(_ROUNDS):
            for owner in owners:
                await erase_data(self._control, owner)
                await asyncio.to_thread(shutil.rmtree, self._settings.run.tenant_folder(owner), ignore_errors=True)
            await erase_tenant(self._control, *owners)
            left = await found(self._control, *owners)
            if not left and not any(self._settings.run.tenant_folder(owner).exists() for owner in owners):
                return left
        raise Conflict(
            f"something of the tenant {tenant.name!r} is left after erasing: "
            f"{', '.join(f'{kind} {many}' for kind, many in left.items()) or 'files'}. Repeat the command."
        )

    async def _certified(
        self, tenant: Tenant, owners: list[str], began: dict[str, Any], scan: dict[str, int]
    ) -> dict[str, Any]:
        certificate = {
            "jti": f"er-{secrets.token_hex(12)}",
            "iss": await Keys(self._control).ensure_gateway(),
            "iat": int(time.time()),
            "tenant": tenant.name,
            "ids": owners,
            "log_lines": {"field": "tenant", "values": owners},
            "erased": began["records"],
            "files": began["files"],
            "file_bytes": began["file_bytes"],
            "began": began["began"],
            "ended": _now(),
            "left": scan,
            "remains": list(_REMAINS),
        }
        signed = (await self._vault.ring()).sign(TYP, certificate)
        path = await asyncio.to_thread(_kept, certificate_folder(self._settings), certificate, signed)
        await self._note(certificate)
        return {"certificate": certificate, "signed": signed, "file": str(path)}

    async def _note(self, certificate: dict[str, Any]) -> None:
        admin = next((tenant for tenant in await self._tenants.all() if tenant.admin), None)
        if admin is not None:
            detail = {"records": sum(certificate["erased"].values()), "files": certificate["files"]}
            await Audit(self._control).append(
                tenant=admin.id, actor="command", action="tenant.erase", target=certificate["jti"], detail=detail
            )

    def _counted_files(self, owners: list[str]) -> _Files:
        sizes = [
            path.lstat().st_size
            for owner in owners
            for path in self._settings.run.tenant_folder(owner).rglob("*")
            if not path.is_dir()
        ]
        return _Files(len(sizes), sum(sizes))


def certificate_folder(settings: Settings) -> Path:
    """Where certificates are kept."""
    return settings.run.folder / "certificates"


def _kept(folder: Path, certificate: dict[str, Any], signed: str) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"erasure-{certificate['jti']}.json"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump({"certificate": certificate, "signed": signed}, file, ensure_ascii=False, indent=1)
    return path


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
