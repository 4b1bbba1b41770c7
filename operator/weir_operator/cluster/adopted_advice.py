"""What Weir would do with a job that somebody else runs, and what that would cost. Pure.

The bill now is that of the pods that run: every TaskManager's CPU and the JobManager's, at the
prices of the pools that they are on. The bill advised is that of the job under Weir, where each
operator has TaskManagers of its own. It is dearer for a job whose operators are all nearly idle:
one TaskManager each is the least there is, and the advice says so by its figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir_operator.cluster.adopted_view import AdoptedJob, Place
from weir_operator.controller import bill
from weir_operator.controller.operator_manager import OperatorManager
from weir_operator.controller.tick import Tick
from weir_operator.streamapp import world
from weir_operator.streamapp.models import StreamApp
from weir_policies.model.cost import price_per_hour
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.wording import say_deployment, say_time

HOURS_A_DAY = 24.0


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorAdvice:
    """What is advised for one operator."""

    now: Mapping[str, int]
    """Its subtasks, each as the replica that it would be alone."""
    target: Mapping[str, int]
    """Replicas per node type; as now where nothing could be decided."""
    message: str
    """One sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """What one tick advises for the whole job."""

    time: float
    """Unix seconds."""
    operators: Mapping[str, OperatorAdvice]
    cost_now: float
    """Currency per hour, of the pods that run."""
    cost_advised: float
    """Currency per hour, under Weir."""
    response_time: float
    """Seconds from source to sink that the advised deployment should give; NaN if unknown."""
    message: str
    """The bill and the forecast in one sentence."""

    @property
    def saved_a_day(self) -> float:
        """Currency per day; negative where the advice is dearer."""
        return (self.cost_now - self.cost_advised) * HOURS_A_DAY


def cost_of_pods(app: StreamApp, places: Sequence[Place]) -> float:
    """Return what pods cost, currency per hour."""
    return sum(place.cores * world.price_per_core(app, place.pool) for place in places)


def share_cost(app: StreamApp, job: AdoptedJob, paid: float) -> dict[str, float]:
    """Return what a replica costs today by node type, currency per hour.

    Vertices share slots, so at their pools' prices the replicas would be paid for many times over.
    All are scaled by one factor, with which they cost together what the pods do.
    """
    listed = bill.prices(app)
    whole = bill.cost_per_hour(job.deployments, listed, job_manager=0.0)
    return {name: price * paid / whole for name, price in listed.items()}


def advise(
    tick: Tick,
    job: AdoptedJob,
    managers: Mapping[str, OperatorManager],
    *,
    cost_now: float,
    job_manager_price: float,
) -> Advice | None:
    """Return what a tick advises, `None` where it held.

    Args:
        tick: What was seen and proposed.
        job: The job as it runs now.
        managers: Of its operators.
        cost_now: Currency per hour, of the pods that run.
        job_manager_price: Currency per hour, of the JobManager under Weir.
    """
    if tick.held or tick.dataflow is None:
        return None
    targets, messages, times = {}, {}, {}
    for name, manager in managers.items():
        types = manager.model.node_types
        proposal = tick.proposals.get(name)
        if proposal is not None:
            targets[name] = proposal.decision.target
            messages[name] = proposal.decision.reason
            times[name] = proposal.decision.expectation.response_time
        elif manager.fixed is not None:
            targets[name] = manager.fixed
            messages[name] = f"Fixed at {say_deployment(manager.fixed, types)}"
            times[name] = 0.0
        else:
            targets[name] = Deployment.from_named(job.deployments[name], types)
            messages[name] = "Nothing could be decided: it was not measured"
            times[name] = math.nan
    advised = job_manager_price + sum(
        price_per_hour(target, managers[name].model.node_types) for name, target in targets.items()
    )
    response = tick.dataflow.response_time(times)
    return Advice(
        time=tick.now,
        operators={
            name: OperatorAdvice(
                now=job.deployments[name],
                target=target.named(managers[name].model.node_types),
                message=messages[name],
            )
            for name, target in targets.items()
        },
        cost_now=cost_now,
        cost_advised=advised,
        response_time=response,
        message=_say(cost_now, advised, response),
    )


def _say(now: float, advised: float, response: float) -> str:
    daily = (now - advised) * HOURS_A_DAY
    change = f"{daily:.3g} a day less" if daily >= 0 else f"{-daily:.3g} a day more"
    expected = "" if math.isnan(response) else f"; response time {say_time(response)} expected"
    return f"Under Weir {advised:.3g} per hour instead of {now:.3g}, {change}{expected}"
