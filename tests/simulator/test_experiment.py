import numpy as np
import pytest
from pydantic import ValidationError

from tests.simulator.builders import an_experiment
from weir_policies import registry
from weir_policies.model.queueing import min_response_time
from weir_policies.policy import Aggregation, Neighbourhood, Sharing
from weir_simulator.arrivals import arrival_rates
from weir_simulator.beliefs import believed_models, draw_speedups, true_models
from weir_simulator.experiment import Believed, NodeType, Operator, TraceSource
from weir_simulator.traces import TraceKind


def test_the_step_is_the_policys_own_unless_the_experiment_says_otherwise():
    jumping = next(
        name for name in registry.names() if registry.find(name).neighbourhood is Neighbourhood.ANY
    )

    assert an_experiment().moves_by_one("ql-pds")
    assert not an_experiment().moves_by_one(jumping)
    assert not an_experiment(step="any").moves_by_one("ql-pds")
    assert an_experiment(step=1).moves_by_one(jumping)


def test_the_greatest_cost_is_made_of_the_dearest_type_unless_it_is_written():
    assert an_experiment().dearest == 1.0
    assert an_experiment(cost_normaliser=2.0).dearest == 2.0


def share(experiment, policy):
    return experiment.share_bound(policy, true_models(experiment))


def test_an_operators_own_budget_is_kept():
    operators = (
        Operator(name="a", service_rate=200, max_replicas=5, budget=0.04),
        Operator(name="b", service_rate=200, max_replicas=5),
    )

    budgets = share(an_experiment(operators=operators), "ql-pds")

    assert budgets == {"a": 0.04, "b": 0.05}


def test_the_papers_policies_get_equal_parts_of_the_bound_and_ours_what_the_operators_need():
    operators = (
        Operator(name="a", service_rate=1000, max_replicas=5),
        Operator(name="b", service_rate=50, max_replicas=20),
    )
    experiment = an_experiment(operators=operators, edges=(["a", "b"],))

    equal, needed = share(experiment, "ql-pds"), share(experiment, "planner")

    assert equal["a"] == equal["b"]
    assert needed["b"] > 3 * needed["a"]
    assert sum(needed.values()) == pytest.approx(sum(equal.values()))


def test_a_bound_that_cannot_be_kept_is_shared_equally():
    operators = (
        Operator(name="a", service_rate=1000, max_replicas=5),
        Operator(name="b", service_rate=5, max_replicas=20),
    )
    experiment = an_experiment(operators=operators, edges=(["a", "b"],))

    assert share(experiment, "planner") == share(experiment, "ql-pds")


def test_the_truth_is_what_the_file_says():
    operator = Operator(
        name="op", service_rate=200, max_replicas=10, sharing=Sharing.PROPORTIONAL, scv=0.5
    )
    types = (
        NodeType(name="small", speedup=1.0, price=1.0, pool="a", pool_limit=4),
        NodeType(name="large", speedup=2.0, price=2.0, pool="a"),
    )

    [model] = true_models(
        an_experiment(
            operators=(operator,), node_types=types, aggregation=Aggregation.AVERAGE, initial=None
        )
    )

    assert model.service_mean == pytest.approx(0.005)
    assert model.service_scv == 0.5
    assert model.sharing is Sharing.PROPORTIONAL
    assert model.aggregation is Aggregation.AVERAGE
    assert [node_type.pool for node_type in model.node_types] == ["a", "a"]
    assert [node_type.pool_limit for node_type in model.node_types] == [4, 4]


def in_their_pools(**fields):
    operators = (
        Operator(name="a", service_rate=200, max_replicas=5, pools=("t2",)),
        Operator(name="b", service_rate=200, max_replicas=5),
    )
    return an_experiment(operators=operators, **fields)


def test_there_is_no_room_and_no_gain_where_an_operator_may_not_run():
    bound, free = true_models(in_their_pools())

    assert [(each.speedup, each.pool_limit) for each in bound.node_types] == [(0.5, 0), (0.5, None)]
    assert [(each.speedup, each.pool_limit) for each in free.node_types] == [(1, None), (0.5, None)]
    assert min_response_time(bound) == pytest.approx(2 * min_response_time(free))


def test_an_operator_begins_on_the_first_type_that_it_may_run_on():
    begun = in_their_pools().initial_deployments
    written = in_their_pools(initial={"t1": 2, "t2": 1}).initial_deployments

    assert [each.counts for each in begun] == [(0, 1), (1, 0)]
    assert [each.counts for each in written] == [(0, 1), (2, 1)]


