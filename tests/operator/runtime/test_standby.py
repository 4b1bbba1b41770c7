"""How many TaskManagers wait for an operator, what they cost, and for whom they wait."""

import pytest

from tests.operator.streamapp.builders import a_stream_app
from weir_operator.loop.cost import cost_per_hour, prices
from weir_operator.runtime.places import MemoryNeeds
from weir_operator.runtime.standby import (
    StandbyPool,
    standby_pools,
    usual_operator,
    wanted_standby,
)

POOLS = [
    {"name": "small", "sizes": ["500m", "250m"], "price": 0.04, "standby": 2},
    {"name": "large", "sizes": ["2"], "price": 0.05},
]


def test_only_pools_that_ask_for_them_have_standby_at_the_price_of_the_smallest_size():
    app = a_stream_app(nodePools=POOLS)

    assert standby_pools(app) == {"small": StandbyPool(count=2, price=0.01, max_replicas=None)}


@pytest.mark.parametrize(("replicas", "waiting"), [(0, 3), (7, 3), (8, 2), (10, 0), (11, 0)])
def test_replicas_come_first_in_a_pool_that_is_nearly_full(replicas, waiting):
    pools = {"small": StandbyPool(count=3, price=0.1, max_replicas=10)}

    wanted = wanted_standby(
        {
            "match": {"small/250m": replicas // 2, "large/1": 9},
            "sink": {"small/1": -(-replicas // 2)},
        },
        pools,
    )

    assert wanted == {"small": waiting}


def test_what_waits_is_paid_for_beside_replicas_and_job_manager():
    app = a_stream_app(nodePools=POOLS)
    deployments = {"job": {"small/500m": 2}}

    cost = cost_per_hour(deployments, prices(app), job_manager=0.3, standby=standby_pools(app))

    assert cost == pytest.approx(0.3 + 2 * 0.5 * 0.04 + 2 * 0.25 * 0.04)


def test_they_wait_for_the_operators_that_most_replicas_could_be_of():
    needs = {
        "source": MemoryNeeds(pools=("small",), replicas=1),
        "match": MemoryNeeds(pools=("small", "large"), replicas=4),
        "join": MemoryNeeds(pools=("small",), replicas=5),
        "aggregate": MemoryNeeds(pools=("small",), replicas=4),
        "elsewhere": MemoryNeeds(pools=("large",), replicas=90),
    }
    layouts = {"source": "a", "match": "b", "aggregate": "b", "join": "c"}

    assert usual_operator(needs, "small", layouts.__getitem__) == "match"
    assert usual_operator(needs, "tiny", layouts.__getitem__) is None
