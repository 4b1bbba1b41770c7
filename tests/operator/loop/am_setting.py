"""Proposals of two operators, and an Application Manager that rules on them."""

from __future__ import annotations

from weir_operator.loop.arbitrate import ApplicationManager
from weir_operator.loop.proposals import Proposal
from weir_policies.application_manager.restart_budget import RestartBudget
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.node_types import Deployment
from weir_policies.testing import a_decision, an_observation
from weir_simulator.experiment import Objective

FLOW = Dataflow(operators=("match", "count"), edges=(Edge(source="match", target="count"),))
TYPES = an_observation().model.node_types


def a_deployment(replicas):
    return Deployment((replicas, *(0 for _ in TYPES[1:])))


CURRENT = {name: a_deployment(2).named(TYPES) for name in FLOW.operators}


def wishing(replicas, *, urgency):
    """Return the proposal to go from two replicas to so many."""
    return Proposal(
        observation=an_observation(deployment=a_deployment(2), rate=10.0),
        decision=a_decision(target=a_deployment(replicas), urgency=urgency),
    )


def an_am(*, restarts, gate=None, shared=None, cap=None):
    return ApplicationManager(
        objective=Objective(response_time=0.5),
        pool_limits={},
        restarts=RestartBudget(size=restarts),
        gate=gate,
        shared=shared,
        cap=cap,
    )


def rule(am, *, tokens=None, move=None, **wishes):
    """Return what it makes of wishes, by default with a full restart budget."""
    return am.rule(
        wishes,
        dataflow=FLOW,
        current=CURRENT,
        failed=(),
        tokens=tokens or am.restarts.fill(0.0),
        now=0.0,
        move=move,
    )
