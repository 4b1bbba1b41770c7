"""Python's garbage collector searches less often in the controller, and still finds garbage."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

GROWTH = """
import gc, json, sys
from weir_operator.kubernetes.process.running import collect_garbage_less_often
if sys.argv[1] == "less often":
    collect_garbage_less_often()
before = gc.get_stats()[2]["collections"]
kept = [[number] for number in range(2_000_000)]
searched = gc.get_stats()[2]["collections"] - before
objects = len(gc.get_objects())
for _ in range(2_000_000):
    cycle = []
    cycle.append(cycle)
print(json.dumps({"searched": searched, "left": len(gc.get_objects()) - objects}))
"""


@pytest.fixture
def grown():
    def run(how):
        ended = subprocess.run(
            [sys.executable, "-c", GROWTH, how], capture_output=True, text=True, check=True
        )
        return json.loads(ended.stdout)

    return run


def test_what_grows_is_not_searched_again_and_again(grown):
    assert grown("less often")["searched"] <= 1
    assert grown("as usual")["searched"] >= 3


def test_cycles_do_not_pile_up(grown):
    assert grown("less often")["left"] < 200_000
