import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulator.builders import a_candidate, an_experiment
from weir_policies.errors import UnknownPolicyError
from weir_simulator.experiment import Change, World
from weir_simulator.frontier import (
    FrontierOrder,
    default_bounds,
    gather_candidates,
    plan_trials,
    price_objectives,
    run_trial,
    unavoidable_violations,
    with_bound,
    with_emphasis,
)
from weir_simulator.run import simulate

SHARES = st.floats(0, 100)


def an_order(**fields):
    setting = {
        "experiment": an_experiment(),
        "policy": "queueing",
        "bounds": (0.02, 0.05),
        "allowed": (1.0, 5.0),
        "seeds": (1, 2),
    }
    return FrontierOrder(**{**setting, **fields})


@st.composite
def ways_to_run(draw):
    """Candidates as they can be: whoever exceeds a bound exceeds every tighter one too."""
    return [
        a_candidate(
            price=draw(st.floats(0.1, 10)),
            missed=tuple(sorted(draw(st.lists(SHARES, min_size=3, max_size=3)), reverse=True)),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]


def test_an_objective_costs_what_the_cheapest_way_to_keep_it_costs():
    dear = a_candidate(price=3.0, missed=(0.5,))
    cheap = a_candidate(price=2.0, missed=(0.9,))
    too_loose = a_candidate(price=1.0, missed=(1.1,))

    [point] = price_objectives([dear, cheap, too_loose], [0.05], [1.0], [0.0])

    assert point.chosen == cheap
    assert point.missed == cheap.missed[0]


def test_what_one_seed_does_not_keep_is_not_kept():
    on_average = a_candidate(price=2.0, missed=(0.9,), spread=0.2)

    [point] = price_objectives([on_average], [0.05], [1.0], [0.0])

    assert point.chosen is None
    assert not point.impossible


def test_an_objective_that_the_largest_deployment_misses_is_impossible():
    [strict, loose] = price_objectives(
        [a_candidate(price=2.0, missed=(20.0,))], [0.05], [5.0, 30.0], [12.0]
    )

    assert strict.impossible
    assert not loose.impossible
    assert loose.chosen is not None


@given(candidates=ways_to_run())
def test_a_looser_objective_never_costs_more(candidates):
    bounds, allowed = (0.02, 0.05, 0.1), (0.5, 5.0, 50.0)

    points = price_objectives(candidates, bounds, allowed, (0.0, 0.0, 0.0))

    for tight in points:
        for loose in points:
            if loose.bound >= tight.bound and loose.allowed >= tight.allowed and tight.chosen:
                assert loose.chosen is not None
                assert loose.chosen.price.mean <= tight.chosen.price.mean


def test_every_bound_is_planned_for_with_every_emphasis_and_seed(monkeypatch):
    monkeypatch.setattr("weir_simulator.frontier.EMPHASES", (0.5, 1.0))
    trials = plan_trials(an_order())

    planned = [
        (
            trial.experiment.objective.response_time,
            round(trial.experiment.weights.violation, 6),
            trial.seed,
        )
        for trial in trials
    ]
    assert planned == [
        (0.02, 0.3, 1), (0.02, 0.3, 2), (0.02, 0.6, 1), (0.02, 0.6, 2),
        (0.05, 0.3, 1), (0.05, 0.3, 2), (0.05, 0.6, 1), (0.05, 0.6, 2),
    ]  # fmt: skip


def test_a_trial_counts_what_the_simulator_counts_and_other_bounds_too():
    *_, trial = plan_trials(an_order())
    same = simulate(trial.experiment, seed=trial.seed, policy=trial.policy)

    tried = run_trial(trial)

    assert tried.price == same.resources
    assert tried.missed[1] == pytest.approx(same.violations)
    assert tried.missed[0] >= tried.missed[1]
    # A slot is a minute, so a day has 1,440.
    assert tried.restarts == pytest.approx(same.reconfigurations / 100 * 1440)


def test_a_candidate_refused_with_one_seed_is_left_out(monkeypatch):
    refused = simulate

    def refuse_second(experiment, *, seed, policy, history):
        if seed == 2 and experiment.objective.response_time == 0.02:
            raise UnknownPolicyError("The table would have 9 states; give fewer")
        return refused(experiment, seed=seed, policy=policy, history=history)

    monkeypatch.setattr("weir_simulator.frontier.simulate", refuse_second)
    monkeypatch.setattr("weir_simulator.frontier.EMPHASES", (1.0,))

    tried = [run_trial(trial) for trial in plan_trials(an_order())]

    assert [each.refusal for each in tried if each.refusal] == [
        "The table would have 9 states; give fewer"
    ]
    assert [candidate.planned for candidate in gather_candidates(tried)] == [0.05]


def test_bounds_around_the_experiments_own_are_round():
    assert default_bounds(an_experiment()) == (0.0125, 0.025, 0.0375, 0.05, 0.075, 0.125)


def test_budgets_of_the_file_are_parts_of_the_bound():
    experiment = an_experiment(
        operators=[
            {"name": "a", "service_rate": 200, "max_replicas": 2, "budget": "20ms"},
            {"name": "b", "service_rate": 200, "max_replicas": 2},
        ]
    )

    changed = with_bound(experiment, 0.1)

    assert changed.objective.response_time == 0.1
    assert [each.budget for each in changed.operators] == [pytest.approx(0.04), None]


def test_an_emphasis_touches_the_weight_of_violations_only():
    weights = with_emphasis(an_experiment(), 0.5).weights

    assert (weights.violation, weights.resources, weights.reconfiguration) == (0.3, 0.2, 0.2)


def a_chain(**fields):
    operators = [
        {"name": "a", "service_rate": 200, "scv": 0.5, "max_replicas": 3},
        {"name": "b", "service_rate": 300, "max_replicas": 2, "key_groups": 7},
    ]
    setting = {
        "operators": operators,
        "edges": [{"source": "a", "target": "b", "selectivity": 1.5}],
        "trace": {"kind": "taxi", "slots": 2000},
    }
    return an_experiment(**{**setting, **fields})


@pytest.mark.parametrize("bound", [0.012, 0.02, 0.05])
def test_it_is_what_the_largest_deployment_misses_when_it_is_held(bound):
    operators = [
        {"name": "a", "service_rate": 200, "scv": 0.5, "max_replicas": 3},
        {"name": "b", "service_rate": 300, "max_replicas": 3, "key_groups": 7},
    ]
    experiment = a_chain(operators=operators, initial={"t1": 3}, objective={"response_time": bound})
    held = simulate(experiment, seed=1, policy="hold")

    [missed] = unavoidable_violations(experiment, [bound])

    assert missed > 0
    assert missed == pytest.approx(held.violations)


def test_a_bound_below_the_service_time_is_never_kept():
    # The fastest node takes 1/200 s and 1/300 s for a record.
    assert unavoidable_violations(a_chain(), [0.008]) == (100.0,)


def test_an_operator_is_fastest_where_it_may_run():
    # On t2 a record takes operator a twice 1/200 s, on t1 half of that.
    operators = [{"name": "a", "service_rate": 200, "max_replicas": 3, "pools": ["t2"]}]

    assert unavoidable_violations(an_experiment(operators=operators), [0.0099]) == (100.0,)


def test_where_one_replica_more_has_more_to_do_the_largest_deployment_is_not_the_fastest():
    keys = {"fullest": (1.0, 0.5, 0.4, 0.7)}
    operators = [{"name": "a", "service_rate": 200, "scv": 0.5, "max_replicas": 4, "keys": keys}]
    experiment = an_experiment(
        operators=operators,
        trace={"kind": "taxi", "slots": 500},
        objective={"response_time": 0.02},
    )
    three, four = (
        simulate(experiment.model_copy(update={"initial": {"t1": size}}), seed=1, policy="hold")
        for size in (3, 4)
    )

    [missed] = unavoidable_violations(experiment, [0.02])

    assert 0 < missed == pytest.approx(three.violations)
    assert missed < four.violations


def test_no_policy_misses_less():
    bound = 0.02
    experiment = a_chain(objective={"response_time": bound})
    best = simulate(experiment, seed=1, policy="queueing").violations

    [missed] = unavoidable_violations(experiment, [bound])

    assert 0 < missed <= best


def test_more_traffic_on_the_way_counts():
    grown = a_chain(world=World(changes=(Change(slot=1000, rate=1.5),)))

    before, after = (unavoidable_violations(each, [0.02]) for each in (a_chain(), grown))

    assert after[0] > before[0]


def test_a_node_type_that_becomes_faster_is_taken_to_be_so_throughout():
    faster = a_chain(world=World(changes=(Change(slot=1999, speedups={"t2": 4.0}),)))

    before, after = (unavoidable_violations(each, [0.012]) for each in (a_chain(), faster))

    assert after[0] < before[0]
