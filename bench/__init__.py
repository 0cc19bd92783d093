"""Reproducible benchmarks: ``python -m bench`` starts a gateway of its own, fills it, measures, writes the results."""
