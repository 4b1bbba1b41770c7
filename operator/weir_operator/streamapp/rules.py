"""The checks between sections of the spec; each stands here in Python and, where it can, in CEL.

A check names the sections that it reads by its parameters. So a manifest with a mistake in one
section is still judged by every check that does not read that section, and all mistakes are
reported at once.

In Python alone: `operators_fit_their_pools` and `fallback_names_known`, too dear for the API
server's cost limit, and each name's uniqueness, which the API server keeps by itself for lists told
apart by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from weir_operator.streamapp.flink import Flink
from weir_operator.streamapp.managers import Fallback, Window
from weir_operator.streamapp.operators import Operator
from weir_operator.streamapp.pools import NodePool
from weir_operator.streamapp.section import Mistake, Replicas, suggest

if TYPE_CHECKING:
    from weir_operator.streamapp.models import Mode

# Of the map key k. Splitting it costs the API server's estimator less than joining pool and size.
_NODE_TYPE_EXISTS = (
    "k.split('/').size() == 2 && self.nodePools.exists(p,"
    " k.split('/')[0] == p.name && k.split('/')[1] in p.sizes)"
)

CEL_RULES = (
    (
        "self.nodePools.size() < 2 || self.nodePools.all(p, has(p.price))",
        "expected a price for every node pool where there are several",
    ),
    (
        "!has(self.operators) || self.operators.all(o, !has(o.pools)"
        " || o.pools.all(n, self.nodePools.exists(p, p.name == n)))",
        "expected operators[].pools to name node pools of spec.nodePools",
    ),
    (
        "!has(self.operators) || self.operators.all(o, !has(o.fixed)"
        f" || o.fixed.all(k, {_NODE_TYPE_EXISTS}))",
        "expected operators[].fixed to name a pool/size of spec.nodePools",
    ),
    (
        "!has(self.operators) || self.operators.all(o, !has(o.initial)"
        f" || o.initial.all(k, {_NODE_TYPE_EXISTS}))",
        "expected operators[].initial to name a pool/size of spec.nodePools",
    ),
    (
        "!has(self.flink.jobManager.pool)"
        " || self.nodePools.exists(p, p.name == self.flink.jobManager.pool)",
        "expected flink.jobManager.pool to name a node pool of spec.nodePools",
    ),
    (
        "!has(self.operators) || self.operators.all(o, o.maxReplicas <= self.flink.maxParallelism)",
        "expected every operator's maxReplicas to be at most flink.maxParallelism",
    ),
    ("!has(self.flink.ref) || self.mode != 'Auto'", "expected mode Advise or Off with flink.ref"),
)
"""Rule and message, for the API server; `self` is the spec with its defaults filled in."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def judge(sections: Mapping[str, object]) -> list[Mistake]:
    """Return what the checks find whose sections are all given.

    Args:
        sections: Sections of the spec that are right in themselves, by their Python names.
    """
    mistakes: list[Mistake] = []
    for rule in _RULES:
        needed = inspect.signature(rule).parameters
        if needed.keys() <= sections.keys():
            mistakes += rule(**{name: sections[name] for name in needed})
    return mistakes


def each_name_once(
    node_pools: Sequence[NodePool], operators: Sequence[Operator]
) -> Iterator[Mistake]:
    """Refuse a second node pool or operator of one name."""
    yield from _repeated("nodePools", node_pools)
    yield from _repeated("operators", operators)


def each_window_once(windows: Sequence[Window]) -> Iterator[Mistake]:
    """Refuse a second window of one name."""
    yield from _repeated("windows", windows)


def several_pools_have_prices(node_pools: Sequence[NodePool]) -> Iterator[Mistake]:
    """Refuse a pool without a price beside others, which could not be compared."""
    if len(node_pools) > 1:
        for index, pool in enumerate(node_pools):
            if pool.price is None:
                yield Mistake(
                    ("nodePools", index, "price"), None, "a price where there are several pools",
                    f"write what one CPU of {pool.name} costs per hour, such as 0.04",
                )  # fmt: skip


