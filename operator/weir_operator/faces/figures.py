"""A run's summary as figures: what it claims, in which unit, against which goal, for programs."""

from __future__ import annotations

import json
import math
from pathlib import Path

from weir_operator.faces.run_record import RunSummary


def write_figures(summary: RunSummary, path: Path, *, most_violations: float) -> None:
    """Write `[{figure, value, unit, goal, holds}]`; what was not measured is null.

    Args:
        summary: The run.
        path: Where to; folders are made.
        most_violations: Share of the intervals that the objective allows over its bound.
    """
    rows = [
        _at_most("records lost", summary.lost, "records", 0),
        _at_most("records doubled", summary.doubled, "records", 0),
        _at_most("intervals over the bound", summary.violation_share, "share", most_violations),
        _plain("intervals", summary.intervals, "intervals"),
        _plain("mean response time", summary.response_mean, "s"),
        _plain("cost", summary.cost, "currency"),
        _plain("restarts", summary.restarts, "restarts"),
        _plain("resizes", summary.resizes, "resizes"),
        _plain("longest output gap", max(summary.gaps, default=math.nan), "s"),
        _plain("records received", summary.received, "records"),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


Row = dict[str, str | float | bool | None]


def _plain(figure: str, value: float | None, unit: str) -> Row:
    known = value is not None and math.isfinite(value)
    return {
        "figure": figure,
        "value": value if known else None,
        "unit": unit,
        "goal": None,
        "holds": None,
    }


def _at_most(figure: str, value: float | None, unit: str, limit: float) -> Row:
    known = value is not None and math.isfinite(value)
    holds = value <= limit if value is not None and known else None
    return {**_plain(figure, value, unit), "goal": f"at most {limit:g}", "holds": holds}
