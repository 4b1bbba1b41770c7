"""Policies on real Flink: one of the parts that `LIVE_PART` names.

- `night` (25 min): a night of taxi trips by the example as it is, each policy on its own Flink.
- `policies` (1 h): policies of the papers, those that learn trained before.
- `match` (12 min for a pair): Weir out of the box against Flink's own autoscaler; how they are
  judged is in [match.py](../../benchmarks/policies/live/match.py).
- `estimate` (22 min for a pair): `weir estimate` against what came in the stretch that followed.

Each has a result of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.policies.live import estimated, match, night, policies, series
from benchmarks.results import FOLDER

ABOUT = "on real Flink (LIVE_PART): a night, policies of papers, Flink's own autoscaler, estimates"
DURATION = "night 25 min, policies 1 h, match 12 min for each of 27 pairs, estimate 22 min for 9"

PARTS: Mapping[str, Callable[[], Sequence[Figure]]] = {
    "night": night.run,
    "policies": policies.run,
    "match": match.run,
    "estimate": estimated.run,
}


def run() -> Sequence[Figure]:
    return PARTS[_part()]()


def result_path() -> Path:
    """Return where the result is kept: each part has its own."""
    return match.result_path() if _part() == "match" else FOLDER / f"live-{_part()}.json"


def _part() -> str:
    return series.chosen("LIVE_PART", PARTS)
