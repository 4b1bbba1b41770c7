from __future__ import annotations

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.simulator.builders import an_experiment
from weir_policies.application_manager.search.protocol import Limits, rank
from weir_policies.model.objective import Statistic
from weir_policies.policy import CostWeights
from weir_simulator.arrivals import arrival_rates
from weir_simulator.errors import TuningError
from weir_simulator.experiment import Objective, Operator, PathBound, World
from weir_simulator.run import simulate
from weir_simulator.training import train_policies
from weir_simulator.tuning import workers
from weir_simulator.tuning.evaluation import SimulationRun, evaluate
from weir_simulator.tuning.order import (
    Constraints,
    Evaluation,
    TuningRequest,
    apply_tuning,
    read_result,
    write_document,
)
from weir_simulator.tuning.tune import naive_tuning, tune


def an_order(**fields):
    """Return an order over two operators, of which the first is hardly loaded."""
    experiment = an_experiment(
        operators=(
            Operator(name="light", service_rate=2000, max_replicas=4),
            Operator(name="heavy", service_rate=200, max_replicas=8),
        ),
        edges=(["light", "heavy"],),
        trace={"kind": "taxi", "slots": 600},
        policy={"name": "ql-pds-plus", "parameters": {}},
    )
    setting = {
        "experiment": experiment,
        "algorithm": "random",
        "evaluations": 12,
        "workers": 1,
        "constraints": Constraints(max_violations=0.5, max_reconfigurations=0.5),
    }
    return TuningRequest(**{**setting, **fields})


def a_careful_order(*, policy):
    """Return an order whose incumbent costs much more than it has to."""
    experiment = an_experiment(
        operators=(Operator(name="only", service_rate=100, max_replicas=8),),
        trace={"kind": "taxi", "slots": 120},
        policy={"name": policy, "parameters": {}},
        initial={"t1": 8},
    )
    careful = CostWeights(violation=0.98, resources=0.001, reconfiguration=0.019)
    return an_order(
        experiment=experiment,
        algorithm="joint",
        incumbent=replace(naive_tuning(experiment), weights=careful),
    )


def without_time(result):
    return result.model_copy(update={"seconds": 0.0})


def test_it_finds_something_cheaper_than_the_naive_baseline_and_says_how_sure_it_is():
    order = an_order(constraints=Constraints(max_violations=1.0, max_reconfigurations=0.5))

    result = tune(order)

    assert result.incumbent == naive_tuning(order.experiment)
    assert result.prediction.money.mean < result.incumbent_prediction.money.mean
    assert result.feasible
    assert result.certainty is not None
    assert result.keeping is not None
    assert result.better == (min(result.certainty, result.keeping) >= result.required)


@pytest.mark.parametrize(
    "objective",
    [
        Objective(response_time=0.05, statistic=Statistic.P95),
        Objective(response_time=0.05, paths=(PathBound(sink="light", response_time=0.0006),)),
    ],
    ids=["a percentile", "a single sink"],
)
def test_an_evaluation_counts_violations_of_every_bound(objective):
    experiment = an_order().experiment.model_copy(update={"objective": objective})
    run = SimulationRun(point=naive_tuning(experiment), slots=600, seed=1)

    outcome = evaluate(experiment, arrival_rates(experiment.trace), run).outcome

    plain = experiment.model_copy(update={"objective": Objective(response_time=0.05)})
    alone = simulate(apply_tuning(plain, run.point), seed=1)
    whole = simulate(apply_tuning(experiment, run.point), seed=1)
    assert outcome.violations == pytest.approx(whole.violations / 100)
    assert whole.violations > alone.violations


def test_what_nearly_breaks_a_limit_in_a_short_trace_is_not_called_better():
    result = tune(an_order())

    assert result.resampled  # misses are autocorrelated over the whole trace
    assert result.feasible
    assert not result.better


def test_a_large_saving_on_a_short_trace_is_sure_on_traffic_that_is_made_up():
    """Neighbouring slots of the steady ramp are alike: the trace has no independent stretches."""
    order = a_careful_order(policy="planner").model_copy(update={"watch": 20})

    result = tune(order)

    assert result.resampled
    assert result.better
    assert result.required == order.confidence  # the point was chosen on other traffic
    assert result.prediction.money.mean < result.incumbent_prediction.money.mean
    assert result.forecast is not None
    assert result.forecast.intervals == 20


