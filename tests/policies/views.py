"""What kernels see of one operator."""

from __future__ import annotations

from weir_policies.kernels.policy import fill_model, fill_present
from weir_policies.kernels.view import View, empty_view, with_workspaces
from weir_policies.operator_manager.planner import policy as planner
from weir_policies.operator_manager.planner.state import PlannerMemory, Workspace
from weir_policies.policy import Observation

PLANNER = planner.define({}, name="planner")


def view_of(observation: Observation) -> View:
    """Return a view with room for any policy."""
    model = observation.model
    view = with_workspaces(
        empty_view(operators=1, node_types=len(model.node_types), max_replicas=model.max_replicas),
        PLANNER.workspace_words,
    )
    fill_model(view, 0, model)
    fill_present(view, observation)
    return view


def planner_memory(view: View) -> PlannerMemory:
    """Return what a planner keeps of the operator of a view."""
    return PlannerMemory(PLANNER.prepare(view, 1000)[0])


def planner_workspace(view: View) -> Workspace:
    """Return where a planner works for the operator of a view."""
    return Workspace(view.workspace[0])
