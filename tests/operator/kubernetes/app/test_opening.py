"""A thousand StreamApps do not all tick in the same moment."""

from __future__ import annotations

import pytest

from weir_operator.kubernetes.api.objects import Resource
from weir_operator.kubernetes.app.opening import phase_of
from weir_operator.loop.tick import find_first_wait


def a_resource(number):
    uid = f"00000000-0000-4000-8000-{number:012d}"
    return Resource.of(
        {"metadata": {"namespace": "n", "name": f"a{number}", "uid": uid}, "spec": {}}
    )


def test_ticks_of_many_apps_are_spread_over_the_interval():
    phases = [phase_of(a_resource(number)) for number in range(1000)]

    in_each_second = [sum(int(60 * phase) == second for phase in phases) for second in range(60)]

    assert max(in_each_second) <= 3 * 1000 / 60


@pytest.mark.parametrize(
    ("now", "phase", "wait"),
    [(1000.0, None, 60.0), (1000.0, 0.5, 50.0), (1055.0, 0.5, 55.0), (1050.0, 0.5, 0.0)],
    ids=["without a place, an interval from now", "its next place", "past it", "just now"],
)
def test_when_the_first_tick_is_due(now, phase, wait):
    assert find_first_wait(now, 60.0, phase) == wait
