"""What ours is compared to beside what we measured: rows of a benchmark's result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure

NEAR = 0.1
"""Part by which two numbers may differ and still count as near."""
EQUAL, WITHIN, NEITHER = "equal", f"within {100 * NEAR:.0f} %", "neither"
"""What a row may match its reference by; each counts apart from the others."""

RESULTS = Path(__file__).resolve().parent.parent / "build" / "benchmarks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One line: what ours is compared to, what we get."""

    table: str
    """Such as `Table 2`."""
    row: str
    """What it is about."""
    beside: str
    ours: str
    holds: bool | None
    """Whether it is as `claim` has it; `None` where nothing was promised."""
    seeds: int = 1
    beside_what: str = "published"
    """Heading of `beside`, the same throughout a table."""
    claim: str = "holds"
    """Heading of `holds` or `match`, the same throughout a table."""
    match: str | None = None
    """`EQUAL`, `WITHIN` or `NEITHER`; `None` where the row is not compared number by number."""


def match_numbers(ours: float, reference: float, *, equal: bool) -> str:
    """Return how near ours is; `equal` says whether the printed digits are the same."""
    if equal:
        return EQUAL
    return WITHIN if abs(ours - reference) <= NEAR * abs(reference) else NEITHER


def count_matches(rows: Sequence[Row], label: str) -> list[Figure]:
    """Return how many rows are equal, within a tenth, and neither; nothing is promised."""
    return [
        Figure(
            figure=f"{label}: {match}",
            value=sum(row.match == match for row in rows),
            unit=f"of {len(rows)}",
        )
        for match in (EQUAL, WITHIN, NEITHER)
    ]


def write_rows(benchmark: str, rows: Sequence[Row]) -> Path:
    """Write rows to `build/benchmarks/<benchmark>-rows.json`; return the path."""
    path = _path_of(benchmark)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return path


def write_outcomes(benchmark: str, outcomes: Sequence[Mapping[str, Any]]) -> Path:
    """Write what the rows were made from; return the path."""
    path = _path_of(benchmark, "outcomes")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(outcomes)) + "\n")
    return path


def read_outcomes(benchmark: str) -> list[dict[str, Any]]:
    """Return what the benchmark's last run wrote of its outcomes; none where it writes none."""
    path = _path_of(benchmark, "outcomes")
    return list(json.loads(path.read_text())) if path.exists() else []


def read_rows(benchmark: str) -> list[Row]:
    """Return the rows that the benchmark's last run wrote; none where it writes none."""
    path = _path_of(benchmark)
    if not path.exists():
        return []
    return [Row(**each) for each in json.loads(path.read_text())]


def forget_rows(benchmark: str) -> None:
    """Remove the rows and outcomes of an earlier run."""
    for kind in ("rows", "outcomes"):
        _path_of(benchmark, kind).unlink(missing_ok=True)


def _path_of(benchmark: str, kind: str = "rows") -> Path:
    return RESULTS / f"{benchmark}-{kind}.json"
