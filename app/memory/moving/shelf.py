"""The operator's shelf of backups: what a file is called, and which files of a folder are whose, the newest first.

Nothing in a file names its tenant, so its name does: the tenant's name, with a plus for a space, its id and the moment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from app.errors import InvalidInput
from app.store.control.tenants import Tenant

__all__ = ["Shelved", "backup_name", "shelved"]

_MOMENT: Final = "%Y-%m-%dT%H-%M-%S"
_NAME: Final = re.compile(
    r"(?P<name>[\w.+-]+)-(?P<id>tn-[0-9a-f]+)-(?P<moment>\d{4}(?:-\d\d){2}T\d\d-\d\d-\d\d)\.jsonl"
)


@dataclass(frozen=True, slots=True)
class Shelved:
    """A backup as its file's name describes it."""

    path: Path
    tenant: str
    """The name that the tenant had."""
    id: str
    """Its control id then."""
    moment: str
    """UTC; texts compare as the moments do."""


def backup_name(tenant: Tenant, moment: datetime) -> str:
    """The name of a backup of the tenant; the id is in it, since a name may be given anew."""
    return f"{tenant.name.replace(' ', '+')}-{tenant.id}-{moment.strftime(_MOMENT)}.jsonl"


def shelved(folder: Path) -> list[list[Shelved]]:
    """The backups in a folder, by tenant: the newest first of each, and the tenant with the newest first of all.

    Raises:
        InvalidInput: it cannot be read, or there is none in it.
    """
    try:
        names = [path.name for path in folder.iterdir() if path.is_file()]
    except OSError as error:
        raise InvalidInput(
            f"the folder cannot be read: {error.strerror}. Nothing was changed.", field="file"
        ) from error
    held: dict[str, list[Shelved]] = {}
    for found in filter(None, map(_NAME.fullmatch, names)):
        one = Shelved(folder / found[0], found["name"].replace("+", " "), found["id"], found["moment"])
        held.setdefault(one.id, []).append(one)
    if not held:
        raise InvalidInput("the folder holds no file that `graphkeep backup` named. Nothing was changed.", field="file")
    ordered = [sorted(each, key=lambda one: one.moment, reverse=True) for each in held.values()]
    return sorted(ordered, key=lambda each: (each[0].moment, each[0].id), reverse=True)
