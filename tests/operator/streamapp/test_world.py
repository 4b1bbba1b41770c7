"""What the model is told of a StreamApp."""

import pytest

from tests.operator.streamapp.builders import a_stream_app
from weir_operator.streamapp import world
from weir_policies.model.node_types import Deployment

POOLS = [
    {"name": "small", "sizes": ["250m", "500m"], "price": "0.04"},
    {"name": "large", "sizes": ["1", "2"], "price": "0.05", "speedup": "1.6", "maxReplicas": 20},
]


def an_app(**operator):
    return a_stream_app(nodePools=POOLS, operators=[{"name": "match"} | operator])


def test_a_node_type_is_a_size_of_a_pool_with_its_speed_and_price():
    types = world.node_types(an_app(), "match")

    assert [each.name for each in types] == ["small/250m", "small/500m", "large/1", "large/2"]
    assert [each.pool for each in types] == ["small", "small", "large", "large"]
    assert [each.speedup for each in types] == pytest.approx([0.25, 0.5, 1.6, 3.2])
    assert [each.price for each in types] == pytest.approx([0.01, 0.02, 0.05, 0.1])
    assert [each.pool_limit for each in types] == [None, None, 20, 20]


def test_an_operator_sees_only_its_own_pools():
    types = world.node_types(an_app(pools=["large"]), "match")

    assert [each.name for each in types] == ["large/1", "large/2"]


def test_a_speedup_that_is_not_given_is_to_be_learned():
    app = an_app()

    assert not world.speedup_is_given(app, "small")
    assert world.speedup_is_given(app, "large")


def test_an_only_pool_without_a_price_costs_cpu_hours():
    app = a_stream_app(nodePools=[{"name": "small", "sizes": ["500m"]}])

    (node_type,) = world.node_types(app, world.WHOLE_JOB)

    assert node_type.price == 0.5


def test_a_job_without_operators_is_one_operator():
    app = a_stream_app()

    assert world.operator_names(app) == (world.WHOLE_JOB,)
    assert world.operator_named(app, world.WHOLE_JOB).max_replicas == 10


def test_the_first_start_uses_one_replica_of_the_first_pools_largest_size():
    app = an_app()

    assert world.initial_deployment(app, "match") == Deployment((0, 1, 0, 0))
    assert world.fixed_deployment(app, "match") is None


def test_an_initial_deployment_is_taken_as_written():
    app = an_app(initial={"large/1": 2, "small/250m": 1})

    assert world.initial_deployment(app, "match") == Deployment((1, 0, 2, 0))
    assert world.fixed_deployment(app, "match") is None


def test_a_fixed_operator_starts_as_it_stays():
    app = an_app(fixed={"large/2": 3})

    assert world.fixed_deployment(app, "match") == Deployment((0, 0, 0, 3))
    assert world.initial_deployment(app, "match") == Deployment((0, 0, 0, 3))


def test_the_job_manager_is_paid_for_in_its_pool():
    first = an_app()
    large = a_stream_app(
        nodePools=POOLS,
        flink={"image": "trips:1", "jobManager": {"pool": "large", "cpu": "2"}},
    )

    assert world.job_manager_price(first) == pytest.approx(0.5 * 0.04)
    assert world.job_manager_price(large) == pytest.approx(2 * 0.05)


def test_memory_costs_what_it_is_priced_at():
    pools = [{"name": "a", "sizes": ["1"], "memory": "4Gi", "price": "0.04", "memoryPrice": "0.01"}]

    app = a_stream_app(nodePools=pools)

    assert [t.name for t in world.node_types(app, world.WHOLE_JOB)] == ["a/1"]
    assert [t.price for t in world.node_types(app, world.WHOLE_JOB)] == pytest.approx([0.08])
    assert world.job_manager_price(app) == pytest.approx(0.5 * 0.04 + 0.01)
