"""What kernels see of one operator."""

from __future__ import annotations

from weir_policies import registry
from weir_policies.kernels.policy import fill_model, fill_present
from weir_policies.kernels.view import View, empty_view
from weir_policies.operator_manager.planner.state import PlannerMemory
from weir_policies.policy import Observation


def view_of(observation: Observation) -> View:
    model = observation.model
    view = empty_view(
        operators=1, node_types=len(model.node_types), max_replicas=model.max_replicas
    )
    fill_model(view, 0, model)
    fill_present(view, observation)
    return view


def planner_memory(view: View) -> PlannerMemory:
    """Return what a planner keeps of the operator of a view."""
    algorithm = registry.define("planner")
    assert algorithm is not None
    return PlannerMemory(algorithm.prepare(view, 1000)[0])
