"""How the memory of a TaskManager follows from the manifest."""

from tests.operator.streamapp.builders import a_stream_app
from weir_operator.runtime.places import memory_needs_of, places_of, size_memory

POOLS = [
    {"name": "small", "price": "1.0", "memory": "1Gi"},
    {"name": "large", "price": "1.0", "memory": "4Gi"},
]


def managed_by_pool(**operator):
    app = a_stream_app(nodePools=POOLS, operators=[{"name": "count"} | operator])
    needs = memory_needs_of(app)["count"]
    process = {name: place.memory for name, place in places_of(app).items()}
    return {
        pool: size_memory(needs, pool, process=process, config={}).managed for pool in needs.pools
    }


def test_pools_share_the_managed_memory_of_the_smallest():
    managed = managed_by_pool()

    assert managed["small"] == managed["large"]


def test_managed_memory_that_is_asked_for_is_the_same_in_all_pools():
    managed = managed_by_pool(managedMemory="64Mi")

    assert managed == {"small": 64, "large": 64}
