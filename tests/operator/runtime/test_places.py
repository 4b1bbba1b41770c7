"""How the memory of a TaskManager follows from the manifest."""

from weir_operator.runtime.places import memory_needs_of, places_of, size_memory
from weir_operator.streamapp.testing import a_stream_app

PRICES = {"price": 1.0, "memoryPrice": 0.1}
SIZES = [{"cpu": "500m", "memory": "1Gi"}, {"cpu": "500m", "memory": "4Gi"}]


def managed_by_pool(*, sizes=(), pools=(), **operator):
    app = a_stream_app(
        nodePools=[
            *(
                {"name": "several", "price": 1.0, "memoryPrice": 0.1, "sizes": each}
                for each in sizes
            ),
            *pools,
        ],
        operators=[{"name": "count"} | operator],
    )
    needs = memory_needs_of(app)["count"]
    process = {name: place.memory for name, place in places_of(app).items()}
    return {
        pool: size_memory(needs, pool, process=process, config={}).managed for pool in needs.pools
    }


def test_each_amount_of_memory_of_a_pool_has_its_own_share_of_managed_memory():
    managed = managed_by_pool(sizes=[SIZES])

    assert list(managed) == ["several-1gi", "several-4gi"]
    assert managed["several-4gi"] > 4 * managed["several-1gi"]


def test_pools_of_one_amount_each_share_the_least():
    managed = managed_by_pool(
        pools=[
            {"name": "small", "price": 1.0, "memory": "1Gi"},
            {"name": "large", "price": 1.0, "memory": "4Gi"},
        ]
    )

    assert managed["small"] == managed["large"]


def test_managed_memory_that_is_asked_for_is_the_same_with_any_amount():
    managed = managed_by_pool(sizes=[SIZES], managedMemory="64Mi")

    assert set(managed.values()) == {64}
