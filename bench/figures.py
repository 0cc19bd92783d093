"""Percentiles and the table that people read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

__all__ = ["Figures", "percentile", "table"]


@dataclass(frozen=True)
class Figures:
    """One measured series: latencies in milliseconds, throughput in calls a second."""

    calls: int
    p50: float
    p95: float
    p99: float
    per_second: float

    @classmethod
    def of(cls, seconds: Sequence[float], elapsed: float) -> Figures:
        """Sum up latencies (seconds) of calls that together took ``elapsed`` seconds."""
        ordered = sorted(seconds)
        p50, p95, p99 = (round(percentile(ordered, share) * 1000, 2) for share in (0.50, 0.95, 0.99))
        return cls(len(ordered), p50, p95, p99, round(len(ordered) / elapsed, 1))

    def as_dict(self) -> dict[str, float]:
        """The figures as data."""
        return asdict(self)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the sorted values lie (nearest rank)."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as a Markdown table with aligned columns."""
    cells = [[str(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
