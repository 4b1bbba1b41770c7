"""What ours is compared to beside what we measured: rows for the page on reproduction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

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
    """Heading of `holds`, the same throughout a table."""


def write_rows(benchmark: str, rows: Sequence[Row]) -> Path:
    """Write rows to `build/benchmarks/<benchmark>-rows.json`; return the path."""
    path = RESULTS / f"{benchmark}-rows.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return path
