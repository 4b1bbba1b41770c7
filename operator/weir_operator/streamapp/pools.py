"""The section `nodePools`: the kinds of nodes that replicas can run on, and what they cost."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from weir_operator.streamapp.quantities import Cpu, Memory
from weir_operator.streamapp.section import Mistake, Name, Section, refuse, validations


class NodePool(Section):
    """A kind of node with its sizes, price and limit."""

    name: Name = Field(examples=["small"])
    """Name of the pool, unique in the list. Format: at most 63 lower-case letters, digits and
    `-`."""

    node_selector: dict[str, str] | None = Field(
        default=None, max_length=20, examples=[{"weir.dev/pool": "small"}]
    )
    """Labels of the pool's nodes; not used on one machine. If unset, the pool is every node."""

    sizes: tuple[Cpu, ...] = Field(
        default=(Cpu("1"),),
        min_length=1,
        max_length=8,
        examples=[["250m", "500m"]],
        json_schema_extra=validations(
            (
                "self.all(a, self.exists_one(b, quantity(a).compareTo(quantity(b)) == 0))",
                "expected each size once",
            )
        ),
    )
    """CPU shares that a replica's container may have here; within a pool a replica changes its size
    without a restart. If unset, defaults to one core. At least one. Format: CPU quantities."""

    memory: Memory = Field(default=Memory("1Gi"), examples=["1Gi"])
    """Memory of a replica's container, the same for all sizes. If unset, defaults to 1Gi. Format:
    memory quantity."""

    price: float | None = Field(default=None, gt=0, examples=[0.04])
    """What one CPU costs per hour, in any currency that all pools share. May be left out only where
    there is one pool: cost is then counted in CPU hours. Above zero."""

    speedup: float | None = Field(default=None, gt=0, examples=[1.6])
    """Speed of one core of the pool relative to the other pools' cores. If unset, it is learned,
    beginning at 1. Above zero."""

    max_replicas: int | None = Field(default=None, ge=1, le=10_000, examples=[20])
    """Most replicas of one operator in the pool, over all sizes. If unset, only `maxReplicas` of
    the operator limits them. Minimum: 1."""

    @model_validator(mode="after")
    def _check_each_size_once(self) -> Self:
        seen: set[Cpu] = set()
        mistakes = []
        for index, size in enumerate(self.sizes):
            if size in seen:
                mistakes.append(
                    Mistake(("sizes", index), size.text, "each size once", "remove the second one")
                )
            seen.add(size)
        refuse(mistakes)
        return self
