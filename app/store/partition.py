"""Names of partitions inside the full-text index."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

__all__ = ["NO_PARTITION", "partition_token"]

NO_PARTITION: Final = "nothing"
"""Stands where no layer may be read: no partition has this token, and a query without any would not parse."""


@lru_cache(maxsize=4096)
def partition_token(tenant: str, layer: str) -> str:
    """The one alphanumeric token that stands for (tenant, layer) in the full-text index (partition rule 20).

    ``tenant`` is the data id, ``layer`` as the data spells it. NUL occurs in neither, so no text is shared.
    """
    return "p" + hashlib.sha256(f"{tenant}\0{layer}".encode()).hexdigest()[:32]
