from __future__ import annotations

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.testing import a_model, an_observation

TYPES = (NodeType(name="small/1", pool="small", speedup=1.0, price=0.04),)


def build(**parameters):
    return registry.build("justin", rng=np.random.default_rng(7), parameters=parameters)


def see(count, rate, *, max_replicas=20, **changes):
    """Return an interval of replicas of which each can process 100 records/s."""
    done = min(rate, 100.0 * count)
    fields = {
        "model": a_model(node_types=TYPES, max_replicas=max_replicas),
        "processed": done,
        "utilisation": (done / count / 100.0,) * count,
    }
    return an_observation(deployment=Deployment((count,)), rate=rate, **fields | changes)


@pytest.mark.parametrize(("rate", "count"), [(850.0, 17), (790.0, 10), (210.0, 10), (150.0, 3)])
def test_it_plans_for_half_busy_replicas_once_they_are_far_from_that(rate, count):
    assert build().decide(see(10, rate)).target == Deployment((count,))


def test_without_a_band_it_is_ds2():
    seen = see(2, 350.0)
    ds2 = registry.build("ds2", rng=np.random.default_rng(7))

    decision = build(target_utilisation=1.0, boundary=0.0).decide(seen)

    assert decision.target == ds2.decide(seen).target == Deployment((4,))


def test_nothing_changes_where_nothing_was_processed():
    idle = see(2, 350.0, processed=0.0, utilisation=(0.0, 0.0))

    assert build().decide(idle).target == Deployment((2,))


def test_within_the_band_its_reason_is_how_busy_the_replicas_are():
    # 10 of them are busy for 79 %; at a target of 50 %, 15.8 would be.
    decision = build().decide(see(10, 790.0))

    assert "79 %" in decision.reason
    assert "need" not in decision.reason


@pytest.mark.parametrize("size", [4, 10])
def test_its_reason_names_all_that_are_needed_though_fewer_may_run(size):
    # 1,500 records/s take 30 replicas at a target of 50 %; the model allows 10.
    decision = build().decide(see(size, 1500.0, max_replicas=10))

    assert decision.target == Deployment((10,))
    assert "30 replicas" in decision.reason


def test_its_thresholds_are_settings():
    assert build(target_utilisation=0.25).decide(see(10, 850.0)).target == Deployment((20,))
    with pytest.raises(ParameterError):
        build(boundary=1.5)
