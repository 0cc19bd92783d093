"""The memory toolset: entities and weighted, bi-temporal relations, learnt from conversations."""
