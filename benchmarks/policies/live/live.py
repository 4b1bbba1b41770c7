"""Policies on real Flink: one of the parts that `LIVE_PART` names.

- `night` (25 min): a night of taxi trips by the example as it is, each policy on its own Flink.
- `policies` (1 h): policies of the papers, those that learn trained before.
- `match` (11 h): Weir out of the box against Flink's own autoscaler.

Each has a result of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from benchmarks.figures import Figure
from benchmarks.policies.live import match, night, policies
from benchmarks.registry import BenchmarkError

ABOUT = "policies on real Flink: a night, the papers' policies, Flink's own autoscaler (LIVE_PART)"
DURATION = "night 25 min, policies 1 h, match 11 h"

PARTS: Mapping[str, Callable[[], Sequence[Figure]]] = {
    "night": night.run,
    "policies": policies.run,
    "match": match.run,
}


def run() -> Sequence[Figure]:
    return PARTS[_part()]()


def result_name() -> str:
    return f"live-{_part()}"


def _part() -> str:
    part = os.environ.get("LIVE_PART", "night")
    if part not in PARTS:
        raise BenchmarkError(f"LIVE_PART: expected one of {', '.join(PARTS)}, got {part!r}")
    return part
