"""Budgets and verdicts of the Application Manager."""

import math
import re

import numpy as np
import pytest

from weir_operator.loop.arbitrate import WITHIN_REACH, ApplicationManager
from weir_operator.loop.decide import OperatorManager
from weir_operator.loop.proposals import Proposal
from weir_operator.rescale.status import FailedDeployment
from weir_policies import registry
from weir_policies.application_manager.restart_budget import RestartBudget
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.node_types import Deployment
from weir_policies.model.objective import Statistic
from weir_policies.testing import a_decision, a_model, an_observation
from weir_simulator.experiment import Objective, PathBound

CHAIN = Dataflow(
    operators=("source", "match", "count", "sink"),
    edges=(
        Edge(source="source", target="match"),
        Edge(source="match", target="count"),
        Edge(source="count", target="sink"),
    ),
)


def a_manager(name, *, service_mean=0.01, fixed=None):
    return OperatorManager(
        model=a_model(name=name, service_mean=service_mean),
        given=[each.name for each in a_model().node_types],
        policy=registry.build("queueing", rng=np.random.default_rng(1)),
        fixed=fixed,
    )


def managers(match=0.02, count=0.01):
    one = Deployment((1, *(0 for _ in a_model().node_types[1:])))
    return {
        "source": a_manager("source", service_mean=math.nan, fixed=one),
        "match": a_manager("match", service_mean=match),
        "count": a_manager("count", service_mean=count),
        "sink": a_manager("sink", service_mean=0.004, fixed=one),
    }


def an_am(bound=0.5, *, statistic=Statistic.MEAN, size=3, paths=()):
    return ApplicationManager(
        objective=Objective(response_time=bound, statistic=statistic, paths=tuple(paths)),
        pool_limits={},
        restarts=RestartBudget(size=size),
    )


def at_sink(bound, statistic=Statistic.MEAN):
    return PathBound(sink="sink", response_time=bound, statistic=statistic)


def ruled(am, proposals, *, failed=(), now=0.0):
    current = {name: {"small": 1} for name in CHAIN.operators}
    for name, proposal in proposals.items():
        seen = proposal.observation
        current[name] = seen.deployment.named(seen.model.node_types)
    return am.rule(
        proposals,
        dataflow=CHAIN,
        current=current,
        failed=failed,
        tokens=am.restarts.fill(0.0),
        now=now,
    )


def test_operators_that_cannot_change_leave_the_rest_to_those_that_can():
    budgets = an_am().sharing.share(CHAIN, managers())[0]

    minimum = 0.004 / a_model().node_types[0].speedup
    assert budgets["sink"] == pytest.approx(minimum)
    assert budgets["source"] == 0.0
    assert sum(budgets.values()) == pytest.approx(0.5)
    assert budgets["match"] > budgets["count"]
    assert budgets["count"] > 0.15


def least_named(refusal, field):
    """The least bound that would do, s."""
    assert field in refusal
    [minimum] = re.findall(r"at least (\d+ ms)", refusal)
    return float(minimum.removesuffix(" ms")) / 1000


def test_a_bound_below_the_service_time_is_told_and_what_comes_near_it_is_shared():
    budgets, infeasible = an_am(bound=0.001).sharing.share(CHAIN, managers())

    minimum = least_named(infeasible, "spec.objective.responseTime")
    assert minimum < sum(budgets.values()) <= WITHIN_REACH * minimum


def test_a_bound_just_above_the_least_possible_is_shared():
    # 8.0 ms at the sink, and 12.1 and 6.25 ms on the fastest node type: 26.35 ms.
    operators = managers(match=0.01936)
    refusal = an_am(bound=0.02).sharing.share(CHAIN, operators)[1]
    named = least_named(refusal, "spec.objective.responseTime")

    budgets, infeasible = an_am(bound=named + 0.0001).sharing.share(CHAIN, operators)

    assert infeasible == ""
    assert sum(budgets.values()) == pytest.approx(named + 0.0001)


