"""Standby TaskManagers: started, paid for, and without an operator until a change takes them. Pure.

How many a pool has at a moment, and for which operators. A JVM gets its memory when it starts, so
one that waits serves only operators whose TaskManagers divide their memory in the same way. In a
pool where operators differ, those wait that most replicas could take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from weir_operator.runtime.places import MemoryNeeds
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp import world
from weir_operator.streamapp.models import StreamApp


@dataclass(frozen=True, kw_only=True, slots=True)
class StandbyPool:
    """What a pool with standby TaskManagers has of them."""

    count: int
    """How many wait while there is room for them."""
    price: float
    """Of one, currency per hour: it has the smallest size of its pool."""
    max_replicas: int | None = None
    """Of the pool, those that wait included; `None` where there is no limit."""


def standby_prices(app: StreamApp) -> dict[str, float]:
    """Return what one standby TaskManager costs, currency per hour, by pool."""
    return {
        pool.name: world.price_of(pool, cores=min(pool.sizes).cores, memory=pool.memory.bytes)
        for pool in app.spec.node_pools
    }


def standby_pools(app: StreamApp) -> dict[str, StandbyPool]:
    """Return the pools of a StreamApp that have standby TaskManagers."""
    prices = standby_prices(app)
    return {
        pool.name: StandbyPool(
            count=pool.standby, price=prices[pool.name], max_replicas=pool.max_replicas
        )
        for pool in app.spec.node_pools
        if pool.standby
    }


def replicas_per_pool(deployments: Deployments) -> Counter[str]:
    """Return how many replicas operators have in each pool, of all its sizes."""
    found: Counter[str] = Counter()
    for counts in deployments.values():
        for node_type, count in counts.items():
            found[node_type.partition("/")[0]] += count
    return found


def wanted_standby(deployments: Deployments, pools: Mapping[str, StandbyPool]) -> dict[str, int]:
    """Return how many TaskManagers wait in each pool beside the replicas of all operators.

    A pool that is nearly full has fewer, because replicas come first.
    """
    used = replicas_per_pool(deployments)
    return {
        name: pool.count
        if pool.max_replicas is None
        else max(0, min(pool.count, pool.max_replicas - used[name]))
        for name, pool in pools.items()
    }


def standby_cost(deployments: Deployments, pools: Mapping[str, StandbyPool]) -> float:
    """Return the currency per hour of the TaskManagers that wait."""
    wanted = wanted_standby(deployments, pools)
    return sum(count * pools[name].price for name, count in wanted.items())


def usual_operator(
    needs: Mapping[str, MemoryNeeds], pool: str, layout_of: Callable[[str], Hashable]
) -> str | None:
    """Return an operator for whose TaskManagers others wait in a pool; `None` where none runs.

    Args:
        needs: What operators ask of their TaskManagers' memory, with the pools they may use.
        pool: The pool.
        layout_of: Returns how the memory of an operator's TaskManager here is divided.
    """
    here = [name for name, each in needs.items() if pool in each.pools]
    layouts = {name: layout_of(name) for name in here}
    replicas: Counter[Hashable] = Counter()
    for name in here:
        replicas[layouts[name]] += needs[name].replicas
    return max(here, key=lambda name: replicas[layouts[name]], default=None)
