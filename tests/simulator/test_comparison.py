import math

import pytest

from tests.simulator.builders import a_finished_run, an_experiment
from weir_policies.errors import UnknownPolicyError
from weir_simulator.comparison import (
    FinishedRun,
    by_cost,
    plan_runs,
    rank,
    run_all,
    run_one,
    summarise,
)
from weir_simulator.run import simulate


def test_runs_are_experiments_by_policies_by_seeds():
    experiments = {"a": an_experiment(seeds=(1, 2)), "b": an_experiment(seeds=(5,))}

    planned = plan_runs(experiments, ["ql-pds", "queueing"])

    assert [(run.name, run.policy, run.seed) for run in planned] == [
        ("a", "ql-pds", 1), ("a", "ql-pds", 2), ("a", "queueing", 1), ("a", "queueing", 2),
        ("b", "ql-pds", 5), ("b", "queueing", 5),
    ]  # fmt: skip


def test_without_names_each_experiment_has_its_own_policy():
    [run] = plan_runs({"a": an_experiment()})

    assert run.policy == "planner"


def test_a_policy_named_twice_runs_once():
    assert len(plan_runs({"a": an_experiment()}, ["ql-pds", "ql-pds"])) == 1


def test_an_unknown_policy_is_refused_before_anything_runs():
    with pytest.raises(UnknownPolicyError, match="nonsense"):
        plan_runs({"a": an_experiment()}, ["ql-pds", "nonsense"])


def test_runs_in_processes_of_their_own_give_what_one_run_gives():
    experiment = an_experiment(seeds=(1, 2))
    planned = plan_runs({"a": experiment}, ["ql-pds"])
    seen: list[FinishedRun] = []

    finished = run_all(planned, on_finished=seen.append)

    assert [run.planned.seed for run in finished] == [1, 2]
    assert sorted(run.planned.seed for run in seen) == [1, 2]
    expected = simulate(experiment, seed=2, policy="ql-pds")
    assert finished[1].result is not None
    assert finished[1].result.average_cost == expected.average_cost
    assert finished[1].result.curve.tolist() == expected.curve.tolist()


def test_a_policy_that_cannot_take_an_experiment_says_why(monkeypatch):
    def refuse(*_arguments, **_options):
        raise UnknownPolicyError("The table would have 9 states; give fewer")

    monkeypatch.setattr("weir_simulator.comparison.simulate", refuse)

    [finished] = [run_one(run) for run in plan_runs({"a": an_experiment()})]

    assert finished.result is None
    assert finished.refusal == "The table would have 9 states; give fewer"


def test_one_seed_gives_no_interval():
    [row] = summarise([a_finished_run(cost=0.05)])

    assert row.measured is not None
    assert row.measured.cost.mean == 0.05
    assert row.measured.cost.half_width is None


def test_several_seeds_give_students_interval():
    runs = [a_finished_run(seed=seed, cost=cost) for seed, cost in enumerate((0.04, 0.05, 0.06))]

    [row] = summarise(runs)

    assert row.seeds == (0, 1, 2)
    assert row.measured is not None
    assert row.measured.cost.mean == pytest.approx(0.05)
    # t of 95 % with two degrees of freedom is 4.303; the standard error 0.01 / sqrt(3).
    assert row.measured.cost.half_width == pytest.approx(4.303 * 0.01 / math.sqrt(3), rel=1e-3)


def test_the_parts_of_a_cost_add_up_to_it():
    [row] = summarise([a_finished_run(cost=0.05, violations=1.0, reconfigurations=2.0)])

    assert row.measured is not None
    parts = row.measured.parts
    assert parts.violations == pytest.approx(0.6 * 0.01)
    assert parts.reconfigurations == pytest.approx(0.2 * 0.02)
    assert parts.violations + parts.reconfigurations + parts.resources == pytest.approx(0.05)


def test_a_policy_refused_with_any_seed_has_no_measures():
    runs = [a_finished_run(seed=1), a_finished_run(seed=2, refusal="Too large")]

    [row] = summarise(runs)

    assert row.measured is None
    assert row.refusal == "Too large"


def test_rows_are_ordered_by_cost_and_refused_ones_come_last():
    rows = summarise(
        [
            a_finished_run(policy="refused", refusal="Too large"),
            a_finished_run(policy="dear", cost=0.3),
            a_finished_run(policy="cheap", cost=0.1),
        ]
    )

    assert [row.policy for row in by_cost(rows)] == ["cheap", "dear", "refused"]


def test_standings_compare_each_cost_with_the_lowest_of_its_experiment():
    rows = summarise(
        [
            a_finished_run(name="a", policy="steady", cost=0.10),
            a_finished_run(name="a", policy="wild", cost=0.05),
            a_finished_run(name="b", policy="steady", cost=0.01),
            a_finished_run(name="b", policy="wild", cost=0.08),
            a_finished_run(name="b", policy="never", refusal="Too large"),
        ]
    )

    standings = rank(rows)

    assert [(each.policy, each.lowest_in, each.taken) for each in standings] == [
        ("steady", 1, 2), ("wild", 1, 2), ("never", 0, 0),
    ]  # fmt: skip
    assert standings[0].relative_cost == pytest.approx(math.sqrt(2.0))
    assert standings[1].relative_cost == pytest.approx(math.sqrt(8.0))