def test_a_tighter_bound_for_a_fixed_sink_binds_the_operators_before_it():
    loose = an_am().sharing.share(CHAIN, managers())[0]

    tight = an_am(paths=[at_sink(0.1)]).sharing.share(CHAIN, managers())[0]

    assert loose["match"] + loose["count"] > 0.4
    assert tight["match"] + tight["count"] + tight["sink"] <= 0.1 + 1e-9


@pytest.mark.parametrize("bound", [0.001, 0.01])
def test_a_path_that_cannot_keep_its_bound_is_named(bound):
    budgets, infeasible = an_am(paths=[at_sink(bound)]).sharing.share(CHAIN, managers())

    assert least_named(infeasible, "paths[sink].responseTime") > bound
    assert sum(budgets.values()) < 0.1, "it is kept as nearly as can be"


def test_a_bound_on_a_quantile_leaves_less_for_the_mean_the_longer_its_tail():
    typical, measured = an_am(statistic=Statistic.P95), an_am(statistic=Statistic.P95)
    for _ in range(50):
        measured.note_output(mean=0.1, quantile=0.15, now=0.0)

    short, long = (am.sharing.share(CHAIN, managers())[0] for am in (typical, measured))

    assert sum(short.values()) == pytest.approx(0.5 / -math.log(0.05))
    assert sum(long.values()) == pytest.approx(0.5 / 1.5, rel=0.01)


def test_the_mean_of_a_single_sink_keeps_its_bound_whatever_percentile_the_whole_bounds():
    am = an_am(statistic=Statistic.P95, paths=[at_sink(0.1)])
    for _ in range(50):
        am.note_output(mean=0.1, quantile=0.15, now=0.0)

    assert sum(am.sharing.share(CHAIN, managers())[0].values()) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("statistic", "paths", "late"),
    [
        (Statistic.MEAN, [], False),
        (Statistic.P95, [], True),
        (Statistic.MEAN, [at_sink(0.3)], True),
        (Statistic.MEAN, [at_sink(0.35)], False),
        (Statistic.MEAN, [at_sink(0.35, Statistic.P95)], True),
    ],
)
def test_predicted_times_are_judged_by_every_bound(statistic, paths, late):
    am = an_am(bound=0.5, statistic=statistic, paths=paths)

    assert am.sharing.exceeds(CHAIN, dict.fromkeys(CHAIN.operators, 0.08)) is late


def test_times_that_are_not_known_exceed_nothing_for_certain():
    times = dict.fromkeys(CHAIN.operators, math.nan)

    assert an_am().sharing.exceeds(CHAIN, times) is None


def test_what_cannot_be_measured_teaches_nothing_about_the_tail():
    am = an_am(statistic=Statistic.P95)
    before = am.sharing.share(CHAIN, managers())

    am.note_output(mean=math.nan, quantile=math.nan, now=0.0)
    am.note_output(mean=0.1, quantile=math.inf, now=0.0)

    assert am.sharing.share(CHAIN, managers()) == before


def a_proposal(name, *, target, urgency=0.9):
    seen = an_observation(model=a_model(name=name), deployment=Deployment((1, 0, 0)))
    decision = a_decision(target=Deployment(target), urgency=urgency)
    return Proposal(observation=seen, decision=decision)


def test_a_deployment_that_failed_before_is_denied_until_its_time_is_over():
    am = an_am()
    proposals = {"match": a_proposal("match", target=(2, 0, 0))}
    target = ruled(am, proposals).target
    failed = (FailedDeployment(deployment=target, until=100.0, reason="it ran out of memory"),)

    early = ruled(am, proposals, failed=failed, now=10.0)
    late = ruled(am, proposals, failed=failed, now=101.0)

    assert early.granted == ()
    assert "it ran out of memory" in early.verdicts["match"]
    assert late.granted == ("match",)