def test_the_best_few_can_be_judged_on_more_of_the_trace_than_the_search_saw():
    order = an_order(slots=200, judging_slots=600, judging_seeds=1, shortlist=12)
    trace = arrival_rates(order.experiment.trace)
    limits = Limits(violations=0.5, reconfigurations=0.5)

    result = tune(order)

    whole = [
        evaluate(
            order.experiment, trace, SimulationRun(point=each.point, slots=600, seed=order.seed + 1)
        )
        for each in result.evaluations
    ]
    best = min((each.outcome for each in whole), key=lambda outcome: rank(outcome, limits))
    assert {each.slots for each in result.evaluations} == {200}
    assert result.prediction.money.mean == pytest.approx(best.money)
    assert result.prediction.violations.mean == pytest.approx(best.violations)


def test_a_warm_start_is_judged_whatever_the_search_thinks_of_it():
    order = an_order(slots=200, judging_slots=600, judging_seeds=1, shortlist=1)
    trace = arrival_rates(order.experiment.trace)
    limits = Limits(violations=0.5, reconfigurations=0.5)

    def over_the_whole(point):
        run = SimulationRun(point=point, slots=600, seed=order.seed + 1)
        return evaluate(order.experiment, trace, run).outcome

    searched = tune(order)
    warm = min(
        (each.point for each in searched.evaluations if each.point != searched.best),
        key=lambda point: rank(over_the_whole(point), limits),
    )

    judged = tune(order.model_copy(update={"warm_starts": (warm,)}))

    assert over_the_whole(warm).money < over_the_whole(searched.best).money
    assert judged.prediction.money.mean <= over_the_whole(warm).money + 1e-9


def test_equal_orders_give_equal_results_whatever_the_number_of_processes():
    alone = tune(an_order(algorithm="joint", workers=1))

    together = tune(an_order(algorithm="joint", workers=2))

    assert without_time(together) == without_time(alone)


def test_what_no_seed_changes_is_simulated_once(monkeypatch):
    made = []

    def note(experiment, trace, run):
        made.append(run)
        return evaluate(experiment, trace, run)

    monkeypatch.setattr(workers, "evaluate", note)

    result = tune(an_order())

    on_the_trace = [run for run in made if run.rates is None]
    assert len(on_the_trace) == len(result.evaluations)


def test_what_a_seed_changes_is_compared_on_others(monkeypatch):
    seeds = set()

    def note(experiment, trace, run):
        seeds.add(run.seed)
        return evaluate(experiment, trace, run)

    monkeypatch.setattr(workers, "evaluate", note)
    experiment = an_order().experiment

    tune(an_order(experiment=experiment.model_copy(update={"world": World(noise=0.01)})))

    assert len(seeds) > 2


def test_the_incumbent_is_evaluated_first_and_exactly():
    told: list[Evaluation] = []

    result = tune(an_order(evaluations=3), on_evaluation=told.append)

    assert tuple(told) == result.evaluations
    assert told[0].point == result.incumbent
    assert [each.number for each in told] == [0, 1, 2]


def test_what_nothing_can_keep_is_said_to_be_infeasible():
    result = tune(an_order(constraints=Constraints(max_violations=0.0, max_reconfigurations=0.0)))

    assert not result.feasible
    assert not any(evaluation.feasible for evaluation in result.evaluations)


def test_a_network_is_judged_by_seeds_and_stretches_like_any_other_policy():
    experiment = an_experiment(
        trace={"kind": "taxi", "slots": 120}, policy={"name": "dqn-pds", "parameters": {}}
    )

    point = naive_tuning(experiment)

    measured = evaluate(
        experiment, arrival_rates(experiment.trace), SimulationRun(point=point, slots=120, seed=3)
    )

    whole = simulate(apply_tuning(experiment, point), seed=3)
    assert measured.parts.shape == (120, 3)
    assert measured.outcome.money == pytest.approx(whole.resources)
    assert 100 * measured.outcome.violations == pytest.approx(whole.violations)
    assert 100 * measured.outcome.reconfigurations == pytest.approx(whole.reconfigurations)


def test_a_stop_keeps_the_best_so_far():
    told: list[Evaluation] = []

    result = tune(
        an_order(evaluations=1000), on_evaluation=told.append, should_stop=lambda: len(told) >= 4
    )

    assert result.ended == "stopped"
    assert len(result.evaluations) == 4


def test_the_search_uses_its_time_although_made_up_traffic_might_need_more(monkeypatch):
    steps = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(steps) / 10)  # 0.3 s for each batch
    monkeypatch.setattr("weir_simulator.tuning.tune.time", clock)

    result = tune(an_order(evaluations=100_000, deadline=3.0))

    assert result.ended == "deadline"
    assert len(result.evaluations) > 4


