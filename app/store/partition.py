"""Names of partitions inside the full-text index."""

from __future__ import annotations

import hashlib
from functools import lru_cache

__all__ = ["partition_token"]


@lru_cache(maxsize=4096)
def partition_token(tenant: str, layer: str) -> str:
    """The one alphanumeric token that stands for (tenant, layer) in the full-text index (partition rule 20).

    ``tenant`` is the data id, ``layer`` as the data spells it. NUL occurs in neither, so no text is shared.
    """
    return "p" + hashlib.sha256(f"{tenant}\0{layer}".encode()).hexdigest()[:32]
