"""Which records of the example trips arrived, by its own ledger, and when, by its raw files."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from weir_operator.loop.run_recorder import read_ledger


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Which records arrived, by the job's own checkpointed state."""

    emitted: int
    lost: int
    doubled: int
    sequence_errors: int
    replayed: int
    """Records that a plain sink saw again after a failure; the state counts them once."""


@dataclass(frozen=True, slots=True)
class Arrival:
    id: int
    due: float
    """Its event time, Unix seconds."""
    time: float
    """Unix seconds."""


def read_arrivals(out: Path) -> list[Arrival]:
    """Return every record that reached the sink, in order of time."""
    arrivals = []
    for path in out.glob("raw-*.csv"):
        with path.open(newline="") as file:
            for row in csv.reader(file):
                if len(row) == 5 and row[0].isdigit():  # not the heading, nor a line cut by a crash
                    number, due, time = int(row[0]), int(row[1]) / 1000, float(row[2]) / 1000
                    arrivals.append(Arrival(number, due, time))
    return sorted(arrivals, key=lambda arrival: arrival.time)


def read_start(out: Path) -> float | None:
    """Return when the trace of a job began, Unix seconds; `None` before its first checkpoint."""
    try:
        return float(json.loads((out / "source.json").read_text())["start"]) / 1000
    except FileNotFoundError:
        return None


def longest_gap(arrivals: Sequence[Arrival], start: float, end: float) -> float:
    """Return the longest time without output that touches [start, end], seconds."""
    times = [arrival.time for arrival in arrivals]
    touching = [b - a for a, b in pairwise(times) if b >= start and a <= end]
    return max(touching, default=float("nan"))


def read_proof(out: Path) -> Ledger:
    """Return the ledger as of the last checkpoint that source and sink share."""
    emitted, _, lost, doubled = read_ledger(out)
    if emitted is None or lost is None or doubled is None:
        raise RuntimeError(f"Expected a ledger of one checkpoint in {out}, got none")
    ledger = json.loads((out / "ledger.json").read_text())
    arrivals = read_arrivals(out)
    return Ledger(
        emitted=emitted,
        lost=lost,
        doubled=doubled,
        sequence_errors=ledger["sequenceErrors"],
        replayed=len(arrivals) - len({arrival.id for arrival in arrivals}),
    )