def test_a_study_is_resumed_where_it_was_left(tmp_path):
    told: list[Evaluation] = []
    tune(an_order(), on_evaluation=told.append, should_stop=lambda: len(told) >= 4, study=tmp_path)
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "evaluations").iterdir()}

    resumed = tune(an_order(), study=tmp_path)

    assert len(kept) == 4
    assert without_time(resumed) == without_time(tune(an_order()))
    assert all(
        (tmp_path / "evaluations" / name).stat().st_mtime_ns == changed
        for name, changed in kept.items()
    )
    assert read_result(tmp_path / "result.json") == resumed


def test_a_longer_search_that_plans_otherwise_takes_no_outcome_of_another_point(tmp_path):
    tune(an_order(algorithm="joint", evaluations=8), study=tmp_path)

    resumed = tune(an_order(algorithm="joint", evaluations=16), study=tmp_path)

    assert resumed.evaluations == tune(an_order(algorithm="joint", evaluations=16)).evaluations


def test_a_study_of_another_order_is_refused(tmp_path):
    tune(an_order(evaluations=1), study=tmp_path)

    with pytest.raises(TuningError, match="differs in seed"):
        tune(an_order(evaluations=1, seed=2), study=tmp_path)


@pytest.mark.parametrize("changed", ["trace", "training"])
def test_a_study_is_not_gone_on_with_when_a_trace_holds_other_rates_under_its_name(
    tmp_path, changed
):
    files = {name: tmp_path / f"{name}.txt" for name in ("trace", "training")}
    for file in files.values():
        file.write_text("100\n200\n300\n" * 20)
    sources = {name: {"file": str(file)} for name, file in files.items()}
    experiment = an_experiment(**sources, policy={"name": "ql-pds", "parameters": {}})
    order = TuningRequest(experiment=experiment, algorithm="random", evaluations=1, workers=1)
    tune(order, study=tmp_path / "study")

    files[changed].write_text("100\n200\n400\n" * 20)

    with pytest.raises(TuningError, match=f"of others in {changed}: .*--warm-start"):
        tune(order, study=tmp_path / "study")


def test_a_trace_that_has_only_grown_is_gone_on_with(tmp_path):
    file = tmp_path / "trace.txt"
    file.write_text("100\n200\n300\n" * 20)
    experiment = an_experiment(
        trace={"file": str(file)}, policy={"name": "ql-pds", "parameters": {}}
    )
    order = TuningRequest(
        experiment=experiment, algorithm="random", evaluations=1, slots=60, workers=1
    )
    before = tune(order, study=tmp_path / "study")

    file.write_text("100\n200\n300\n" * 30)

    assert tune(order, study=tmp_path / "study").evaluations == before.evaluations


def test_an_evaluation_on_disk_that_is_none_is_named(tmp_path):
    tune(an_order(evaluations=1), study=tmp_path)
    (tmp_path / "evaluations" / "00000.json").write_text("{}")

    with pytest.raises(TuningError, match="00000"):
        tune(an_order(evaluations=1), study=tmp_path)


def test_more_slots_than_the_trace_has_are_refused():
    with pytest.raises(TuningError, match="at most 600 slots"):
        tune(an_order(slots=601))


def test_the_prediction_of_a_result_is_what_its_experiment_gives():
    order = an_order(evaluations=4, judging_seeds=1)
    result = tune(order)
    tuned = apply_tuning(order.experiment, result.best)

    again = tune(an_order(experiment=tuned, incumbent=result.best, evaluations=1, judging_seeds=1))

    assert again.prediction == result.prediction


def test_a_forecast_and_training_come_with_the_result_only_where_they_are_asked_for():
    order = an_order(evaluations=1, judging_seeds=1)

    alone = tune(order)
    asked = tune(order.model_copy(update={"watch": 20, "train": 50}))

    assert asked.forecast is not None
    assert asked.forecast.intervals == 20
    assert asked.trained.keys() == {"light", "heavy"}
    assert alone == asked.model_copy(
        update={"forecast": None, "trained": {}, "seconds": alone.seconds}
    )
    assert not {"forecast", "trained"} & json.loads(write_document(alone)).keys()


@pytest.mark.parametrize(
    ("settings", "stays"),
    [({}, False), ({"train_incumbent": True}, True), ({"judging_seeds": 1}, True)],
)
def test_policies_are_trained_for_what_will_be_in_force(settings, stays):
    order = a_careful_order(policy="ql-pds-plus").model_copy(update={"train": 300} | settings)

    result = tune(order)

    chosen = apply_tuning(order.experiment, result.incumbent if stays else result.best)
    assert result.better is ("judging_seeds" not in settings)
    learned = train_policies(chosen, slots=300, seed=order.seed).operators
    assert result.trained == {name: each.state_dict() for name, each in learned.items()}
