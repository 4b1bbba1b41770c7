"""What is known of a job before any measurement: its graph, and what its user specified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weir_policies.errors import DataflowError
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.node_types import NodeType
from weir_policies.policy import OperatorModel
from weir_simulator.errors import FitError


@dataclass(frozen=True, kw_only=True, slots=True)
class Structure:
    """The job as specified.

    Raises:
        FitError: The graph cannot be right, a name is not among the operators or node types, or
            two operators differ in what they say of one node type.
    """

    operators: tuple[OperatorModel, ...]
    """Every operator that is measured; what is not measured of it stays as it is here."""
    edges: tuple[tuple[str, str], ...] = ()
    """Which operator feeds which."""
    given: frozenset[str] = frozenset()
    """Names of the node types whose speedup the user gave. Without any, the speedups are relative
    to the node type that served most records, at what is assumed of it."""
    fixed: frozenset[str] = frozenset()
    """Operators that are never scaled: their time counts, they are no part of the experiment."""
    node_types: tuple[NodeType, ...] = field(init=False, compare=False)
    """Of all operators."""
    dataflow: Dataflow = field(init=False, compare=False, repr=False)
    """The graph; selectivities are 1 until they are fitted."""

    def __post_init__(self) -> None:
        """Check that everything names something."""
        names = tuple(model.name for model in self.operators)
        try:
            dataflow = Dataflow(
                operators=names,
                edges=tuple(Edge(source=source, target=target) for source, target in self.edges),
            )
        except DataflowError as error:
            raise FitError(f"{error}; correct the job's structure") from error
        types: dict[str, NodeType] = {}
        for model in self.operators:
            for node_type in model.node_types:
                if types.setdefault(node_type.name, node_type) != node_type:
                    raise FitError(
                        f"Expected one node type {node_type.name!r}, got another at operator "
                        f"{model.name!r}; give equal ones to all operators"
                    )
        for what, known, named in (
            ("fixed", set(names), self.fixed),
            ("given", set(types), self.given),
        ):
            if unknown := sorted(named - known):
                raise FitError(f"Expected {what} out of {sorted(known)}, got {unknown}")
        object.__setattr__(self, "node_types", tuple(types.values()))
        object.__setattr__(self, "dataflow", dataflow)

    @property
    def models(self) -> Mapping[str, OperatorModel]:
        """The operators by name."""
        return {model.name: model for model in self.operators}
