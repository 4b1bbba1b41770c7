"""What the model needs to know of a StreamApp: operators, node types, prices, deployments.

Pure: everything follows from the manifest. What is measured or learned replaces it elsewhere. An
operator or a pool that the manifest does not have is a `KeyError`.
"""

from __future__ import annotations

from collections.abc import Mapping

from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.operators import WHOLE_JOB as WHOLE_JOB
from weir_operator.streamapp.operators import Operator
from weir_operator.streamapp.pools import NodePool, price_of
from weir_policies.model.node_types import Deployment, NodeType

_SPEED_OF_UNKNOWN_CORE = 1.0
"""Relative speed of a core until the pool's is learned."""


def operators(app: StreamApp) -> tuple[Operator, ...]:
    """Return the operators; a job whose manifest lists none is one operator, `WHOLE_JOB`."""
    return app.spec.operators or (Operator(name=WHOLE_JOB),)


def operator_names(app: StreamApp) -> tuple[str, ...]:
    """Return the names of the operators, in the manifest's order."""
    return tuple(operator.name for operator in operators(app))


def operator_named(app: StreamApp, name: str) -> Operator:
    """Return the operator called `name`."""
    return {operator.name: operator for operator in operators(app)}[name]


def pool_named(app: StreamApp, name: str) -> NodePool:
    """Return the node pool called `name`."""
    return {pool.name: pool for pool in app.spec.node_pools}[name]


def pools_of(app: StreamApp, operator_name: str) -> tuple[NodePool, ...]:
    """Return the pools that an operator's replicas can run on, in the manifest's order."""
    allowed = operator_named(app, operator_name).pools
    return tuple(pool for pool in app.spec.node_pools if allowed is None or pool.name in allowed)


def node_types(app: StreamApp, operator_name: str) -> tuple[NodeType, ...]:
    """Return what an operator's replicas can run on, in the manifest's order of pools and sizes.

    Speed is taken as linear in the size until it is learned: cores times the speedup of the pool.
    """
    return tuple(
        NodeType(
            name=f"{pool.name}/{size}",
            pool=pool.name,
            speedup=size.cores * (pool.speedup or _SPEED_OF_UNKNOWN_CORE),
            price=price_of(pool, cores=size.cores, memory=pool.memory.bytes),
            pool_limit=pool.max_replicas,
        )
        for pool in pools_of(app, operator_name)
        for size in pool.sizes
    )


def count_node_types(app: StreamApp) -> int:
    """Return how many node types there are, whoever may use them."""
    return sum(len(pool.sizes) for pool in app.spec.node_pools)


def speedup_is_given(app: StreamApp, pool_name: str) -> bool:
    """Return whether the user stated the pool's speedup; otherwise Weir learns it."""
    return pool_named(app, pool_name).speedup is not None


def fixed_deployment(app: StreamApp, operator_name: str) -> Deployment | None:
    """Return the deployment that must never change, `None` where the operator is scaled."""
    fixed = operator_named(app, operator_name).fixed
    return None if fixed is None else Deployment.from_named(fixed, node_types(app, operator_name))


def initial_deployment(
    app: StreamApp,
    operator_name: str,
    *,
    cheapest: bool = False,
    taken: Mapping[str, int] | None = None,
) -> Deployment:
    """Return what the first start uses: as fixed, as written, or `minReplicas` of the largest size.

    The largest size of the operator's first pools, because a first start has a cold JVM and knows
    no rate; scaling in is then the first decision. Where no pool has room, in the first one.

    Args:
        app: The manifest.
        operator_name: The operator.
        cheapest: Whether to begin with the cheapest size instead, where nothing is written.
        taken: Replicas of the other operators, by pool.
    """
    operator = operator_named(app, operator_name)
    types = node_types(app, operator_name)
    written = operator.fixed or operator.initial
    if written is None:
        written, lacking = {}, operator.min_replicas
        pools = pools_of(app, operator_name)
        firsts = [(pool, (min if cheapest else max)(pool.sizes)) for pool in pools]
        prices = {each.name: each.price for each in types}
        if cheapest:
            firsts.sort(key=lambda first: prices[f"{first[0].name}/{first[1]}"])
        for pool, size in firsts:
            used = (taken or {}).get(pool.name, 0)
            room = lacking if pool.max_replicas is None else max(pool.max_replicas - used, 0)
            count = min(lacking, room)
            if count:
                written[f"{pool.name}/{size}"] = count
            lacking -= count
        if lacking:
            first = f"{firsts[0][0].name}/{firsts[0][1]}"
            written[first] = written.get(first, 0) + lacking
    return Deployment.from_named(written, types)


def job_manager_price(app: StreamApp) -> float:
    """Return what the JobManager costs, currency per hour.

    Nothing where there is no pool: an external job's JobManager is found where it runs.
    """
    if not app.spec.node_pools:
        return 0.0
    job_manager = app.spec.flink.job_manager
    pool = pool_named(app, job_manager.pool) if job_manager.pool else app.spec.node_pools[0]
    return price_of(pool, cores=job_manager.cpu.cores, memory=job_manager.memory.bytes)
