"""Python's garbage collector runs less often in the controller, and still frees cycles."""

from __future__ import annotations

import json
import subprocess
import sys

GROWTH = """
import gc, json, sys
from weir_operator.kubernetes.process.running import collect_garbage_less_often
if sys.argv[1] == "True":
    collect_garbage_less_often()
before = gc.get_stats()[2]["collections"]
kept = [[number] for number in range(2_000_000)]
collections = gc.get_stats()[2]["collections"] - before
objects = len(gc.get_objects())
for _ in range(2_000_000):
    cycle = []
    cycle.append(cycle)
print(json.dumps({"collections": collections, "left": len(gc.get_objects()) - objects}))
"""


def grow(*, less_often):
    """Return how many full collections growth causes, and how many dead cycles stay."""
    ended = subprocess.run(
        [sys.executable, "-c", GROWTH, str(less_often)], capture_output=True, text=True, check=True
    )
    return json.loads(ended.stdout)


def test_growth_causes_at_most_one_full_collection():
    usual = grow(less_often=False)  # the control: what Python does by itself

    grown = grow(less_often=True)

    assert grown["collections"] <= 1
    assert usual["collections"] >= 3


def test_dead_cycles_are_still_freed():
    grown = grow(less_often=True)

    assert grown["left"] < 200_000
