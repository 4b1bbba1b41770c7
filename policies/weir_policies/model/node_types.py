"""Node types and deployments.

A node type is a (pool, size) with a speed and a price. A deployment says how many replicas of one
operator run on each node type; it is a value, ordered like the node types it was made for, and it
knows nothing of Flink or Kubernetes.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 3 (there a type has one size).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weir_policies.errors import DeploymentError

NOWHERE = ""
"""Pool of a node type that is listed because others run on it: the operator itself may not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeType:
    """One (pool, size) that a replica can run on."""

    name: str
    """Unique among the operator's node types; live code writes `pool/size`."""
    pool: str
    """Node pool; replicas change size within a pool without a restart. In the simulator, whose
    operators have one list, `NOWHERE` with a limit of 0 stands for one that is not this one's."""
    speedup: float
    """Work done per second relative to the reference speed 1; a service time divides by it."""
    price: float
    """Currency per replica and hour, everything that is paid for the replica included."""
    pool_limit: int | None = None
    """Most replicas of this operator over all sizes of the pool; `None` is no limit."""


@dataclass(frozen=True, slots=True, order=True)
class Deployment:
    """Replicas of one operator per node type, shape `(t,)`.

    Raises:
        DeploymentError: A count is negative.
    """

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse negative counts."""
        if min(self.counts, default=0) < 0:
            raise DeploymentError(f"Expected counts >= 0, got {self.counts}")

    @property
    def size(self) -> int:
        """Total replicas, the operator's parallelism."""
        return sum(self.counts)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the counts, one per node type."""
        return iter(self.counts)

    def per_pool(self, node_types: Sequence[NodeType]) -> dict[str, int]:
        """Return replicas per pool; pools with none are left out."""
        pools: dict[str, int] = {}
        for count, node_type in zip(self.counts, node_types, strict=True):
            if count:
                pools[node_type.pool] = pools.get(node_type.pool, 0) + count
        return pools

    def named(self, node_types: Sequence[NodeType]) -> dict[str, int]:
        """Return replicas per node type's name; types with none are left out."""
        return {
            node_type.name: count
            for count, node_type in zip(self.counts, node_types, strict=True)
            if count
        }

    @classmethod
    def from_named(cls, named: Mapping[str, int], node_types: Sequence[NodeType]) -> Deployment:
        """Build a deployment from counts by node type's name.

        Raises:
            DeploymentError: A name is not among the node types.
        """
        unknown = sorted(set(named) - {node_type.name for node_type in node_types})
        if unknown:
            known = [node_type.name for node_type in node_types]
            raise DeploymentError(f"Expected node types out of {known}, got {unknown}")
        return cls(tuple(named.get(node_type.name, 0) for node_type in node_types))


def speed_of(deployment: Deployment, node_types: Sequence[NodeType]) -> float:
    """Return the work per second of all replicas together, relative to the reference speed."""
    return sum(n * t.speedup for n, t in zip(deployment, node_types, strict=True))
