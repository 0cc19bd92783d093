"""``python -m app.embedding.fetch MODEL FOLDER``: put a model into the cache; ends with 1 when it cannot be had."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(name: str, cache: str) -> int:
    """Fetch the model ``name`` into the folder ``cache``."""
    from fastembed import TextEmbedding

    try:
        TextEmbedding(name, cache_dir=cache)
    except (ValueError, OSError):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
