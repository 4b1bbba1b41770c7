"""The checks between sections of the spec; each is here in Python and, where possible, in CEL.

The parameters of a check name the sections that it reads. So if one section has a mistake, every
check that does not read it still runs, and all mistakes are reported at once.

In Python only: that names are unique, which the API server itself checks for lists with a key; and
that a vertex is in one operator, that a fallback fits, and that floors and a limit on cost can be
kept, which costs the API server's estimator too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Protocol

from weir_operator.streamapp.flink import Flink
from weir_operator.streamapp.managers import (
    Fallback,
    Window,
)
from weir_operator.streamapp.objective import Objective
from weir_operator.streamapp.operators import WHOLE_JOB, Operator
from weir_operator.streamapp.pools import NodePool, price_of
from weir_operator.streamapp.quantities import write_number
from weir_operator.streamapp.section import Deployment, Rule
from weir_simulator.validation import Mistake, suggest

_OPERATOR_EXISTS = (
    "has(self.operators) && self.operators.size() > 0"
    f" ? self.operators.exists(o, o.name == n) : n == '{WHOLE_JOB}'"
)
"""Of the map key `n`."""
_POOL_EXISTS = "has(self.nodePools) && self.nodePools.exists(p, p.name == n)"
"""Of the text `n`."""
_NODE_TYPE_EXISTS = (
    "(has(self.nodePools) && k.split('/').size() == 2 && self.nodePools.exists(p,"
    " k.split('/')[0] == p.name && k.split('/')[1] in p.sizes))"
)
"""Of the map key `k`. Splitting it costs the API server's estimator less than joining pool and
size."""

MAX_PAIRS = 1000
"""Operators times node types (pools' sizes). Each pair takes memory, and time in every decision, in
a controller that all users share."""


def _node_type_rule(field: str) -> Rule:
    return Rule(
        rule="!has(self.operators) || self.operators.all(o,"
        f" !has(o.{field}) || o.{field}.all(k, {_NODE_TYPE_EXISTS}))",
        field=".operators",
        expected=f"{field} to name a pool/size of spec.nodePools",
        remedy="choose one of them, or add the size",
    )


def _pool_limit_rule(field: str) -> Rule:
    return Rule(
        rule="!has(self.operators) || !has(self.nodePools)"
        " || self.nodePools.all(p, !has(p.maxReplicas)"
        f" || self.operators.all(o, !has(o.{field})"
        f" || o.{field}.filter(k, k.split('/')[0] == p.name).map(k, o.{field}[k]).sum()"
        " <= p.maxReplicas))",
        field=".operators",
        expected=f"{field} within the pool's maxReplicas",
        remedy="remove replicas, or raise the pool's maxReplicas",
    )


CEL_RULES = (
    Rule(
        rule="has(self.flink.ref) || (has(self.nodePools) && self.nodePools.size() > 0)",
        holds=lambda flink, node_pools: flink.ref is not None or bool(node_pools),
        shows=lambda flink, node_pools: None,
        field=".nodePools",
        expected="at least one node pool",
        remedy="add one, such as nodePools: [{name: small}]",
    ),
    Rule(
        rule="!has(self.nodePools) || self.nodePools.size() < 2"
        " || self.nodePools.all(p, has(p.price))",
        field=".nodePools",
        expected="a price for every pool, because there are several",
        remedy='add the price of one CPU per hour, such as price: "0.04"',
    ),
    Rule(
        rule="!has(self.operators) || self.operators.all(o,"
        f" !has(o.pools) || o.pools.all(n, {_POOL_EXISTS}))",
        field=".operators",
        expected="pools to name node pools of spec.nodePools",
        remedy="choose one of them, or add the pool",
    ),
    Rule(
        rule="!has(self.operators) || !has(self.nodePools) || self.operators.size()"
        f" * self.nodePools.map(p, p.sizes.size()).sum() <= {MAX_PAIRS}",
        holds=lambda node_pools, operators: len(operators) * _count(node_pools) <= MAX_PAIRS,
        shows=lambda node_pools, operators: (
            f"{len(operators)} operators and {_count(node_pools)} sizes"
        ),
        field=".operators",
        expected=f"at most {MAX_PAIRS} pairs of an operator and a size of a pool",
        remedy="remove sizes or pools, or let operators share their TaskManagers",
    ),
    _node_type_rule("fixed"),
    _node_type_rule("initial"),
    _pool_limit_rule("fixed"),
    _pool_limit_rule("initial"),
    Rule(
        rule="!has(self.flink.jobManager.pool) || has(self.nodePools)"
        " && self.nodePools.exists(p, p.name == self.flink.jobManager.pool)",
        field=".flink.jobManager.pool",
        expected="a pool of spec.nodePools",
        got="self.flink.jobManager.pool",
        remedy="choose one of them, or add the pool",
    ),
    Rule(
        rule="!has(self.operators)"
        " || self.operators.all(o, o.maxReplicas <= self.flink.maxParallelism)",
        field=".operators",
        expected="maxReplicas of at most flink.maxParallelism",
        remedy="lower it, or raise maxParallelism before the first start",
    ),
    Rule(
        rule=f"!has(self.fallback.named) || self.fallback.named.all(n, {_OPERATOR_EXISTS})",
        field=".fallback.named",
        expected=f"operators of spec.operators ({WHOLE_JOB} if there are none)",
        got=f"self.fallback.named.filter(n, !({_OPERATOR_EXISTS}))[0]",
        remedy="choose one of them, or add the operator",
    ),
    Rule(
        rule="!has(self.fallback.named) || self.fallback.named.all(n,"
        f" self.fallback.named[n].all(k, {_NODE_TYPE_EXISTS}))",
        field=".fallback.named",
        expected="a pool/size of spec.nodePools",
        got="self.fallback.named.filter(n,"
        f" !self.fallback.named[n].all(k, {_NODE_TYPE_EXISTS}))[0]",
        remedy="choose one of them, or add the size",
    ),
    Rule(
        rule="!has(self.flink.ref) || self.mode != 'Auto'"
        " || self.flink.ref.kind == 'FlinkDeployment'",
        holds=lambda flink, mode: (
            flink.ref is None or mode != "Auto" or flink.ref.kind == "FlinkDeployment"
        ),
        shows=lambda flink, mode: mode,
        field=".mode",
        expected="Advise or Off, because spec.flink.ref names no FlinkDeployment",
        remedy="write mode: Advise, because Weir scales only FlinkDeployments of the Flink"
        " Kubernetes Operator, and a FlinkBlueGreenDeployment would start a second cluster for each"
        " change",
    ),
    Rule(
        rule="!has(self.flink.ref) || self.mode != 'Auto' || !has(self.nodePools)"
        " || self.nodePools.size() < 2",
        holds=lambda flink, mode, node_pools: (
            flink.ref is None or mode != "Auto" or len(node_pools) < 2
        ),
        shows=lambda flink, mode, node_pools: [pool.name for pool in node_pools],
        field=".nodePools",
        expected="at most one node pool, because Weir scales the job where it runs",
        remedy="keep one for its price, because a FlinkDeployment has one kind of TaskManager, or"
        " write mode: Advise",
    ),
    Rule(
        rule="!has(self.flink.ref) || self.state == 'Running'",
        holds=lambda flink, state: flink.ref is None or state == "Running",
        shows=lambda flink, state: state,
        field=".state",
        expected="Running, because spec.flink.ref is set",
        remedy="remove it, because Weir does not stop a job that it does not run",
    ),
    Rule(
        rule="!has(self.flink.ref) || self.deletionPolicy == 'Keep'",
        holds=lambda flink, deletion_policy: flink.ref is None or deletion_policy == "Keep",
        shows=lambda flink, deletion_policy: deletion_policy,
        field=".deletionPolicy",
        expected="Keep, because spec.flink.ref is set",
        remedy="remove it, because Weir does not delete the state of a job that it does not run",
    ),
    Rule(
        rule="duration(self.applicationManager.interval)"
        " >= duration(self.operatorManager.interval)",
        holds=lambda operator_manager, application_manager: (
            application_manager.interval >= operator_manager.interval
        ),
        shows=lambda operator_manager, application_manager: application_manager.interval.text,
        field=".applicationManager.interval",
        expected="at least spec.operatorManager.interval",
        remedy="lengthen it, or shorten spec.operatorManager.interval",
    ),
)
"""For the API server; `self` is the spec with its defaults filled in.

Which item of a list is wrong cannot be said: names and numbers found on the way have no bounds that
the estimator of costs would know.
"""


def _count(node_pools: Sequence[NodePool]) -> int:
    return sum(len(pool.sizes) for pool in node_pools)


def _judge(rule: Rule) -> Callable[..., Iterator[Mistake]]:
    """Return a check by the rule's own condition, whose parameters name the sections it reads."""
    holds, shows = rule.holds, rule.shows
    if holds is None or shows is None:
        raise TypeError(f"Expected a rule with a condition in Python, got {rule.field}")

    @wraps(holds)
    def check(**sections: object) -> Iterator[Mistake]:
        if not holds(**sections):
            path = tuple(rule.field.split(".")[1:])
            yield Mistake(path, shows(**sections), rule.expected, rule.remedy)

    return check


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def each_name_once(
    node_pools: Sequence[NodePool], operators: Sequence[Operator]
) -> Iterator[Mistake]:
    """Refuse a second node pool or operator of one name."""
    yield from _repeated("nodePools", node_pools)
    yield from _repeated("operators", operators)


def each_vertex_once(operators: Sequence[Operator]) -> Iterator[Mistake]:
    """Refuse a vertex that two operators name."""
    first: dict[str, str] = {}
    for index, operator in enumerate(operators):
        for place, vertex in enumerate(operator.vertices or ()):
            if first.setdefault(vertex, operator.name) != operator.name:
                yield Mistake(
                    ("operators", index, "vertices", place),
                    vertex,
                    f"a vertex that no other operator names, but {first[vertex]} does",
                    "remove it from one of them",
                )


def each_window_once(windows: Sequence[Window]) -> Iterator[Mistake]:
    """Refuse a second window of one name."""
    yield from _repeated("windows", windows)


def several_pools_have_prices(node_pools: Sequence[NodePool]) -> Iterator[Mistake]:
    """Refuse a pool without a price if there are others, because it could not be compared."""
    if len(node_pools) > 1:
        for index, pool in enumerate(node_pools):
            if pool.price is None:
                yield Mistake(
                    ("nodePools", index, "price"), None,
                    "a price for every pool, because there are several",
                    f'add the price of one CPU of {pool.name} per hour, such as "0.04"',
                )  # fmt: skip


def operators_use_known_pools(
    node_pools: Sequence[NodePool], operators: Sequence[Operator]
) -> Iterator[Mistake]:
    """Refuse a pool or a pool's size that does not exist or is not the operator's."""
    for index, operator in enumerate(operators):
        here = ("operators", index)
        for position, pool in enumerate(operator.pools or ()):
            yield from _unknown_pool((*here, "pools", position), pool, node_pools)
        for field, deployment in (("fixed", operator.fixed), ("initial", operator.initial)):
            yield from _impossible_deployment((*here, field), deployment, node_pools, operator)


def operators_fit_their_pools(
    node_pools: Sequence[NodePool], operators: Sequence[Operator]
) -> Iterator[Mistake]:
    """Refuse a written deployment that exceeds a pool's own limit."""
    limits = {pool.name: pool.max_replicas for pool in node_pools}
    for index, operator in enumerate(operators):
        for field in ("fixed", "initial"):
            deployment: Deployment = getattr(operator, field) or {}
            for pool, limit in limits.items():
                used = sum(n for key, n in deployment.items() if key.split("/")[0] == pool)
                if limit is not None and used > limit:
                    yield Mistake(
                        ("operators", index, field),
                        deployment,
                        f"at most maxReplicas = {limit} replicas in pool {pool}",
                        "remove replicas, or raise the pool's maxReplicas",
                    )


def job_manager_uses_known_pool(flink: Flink, node_pools: Sequence[NodePool]) -> Iterator[Mistake]:
    """Refuse a JobManager in a pool that does not exist."""
    if flink.job_manager.pool is not None:
        yield from _unknown_pool(
            ("flink", "jobManager", "pool"), flink.job_manager.pool, node_pools
        )


def fallback_names_known(
    node_pools: Sequence[NodePool], operators: Sequence[Operator], fallback: Fallback
) -> Iterator[Mistake]:
    """Refuse a fallback for an operator that does not exist, or that it could not have."""
    known = {operator.name: operator for operator in operators or (Operator(name=WHOLE_JOB),)}
    for name, deployment in (fallback.named or {}).items():
        here = ("fallback", "named", name)
        if name not in known:
            yield _unknown_operator(here, name, tuple(known))
        elif known[name].fixed is not None:
            yield Mistake(
                here, deployment, f"no fallback of {name}, which is fixed",
                "remove it, or remove fixed from the operator",
            )  # fmt: skip
        yield from _impossible_deployment(here, deployment, node_pools, known.get(name))


def fallback_fits_its_bounds(
    node_pools: Sequence[NodePool], operators: Sequence[Operator], fallback: Fallback
) -> Iterator[Mistake]:
    """Refuse a fallback above what an operator may have, or above what a pool holds."""
    named = fallback.named or {}
    for operator in operators or (Operator(name=WHOLE_JOB),):
        if sum(named.get(operator.name, {}).values()) > operator.max_replicas:
            yield Mistake(
                ("fallback", "named", operator.name), named[operator.name],
                f"at most maxReplicas = {operator.max_replicas} replicas of {operator.name}",
                "remove replicas, or raise maxReplicas",
            )  # fmt: skip
    for pool in node_pools:
        used = sum(
            count
            for deployment in named.values()
            for node_type, count in deployment.items()
            if node_type.split("/")[0] == pool.name
        )
        if pool.max_replicas is not None and used > pool.max_replicas:
            yield Mistake(
                ("fallback", "named"), used,
                f"at most maxReplicas = {pool.max_replicas} replicas in pool {pool.name}",
                "remove replicas, or raise the pool's maxReplicas",
            )  # fmt: skip


def windows_name_known(
    operators: Sequence[Operator], windows: Sequence[Window]
) -> Iterator[Mistake]:
    """Refuse a floor for an operator that does not exist."""
    known = tuple(operator.name for operator in operators) or (WHOLE_JOB,)
    for index, window in enumerate(windows):
        for name in window.min_replicas or {}:
            if name not in known:
                yield _unknown_operator(("windows", index, "minReplicas", name), name, known)


def floors_can_be_kept(
    node_pools: Sequence[NodePool], operators: Sequence[Operator], windows: Sequence[Window]
) -> Iterator[Mistake]:
    """Refuse a floor above what an operator may have, and floors above what pools hold together."""
    known = {operator.name: operator for operator in operators or (Operator(name=WHOLE_JOB),)}
    own = {name: operator.min_replicas for name, operator in known.items()}
    for place, operator in enumerate(operators):
        path = ("operators", place, "minReplicas")
        yield from _floor_beyond_bounds(path, operator.min_replicas, operator, node_pools)
    yield from _floors_beyond_pools(("operators",), own, known, node_pools)
    for index, window in enumerate(windows):
        here = ("windows", index, "minReplicas")
        asked = {name: n for name, n in (window.min_replicas or {}).items() if name in known}
        for name, floor in asked.items():
            yield from _floor_beyond_bounds((*here, name), floor, known[name], node_pools)
        if asked:
            together = {name: max(floor, asked.get(name, 1)) for name, floor in own.items()}
            yield from _floors_beyond_pools(here, together, known, node_pools)


_DECIMALS = 9
"""Of a price times a size. Three times 0.1 is above 0.3 as a float, and not for whoever pays it."""


def cost_can_be_kept(
    objective: Objective,
    flink: Flink,
    node_pools: Sequence[NodePool],
    operators: Sequence[Operator],
    windows: Sequence[Window],
) -> Iterator[Mistake]:
    """Refuse a limit on cost that not even the fewest replicas keep, or the written ones do not."""
    limit, named = objective.max_cost_per_hour, flink.job_manager.pool
    paid = [pool for pool in node_pools if named is None or pool.name == named][:1]
    known = {operator.name: operator for operator in operators or (Operator(name=WHOLE_JOB),)}
    places = {name: _list_places(node_pools, each) for name, each in known.items()}
    if limit is None or not paid or not all(places.values()):
        return
    job_manager = flink.job_manager
    first = price_of(paid[0], cores=job_manager.cpu.cores, memory=job_manager.memory.bytes)

    def add_up(floors: Mapping[str, int]) -> float:
        """Return what the floors cost at least, the JobManager included."""
        cost = first + sum(
            _price_written(node_pools, each.fixed)
            if each.fixed is not None
            else _price_of_floor(places[name], floors.get(name, 1))
            for name, each in known.items()
        )
        return round(cost, _DECIMALS)

    fewest, own = add_up({}), {name: each.min_replicas for name, each in known.items()}
    if fewest > limit:
        yield Mistake(
            ("objective", "maxCostPerHour"), write_number(limit),
            f"at least {write_number(fewest)}, what one replica of each operator costs",
            "raise it, or add a cheaper pool",
        )  # fmt: skip
        return
    remedy = "lower minReplicas, or raise spec.objective.maxCostPerHour"
    expected = f"floors that cost at most maxCostPerHour = {write_number(limit)}"
    if add_up(own) > limit:
        yield Mistake(("operators",), write_number(add_up(own)), expected, remedy)
        return
    initial = add_up(own) + sum(
        _price_written(node_pools, each.initial) - _price_of_floor(places[name], each.min_replicas)
        for name, each in known.items()
        if each.initial is not None
    )
    if round(initial, _DECIMALS) > limit:
        yield Mistake(
            ("operators",), write_number(initial),
            f"initial that costs at most maxCostPerHour = {write_number(limit)}",
            "remove replicas from initial, or raise spec.objective.maxCostPerHour",
        )  # fmt: skip
    for index, window in enumerate(windows):
        asked = window.min_replicas or {}
        cost = add_up({name: max(floor, asked.get(name, 1)) for name, floor in own.items()})
        if cost > limit:
            here = ("windows", index, "minReplicas")
            yield Mistake(here, write_number(cost), expected, remedy)


def replicas_within_max_parallelism(
    flink: Flink, operators: Sequence[Operator]
) -> Iterator[Mistake]:
    """Refuse more replicas than key groups: the rest would never get a record."""
    for index, operator in enumerate(operators):
        if operator.max_replicas > flink.max_parallelism:
            yield Mistake(
                ("operators", index, "maxReplicas"),
                operator.max_replicas,
                f"at most spec.flink.maxParallelism = {flink.max_parallelism}",
                "lower it, or raise maxParallelism before the first start",
            )


RULES: tuple[Callable[..., Iterable[Mistake]], ...] = (
    each_name_once,
    each_vertex_once,
    each_window_once,
    several_pools_have_prices,
    operators_use_known_pools,
    operators_fit_their_pools,
    job_manager_uses_known_pool,
    fallback_names_known,
    fallback_fits_its_bounds,
    windows_name_known,
    floors_can_be_kept,
    cost_can_be_kept,
    replicas_within_max_parallelism,
    *(_judge(rule) for rule in CEL_RULES if rule.holds is not None),
)


def _floor_beyond_bounds(
    path: tuple[str | int, ...], floor: int, operator: Operator, node_pools: Sequence[NodePool]
) -> Iterator[Mistake]:
    """Refuse a floor above what one operator may have."""
    if operator.fixed is not None and floor > sum(operator.fixed.values()):
        yield Mistake(
            path, floor, f"at most the replicas that {operator.name} always has, fixed",
            "lower it, or remove fixed",
        )  # fmt: skip
    elif floor > operator.max_replicas:
        yield Mistake(
            path, floor, f"at most maxReplicas = {operator.max_replicas} of {operator.name}",
            "lower it, or raise maxReplicas",
        )  # fmt: skip
    elif (held := _hold(node_pools, operator.pools)) is not None and floor > held:
        yield Mistake(
            path, floor, f"at most {held}, which the pools of {operator.name} hold",
            "lower it, or raise maxReplicas of a pool",
        )  # fmt: skip


def _floors_beyond_pools(
    path: tuple[str | int, ...],
    floors: Mapping[str, int],
    operators: Mapping[str, Operator],
    node_pools: Sequence[NodePool],
) -> Iterator[Mistake]:
    """Refuse floors that pools do not hold together, of operators that may use no other pool."""
    every = frozenset(pool.name for pool in node_pools)
    usable = {
        name: every if each.pools is None else frozenset(each.pools)
        for name, each in operators.items()
    }
    for pools in dict.fromkeys(usable.values()):
        names = [name for name, own in usable.items() if own <= pools]
        asked, held = sum(floors[name] for name in names), _hold(node_pools, pools)
        if held is not None and len(names) > 1 and asked > held:
            yield Mistake(
                path, asked, f"at most {held} replicas of {', '.join(names)} together, which their"
                " pools hold",
                "lower minReplicas of one of them, or raise maxReplicas of a pool",
            )  # fmt: skip


def _list_places(node_pools: Sequence[NodePool], operator: Operator) -> list[tuple[float, float]]:
    """Return what a replica costs at least in each pool of an operator, the cheapest first.

    Each entry is the price of a replica, currency per hour, and how many replicas the pool holds,
    `inf` without a limit. Other operators that use the pool are ignored.
    """
    return sorted(
        (
            min(price_of(pool, cores=each.cores, memory=pool.memory.bytes) for each in pool.sizes),
            math.inf if pool.max_replicas is None else pool.max_replicas,
        )
        for pool in node_pools
        if operator.pools is None or pool.name in operator.pools
    )


def _price_of_floor(places: Sequence[tuple[float, float]], floor: int) -> float:
    """Return what so many replicas cost at least; those that no pool holds cost nothing."""
    cost, lacking = 0.0, float(floor)
    for price, held in places:
        count = min(lacking, held)
        cost, lacking = cost + count * price, lacking - count
    return cost


def _price_written(node_pools: Sequence[NodePool], deployment: Deployment) -> float:
    """Return what a written deployment costs, currency per hour; what is unknown costs nothing."""
    return sum(
        deployment.get(f"{pool.name}/{size}", 0)
        * price_of(pool, cores=size.cores, memory=pool.memory.bytes)
        for pool in node_pools
        for size in pool.sizes
    )


def _hold(node_pools: Sequence[NodePool], names: Collection[str] | None) -> int | None:
    limits = [each.max_replicas for each in node_pools if names is None or each.name in names]
    known = [each for each in limits if each is not None]
    return sum(known) if known and len(known) == len(limits) else None


def _repeated(section: str, items: Sequence[_Named]) -> Iterator[Mistake]:
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        if item.name in first:
            yield Mistake(
                (section, index, "name"),
                item.name,
                f"another name than spec.{section}[{first[item.name]}]",
                "rename or remove one of them",
            )
        first.setdefault(item.name, index)


def _unknown_pool(
    path: tuple[str | int, ...], pool: str, node_pools: Sequence[NodePool]
) -> Iterator[Mistake]:
    known = [each.name for each in node_pools]
    if pool not in known:
        yield Mistake(
            path, pool, f"a pool of spec.nodePools ({', '.join(known)})",
            suggest(pool, known, otherwise="choose one of them, or add the pool"),
        )  # fmt: skip


def _impossible_deployment(
    path: tuple[str | int, ...],
    deployment: Deployment | None,
    node_pools: Sequence[NodePool],
    operator: Operator | None,
) -> Iterator[Mistake]:
    known = {f"{pool.name}/{size}": pool.name for pool in node_pools for size in pool.sizes}
    own = None if operator is None else operator.pools
    for node_type in deployment or {}:
        if node_type not in known:
            yield Mistake(
                (*path, node_type), node_type,
                f"a pool/size of spec.nodePools ({', '.join(known)})",
                suggest(node_type, tuple(known), otherwise="choose one of them, or add the size"),
            )  # fmt: skip
        elif own is not None and known[node_type] not in own:
            yield Mistake(
                (*path, node_type), node_type, f"a size of the operator's pools ({', '.join(own)})",
                "choose one of them, or add the pool to the operator's pools",
            )  # fmt: skip


def _unknown_operator(path: tuple[str | int, ...], operator: str, known: Sequence[str]) -> Mistake:
    return Mistake(
        path, operator, f"an operator of spec.operators ({', '.join(known)})",
        suggest(operator, known, otherwise="choose one of them, or add the operator"),
    )  # fmt: skip
