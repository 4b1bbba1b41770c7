"""Where the job goes when the metrics stay unhealthy."""

import pytest

from tests.operator.loop.am_setting import an_am
from weir_operator.loop.arbitrate import MetricsOutage
from weir_operator.streamapp.managers import Fallback, FallbackDeployment
from weir_operator.streamapp.quantities import Duration
from weir_policies.model.node_types import NodeType
from weir_policies.testing import a_model

TYPES = (
    NodeType(name="small/500m", pool="small", speedup=0.5, price=0.02),
    NodeType(name="small/1", pool="small", speedup=1.0, price=0.04),
    NodeType(name="large/1", pool="large", speedup=1.6, price=0.07),
)
TEN_MINUTES = Fallback(after=Duration("10m"))


def models(*names, max_replicas=4):
    return {name: a_model(name=name, node_types=TYPES, max_replicas=max_replicas) for name in names}


def find_fallback(fallback, current, models, pool_limits):
    am = an_am(restarts=3)
    am.pool_limits = pool_limits
    return am.find_fallback(fallback, current, models, {})


def test_the_fallback_is_due_only_after_the_metrics_were_unhealthy_for_so_long():
    blindness = MetricsOutage()

    blindness.note(healthy=False, now=100.0)

    assert not blindness.is_due(TEN_MINUTES, 699.0)
    assert blindness.is_due(TEN_MINUTES, 700.0)


def test_a_healthy_tick_begins_the_count_again():
    blindness = MetricsOutage()
    blindness.note(healthy=False, now=100.0)
    blindness.note(healthy=True, now=400.0)
    blindness.note(healthy=False, now=500.0)

    assert not blindness.is_due(TEN_MINUTES, 1000.0)


def test_an_outage_is_answered_once_and_its_end_is_known():
    blindness = MetricsOutage()
    blindness.note(healthy=False, now=0.0)
    blindness.answer()

    assert not blindness.is_due(TEN_MINUTES, 10_000.0)
    assert blindness.note(healthy=True, now=10_001.0)
    assert not blindness.note(healthy=True, now=10_002.0)


def test_the_largest_fills_the_fastest_pool_and_keeps_replicas_in_theirs():
    fallback = Fallback(deployment=FallbackDeployment.LARGEST)
    current = {"match": {"small/500m": 1}}

    found = find_fallback(fallback, current, models("match"), {})

    assert found == {"match": {"small/1": 1, "large/1": 3}}


def test_operators_that_share_a_pool_take_turns_in_its_room():
    fallback = Fallback(deployment=FallbackDeployment.LARGEST)
    current = {"match": {"small/1": 1}, "count": {"small/1": 1}, "out": {"large/1": 1}}

    found = find_fallback(fallback, current, models("match", "count"), {"large": 3})

    assert found["match"] == {"small/1": 3, "large/1": 1}
    assert found["count"] == {"small/1": 3, "large/1": 1}
    assert found["out"] == {"large/1": 1}


@pytest.mark.parametrize("deployment", [FallbackDeployment.HOLD, FallbackDeployment.NAMED])
def test_operators_that_the_fallback_does_not_name_stay(deployment):
    named = {"match": {"large/1": 4}} if deployment is FallbackDeployment.NAMED else None
    fallback = Fallback(deployment=deployment, named=named)
    current = {"match": {"small/1": 1}, "count": {"small/1": 1}}

    found = find_fallback(fallback, current, models("match", "count"), {})

    assert found == current | (named or {})
