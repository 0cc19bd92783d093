"""The measured latencies beside their targets as a picture: ``python -m bench.picture RESULT.json PICTURE.svg``."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import orjson

__all__ = ["drawn"]

_TOP: Final = 84
_ROW: Final = 26
_LEFT: Final = 210
_WIDTH: Final = 640
_STYLE: Final = """
    .page { fill: #ffffff } .rule { stroke: #c3ccd6; stroke-width: 1 } .bar { fill: #2c7a57 } .late { fill: #b3492e }
    .driver { fill: none; stroke: #4358a8; stroke-width: 2 } .target { stroke: #16202b; stroke-width: 2.4 }
    text { fill: #16202b; font-size: 13.5px } .small { fill: #44525f; font-size: 12px } .end { text-anchor: end }
    .middle { text-anchor: middle }
    @media (prefers-color-scheme: dark) {
      .page { fill: #12171d } .rule { stroke: #3b4855 } .bar { fill: #63bd92 } .late { fill: #e58a6f }
      .driver { stroke: #93a5ee } .target { stroke: #eaf0f6 } text { fill: #eaf0f6 } .small { fill: #b3c0cd }
    }"""


def drawn(result: Mapping[str, Any]) -> str:
    """An SVG: for each case that has a target its 95th percentile with one client, on a scale of powers of ten."""
    measured = [row for row in result["cases"] if "failed" not in row]
    rows = [row for row in measured if row["clients"] == 1 and row["target_p95"] is not None]
    most = max([1.0, *(max(row["target_p95"], row["gateway"]["p95"]) for row in rows)])
    decades = math.ceil(math.log10(most))

    def place(milliseconds: float) -> float:
        return round(_LEFT + _WIDTH * max(0.0, math.log10(max(milliseconds, 1.0))) / decades, 1)

    bottom = _TOP + _ROW * len(rows)
    about = result["circumstances"]
    told = f"{about['date'][:10]}, commit {about['commit']}, {about['cores']} cores, load {about['load_1_5_15'][0]}"
    described = "; ".join(
        f"{row['case']}: {row['gateway']['p95']:.0f} ms, target {row['target_p95']:g} ms" for row in rows
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {bottom + 36}" role="img" '
        'aria-labelledby="title desc" font-family="system-ui, -apple-system, \'Segoe UI\', sans-serif">',
        '  <title id="title">How long a call takes, beside its target</title>',
        f'  <desc id="desc">95th percentile with one client. {escape(described)}.</desc>',
        f"  <style>{_STYLE}\n  </style>",
        f'  <rect class="page" width="960" height="{bottom + 36}" rx="10"/>',
        f'  <text x="20" y="32" font-weight="600">95 of 100 calls take no longer ({escape(told)})</text>',
        '  <rect class="bar" x="20" y="48" width="26" height="12"/><text class="small" x="52" y="59">within the target'
        '</text><rect class="late" x="170" y="48" width="26" height="12"/><text class="small" x="202" y="59">beyond it'
        '</text><path class="target" d="M290 46V62"/><text class="small" x="298" y="59">target</text>'
        '<circle class="driver" cx="370" cy="54" r="5"/><text class="small" x="382" y="59">the bare driver doing the '
        "same</text>",
        *(_axis(place(10.0**power), 10**power, bottom) for power in range(decades + 1)),
        *(_line(row, _TOP + _ROW * number, place) for number, row in enumerate(rows)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axis(x: float, milliseconds: int, bottom: int) -> str:
    label = f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds // 1000} s"
    return (
        f'  <path class="rule" d="M{x} {_TOP - 8}V{bottom}"/>'
        f'<text class="small middle" x="{x}" y="{bottom + 20}">{label}</text>'
    )


def _line(row: Mapping[str, Any], y: int, place: Any) -> str:
    p95, target = row["gateway"]["p95"], row["target_p95"]
    end = place(p95)
    beside = row.get("driver_and_model", row.get("driver"))
    parts = [
        f'  <text class="end" x="{_LEFT - 12}" y="{y + 13}">{escape(row["case"])}</text>',
        f'<rect class="{"bar" if p95 < target else "late"}" x="{_LEFT}" y="{y + 2}" width="{end - _LEFT:.1f}" '
        'height="14" rx="2"/>',
        f'<path class="target" d="M{place(target)} {y - 2}V{y + 20}"/>',
    ]
    if beside:
        parts.append(f'<circle class="driver" cx="{place(beside["p95"])}" cy="{y + 9}" r="5"/>')
    shown = f"{p95:.1f} ms" if p95 < 100 else f"{p95:.0f} ms"
    parts.append(f'<text class="small" x="{max(end, place(target)) + 10:.1f}" y="{y + 13}">{shown}</text>')
    return "".join(parts)


def main(arguments: Sequence[str]) -> None:
    """Draw the result of a run."""
    source, picture = map(Path, arguments)
    picture.write_text(drawn(orjson.loads(source.read_bytes())), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