def operators_use_known_pools(
    node_pools: Sequence[NodePool], operators: Sequence[Operator]
) -> Iterator[Mistake]:
    """Refuse a pool or a pool's size that does not exist."""
    for index, operator in enumerate(operators):
        here = ("operators", index)
        for position, pool in enumerate(operator.pools or ()):
            yield from _unknown_pool((*here, "pools", position), pool, node_pools)
        yield from _unknown_node_types((*here, "fixed"), operator.fixed, node_pools)
        yield from _unknown_node_types((*here, "initial"), operator.initial, node_pools)


def operators_fit_their_pools(
    node_pools: Sequence[NodePool], operators: Sequence[Operator]
) -> Iterator[Mistake]:
    """Refuse a written deployment that exceeds a pool's own limit."""
    limits = {pool.name: pool.max_replicas for pool in node_pools}
    for index, operator in enumerate(operators):
        for field in ("fixed", "initial"):
            deployment: Replicas = getattr(operator, field) or {}
            for pool, limit in limits.items():
                used = sum(n for key, n in deployment.items() if key.split("/")[0] == pool)
                if limit is not None and used > limit:
                    yield Mistake(
                        ("operators", index, field),
                        deployment,
                        f"at most {limit} replicas in pool {pool}, its maxReplicas",
                        "take replicas away or raise the pool's limit",
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
    """Refuse a fallback for an operator, or on a pool's size, that does not exist."""
    names = [operator.name for operator in operators]
    for operator, deployment in (fallback.named or {}).items():
        here = ("fallback", "named", operator)
        if operator not in names:
            yield _unknown_operator(here, operator, names)
        yield from _unknown_node_types(here, deployment, node_pools)


def replicas_within_max_parallelism(
    flink: Flink, operators: Sequence[Operator]
) -> Iterator[Mistake]:
    """Refuse more replicas than there are key groups: the rest would never get a record."""
    for index, operator in enumerate(operators):
        if operator.max_replicas > flink.max_parallelism:
            yield Mistake(
                ("operators", index, "maxReplicas"),
                operator.max_replicas,
                f"at most spec.flink.maxParallelism = {flink.max_parallelism}",
                "lower it, or raise maxParallelism before the first start",
            )


def foreign_job_is_only_advised(flink: Flink, mode: Mode) -> Iterator[Mistake]:
    """Refuse to scale a job that somebody else runs."""
    if flink.ref is not None and mode == "Auto":
        yield Mistake(
            ("mode",), mode, "Advise or Off where spec.flink.ref is set",
            "write mode: Advise, whoever runs the job also scales it",
        )  # fmt: skip


_RULES: tuple[Callable[..., Iterable[Mistake]], ...] = (
    each_name_once,
    each_window_once,
    several_pools_have_prices,
    operators_use_known_pools,
    operators_fit_their_pools,
    job_manager_uses_known_pool,
    fallback_names_known,
    replicas_within_max_parallelism,
    foreign_job_is_only_advised,
)


def _repeated(section: str, items: Sequence[_Named]) -> Iterator[Mistake]:
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        if item.name in first:
            yield Mistake(
                (section, index, "name"),
                item.name,
                f"a name that spec.{section}[{first[item.name]}] does not have yet",
                "rename one of them or remove it",
            )
        first.setdefault(item.name, index)


def _unknown_pool(
    path: tuple[str | int, ...], pool: str, node_pools: Sequence[NodePool]
) -> Iterator[Mistake]:
    known = [each.name for each in node_pools]
    if pool not in known:
        yield Mistake(
            path, pool, f"a pool of spec.nodePools ({', '.join(known)})",
            suggest(pool, known, otherwise="choose one of those or add the pool"),
        )  # fmt: skip


def _unknown_node_types(
    path: tuple[str | int, ...], deployment: Replicas | None, node_pools: Sequence[NodePool]
) -> Iterator[Mistake]:
    known = [f"{pool.name}/{size}" for pool in node_pools for size in pool.sizes]
    for node_type in deployment or {}:
        if node_type not in known:
            yield Mistake(
                (*path, node_type), node_type,
                f"a pool/size of spec.nodePools ({', '.join(known)})",
                suggest(node_type, known, otherwise="choose one of those or add the size"),
            )  # fmt: skip


def _unknown_operator(path: tuple[str | int, ...], operator: str, known: Sequence[str]) -> Mistake:
    return Mistake(
        path, operator, f"an operator of spec.operators ({', '.join(known)})",
        suggest(operator, known, otherwise="choose one of those or add the operator"),
    )  # fmt: skip
