"""The section `operators`: the limits and properties of each operator of the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from weir_operator.streamapp.quantities import Memory
from weir_operator.streamapp.section import Checked, Deployment, Name, Rule
from weir_policies.policy import Sharing
from weir_simulator.validation import Mistake

WHOLE_JOB = "job"
"""Name of the operator that stands for a job whose manifest lists none."""
ALL_OTHERS = "*"
"""In `vertices`: those that no operator names."""

VertexName = Annotated[str, Field(min_length=1, max_length=256, examples=["count"])]


def _agreement(field: str) -> tuple[Rule, ...]:
    """Return the CEL rules that `field`, a deployment, keeps with the operator's own bounds."""
    return (
        Rule(
            rule=f"!has(self.{field})"
            f" || self.{field}.map(k, self.{field}[k]).sum() <= self.maxReplicas",
            holds=lambda self: sum((getattr(self, field) or {}).values()) <= self.max_replicas,
            field=f".{field}",
            expected="at most maxReplicas replicas",
            remedy="raise maxReplicas, or remove replicas",
        ),
        Rule(
            rule=f"!has(self.{field})"
            f" || self.{field}.map(k, self.{field}[k]).sum() >= self.minReplicas",
            holds=lambda self: (
                (own := getattr(self, field)) is None or sum(own.values()) >= self.min_replicas
            ),
            field=f".{field}",
            expected="at least minReplicas replicas",
            remedy="lower minReplicas, or add replicas",
        ),
        Rule(
            rule=f"!has(self.{field}) || !has(self.pools)"
            f" || self.{field}.all(k, k.split('/')[0] in self.pools)",
            field=f".{field}",
            expected="sizes of the operator's pools",
            got=f"self.{field}.filter(k, !(k.split('/')[0] in self.pools))[0]",
            remedy="choose one of them, or add the pool to the operator's pools",
        ),
    )


class Operator(Checked):
    """An operator: a slot sharing group of the job, with its own TaskManagers."""

    rules = (
        *_agreement("fixed"),
        *_agreement("initial"),
        Rule(
            rule="self.minReplicas <= self.maxReplicas",
            holds=lambda self: self.min_replicas <= self.max_replicas,
            field=".minReplicas",
            expected="at most maxReplicas",
            remedy="lower it, or raise maxReplicas",
        ),
        Rule(
            rule="!has(self.fixed) || !has(self.initial)",
            holds=lambda self: self.fixed is None or self.initial is None,
            field=".initial",
            expected="no value together with fixed",
            remedy="remove initial, because a fixed operator also starts with fixed",
        ),
    )
    name: Name = Field(examples=["tokenize"])
    """Name of the operator, unique in the list: of a vertex as `weir graph` prints it, of a slot
    sharing group in a job that pins itself, or, with `vertices`, any. Format: at most 63 lower-case
    letters, digits and `-`."""

    vertices: tuple[VertexName, ...] | None = Field(
        default=None, min_length=1, max_length=100, examples=[["count", "sink-print"]]
    )
    """Vertices of the job that share this operator's TaskManagers and are scaled together; `*`
    stands for all that no operator names. Needs Weir's agent. If unset, defaults to the vertex that
    has the operator's name. Format: for each vertex, its name, id, uid or functions as printed by
    `weir graph`."""

    min_replicas: int = Field(default=1, ge=1, le=10_000, examples=[2])
    """Minimum number of replicas over all pools; at most `maxReplicas`. `windows` may raise it for
    a time. If unset, defaults to 1. Minimum: 1."""

    max_replicas: int = Field(default=10, ge=1, le=10_000, examples=[10])
    """Maximum number of replicas over all pools; at most `flink.maxParallelism`. If unset, defaults
    to 10. Minimum: 1."""

    pools: tuple[Name, ...] | None = Field(
        default=None, min_length=1, max_length=16, examples=[["large"]]
    )
    """Names of the node pools that it may use. If unset, defaults to all of `nodePools`."""

    sharing: Sharing | None = None
    """How Flink distributes records among the replicas. If unset, it follows the job's edges: Equal
    after a keyBy, ByLoad after a rebalance. Format: `Equal`, `Proportional` or `ByLoad`."""

    managed_memory: Memory | None = Field(default=None, examples=["256Mi"])
    """Flink's managed memory of each replica (RocksDB, SQL, Python), part of the pool's `memory`.
    If unset, defaults to none if Weir finds that the operator uses none, otherwise to
    `taskmanager.memory.managed.size` or `.fraction` of `flink.config`, otherwise to Flink's share
    in the operator's smallest pool. Format: memory quantity."""

    fixed: Deployment | None = Field(
        default=None, min_length=1, max_length=16, examples=[{"small/250m": 1}]
    )
    """Deployment that Weir never changes, as replicas per `pool/size`. May not be set together with
    `initial`. If unset, Weir scales the operator."""

    initial: Deployment | None = Field(
        default=None, min_length=1, max_length=16, examples=[{"small/250m": 2}]
    )
    """Deployment for the first start, as replicas per `pool/size`. May not be set together with
    `fixed`. If unset, defaults to `minReplicas` of the largest size of its first pool, and of the
    next ones where that holds no more."""

    def mistakes(self) -> Iterator[Mistake]:
        """Yield those between the fields, and names that a list has twice."""
        yield from super().mistakes()
        for field, what in (("pools", "pool"), ("vertices", "vertex")):
            names = getattr(self, field) or ()
            for index, name in enumerate(names):
                if name in names[:index]:
                    yield Mistake(
                        (field, index), name, f"each {what} once", "remove the second one"
                    )