def test_an_operator_begins_where_those_before_it_left_room():
    types = (
        NodeType(name="t1", speedup=1, price=1, pool_limit=1),
        NodeType(name="t2", speedup=0.5, price=1),
    )
    operators = tuple(
        Operator(name=name, service_rate=200, max_replicas=5) for name in ("a", "b", "c")
    )

    begun = an_experiment(operators=operators, node_types=types).initial_deployments

    assert [each.counts for each in begun] == [(1, 0), (0, 1), (0, 1)]


def test_without_errors_the_belief_is_the_truth():
    experiment = an_experiment()

    assert believed_models(experiment, np.random.default_rng(1)) == true_models(experiment)


def test_written_errors_are_believed_as_written():
    believed = Believed(service_time=1.1, scv=1.0, speedups={"t2": 0.8})

    [model] = believed_models(an_experiment(believed=believed), np.random.default_rng(1))

    assert model.service_mean == pytest.approx(1.1 / 200)
    assert model.service_scv == 1.0
    assert [node_type.speedup for node_type in model.node_types] == [1.0, 0.8]
    assert [node_type.price for node_type in model.node_types] == [1.0, 0.7]


def test_drawn_service_errors_have_both_signs_and_keep_their_range():
    experiment = an_experiment(believed=Believed(service_error=(0.05, 0.1)))

    errors = np.array(
        [
            believed_models(experiment, np.random.default_rng(seed))[0].service_mean * 200 - 1
            for seed in range(200)
        ]
    )

    assert ((np.abs(errors) >= 0.05) & (np.abs(errors) <= 0.1)).all()
    assert 0.3 < (errors > 0).mean() < 0.7


def test_equal_seeds_give_equal_beliefs():
    experiment = an_experiment(believed=Believed(service_error=(0.05, 0.1), speedup_error=0.2))

    first, second, other = (
        believed_models(experiment, np.random.default_rng(seed)) for seed in (3, 3, 4)
    )

    assert first == second != other


def test_drawn_speedups_stay_within_their_error_and_between_their_neighbours():
    speedups = {"t1": 1.0, "t2": 0.7, "t3": 1.3, "t4": 0.9, "t5": 0.8}
    types = [NodeType(name=name, speedup=speed, price=1.0) for name, speed in speedups.items()]
    true = sorted(speedups.values())

    for seed in range(50):
        drawn = draw_speedups(types, 0.2, np.random.default_rng(seed))

        for name, speed in speedups.items():
            slower = max((each for each in true if each < speed), default=0.0)
            faster = min((each for each in true if each > speed), default=np.inf)
            assert max(0.8 * speed, slower) <= drawn[name] <= min(1.2 * speed, faster)


def test_drawn_speedups_of_types_that_are_equally_fast_err_both_ways():
    types = [NodeType(name=name, speedup=1.0, price=1.0) for name in ("t1", "t2", "t3")]

    drawn = [draw_speedups(types, 0.2, np.random.default_rng(seed)) for seed in range(200)]

    for name in ("t1", "t2", "t3"):
        assert 0.3 < np.mean([each[name] > 1 for each in drawn]) < 0.7


def test_a_made_up_trace_keeps_its_time_of_day_wherever_it_starts():
    whole = arrival_rates(TraceSource(kind=TraceKind.TAXI, slots=60))
    late = arrival_rates(TraceSource(kind=TraceKind.TAXI, start=50, slots=10))

    assert late.tolist() == whole[50:].tolist()


def test_a_trace_file_that_changed_is_read_again(tmp_path):
    path = tmp_path / "rates.txt"
    path.write_text("1\n2\n")
    before = arrival_rates(TraceSource(file=path))
    path.write_text("3\n4\n5\n")

    after = arrival_rates(TraceSource(file=path))

    assert before.tolist() == [1.0, 2.0]
    assert after.tolist() == [3.0, 4.0, 5.0]


def test_prices_of_which_none_is_above_zero_are_refused():
    free = (NodeType(name="small", speedup=1.0, price=0.0),)

    with pytest.raises(ValidationError, match="a price above zero"):
        an_experiment(node_types=free)
    assert an_experiment(node_types=free, cost_normaliser=1.0).dearest == 1.0


def test_an_operators_cost_is_a_part_of_the_applications_where_a_policy_jumps():
    operators = (
        Operator(name="a", service_rate=200, max_replicas=5),
        Operator(name="b", service_rate=200, max_replicas=20),
    )
    experiment = an_experiment(operators=operators)

    assert experiment.most_replicas("planner")["a"] == 25
    assert experiment.most_replicas("ql-pds")["a"] == 5
