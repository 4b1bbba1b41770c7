"""Which TaskManager serves which operator of the running job.

The layout is what Weir believes to run; the window is what was scraped. Measuring compares the two,
so it notices a replica that should report and does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from weir_operator.errors import PermanentError


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedReplica:
    """One TaskManager that runs one subtask of every vertex of its operator."""

    tm_id: str
    """`taskmanager.resource-id` as the runtime writes it, not as Flink mangles it."""
    node_type: str
    """Name of its node type now, `pool/size`; a resize changes it, the series know only pools."""
    drained: bool = False
    """Its task that takes records in has come to its own end, and Flink says so: that it sends no
    samples is no fault, and it takes in nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorLayout:
    """One operator: its replicas, and what feeds it."""

    replicas: tuple[PlacedReplica, ...]
    upstream: tuple[str, ...] = ()
    """Operators whose records it takes in; none makes it a source."""
    entry_vertices: frozenset[str] = frozenset()
    """Flink vertex ids that take in what comes from `upstream` (at a source: from outside). Empty
    counts every vertex, which is right where the operator is a single one, as is usual."""
    exit_vertices: frozenset[str] = frozenset()
    """Flink vertex ids whose records leave the operator; empty counts every vertex."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLayout:
    """The operators of the job that runs now.

    Raises:
        PermanentError: An operator is fed by one that does not exist, or by itself in a circle.
    """

    job_id: str
    """Flink's id of the present run; every rescale makes a new one."""
    operators: Mapping[str, OperatorLayout]
    order: tuple[str, ...] = field(init=False, compare=False, repr=False)
    """All operators, each after everything that feeds it."""

    def __post_init__(self) -> None:
        """Refuse an unknown upstream and a circle; put the operators in order."""
        for name, operator in self.operators.items():
            for upstream in operator.upstream:
                if upstream not in self.operators:
                    raise PermanentError(
                        f"Expected the upstream of {name!r} out of {sorted(self.operators)}, "
                        f"got {upstream!r}"
                    )
        graph = {name: operator.upstream for name, operator in self.operators.items()}
        try:
            order = tuple(TopologicalSorter(graph).static_order())
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            raise PermanentError(f"Expected a dataflow without a circle, got {circle}") from error
        object.__setattr__(self, "order", order)

    @property
    def sources(self) -> tuple[str, ...]:
        """Operators that nothing feeds."""
        return tuple(name for name, operator in self.operators.items() if not operator.upstream)

    @property
    def sinks(self) -> tuple[str, ...]:
        """Operators that feed nothing."""
        return tuple(name for name, fed in self.downstream().items() if not fed)

    def downstream(self) -> dict[str, tuple[str, ...]]:
        """Return, by operator, the operators that it feeds."""
        fed: dict[str, list[str]] = {name: [] for name in self.operators}
        for name, operator in self.operators.items():
            for feeder in operator.upstream:
                fed[feeder].append(name)
        return {name: tuple(receivers) for name, receivers in fed.items()}
