import json
import math
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from weir_policies.model.estimation import ServiceMeasurement
from weir_simulator.experiment import Experiment, NodeType
from weir_simulator.fitting.fit import BadFitError
from weir_simulator.fitting.history import History, fit_history, is_traffic_alone
from weir_simulator.fitting.refit import refit, structure_of
from weir_simulator.fitting.samples import IntervalSample, OperatorSample, Samples

MEAN, SCV, ELSEWHERE = 0.02, 0.5, 0.005
DAY = 86_400.0
EXPERIMENT = Experiment.model_validate_json(
    json.dumps(
        {
            "operators": [
                {
                    "name": "op",
                    "serviceRate": 10.0,
                    "maxReplicas": 8,
                    "networkTime": "100ms",
                    "budget": "200ms",
                }
            ],
            "nodeTypes": [{"name": "small/1", "speedup": 1.0, "price": 1.0}],
            "objective": {"responseTime": "300ms"},
            "trace": {"kind": "taxi"},
            "world": {"downtime": "7s"},
        }
    )
)


def test_an_operator_is_fitted_to_the_node_types_that_it_may_run_on():
    types = (*EXPERIMENT.node_types, NodeType(name="large/1", speedup=2.0, price=2.0))
    bound = EXPERIMENT.operators[0].model_copy(update={"pools": ("small/1",)})
    free = bound.model_copy(update={"name": "free", "pools": None})

    structure = structure_of(
        EXPERIMENT.model_copy(update={"operators": (bound, free), "node_types": types})
    )

    assert [[each.name for each in model.node_types] for model in structure.operators] == [
        ["small/1"],
        ["small/1", "large/1"],
    ]


def rate_at(time):
    return 40 + 20 * np.sin(2 * np.pi * np.asarray(time) / DAY)


def sample(end, *, seconds=300.0, latency=None):
    """Return an interval of two replicas, each an M/G/1 queue (Pollaczek-Khinchine)."""
    rate = float(rate_at(end - seconds / 2))
    waiting = rate / 2 * MEAN**2 * (1 + SCV) / (2 * (1 - rate / 2 * MEAN))
    served = ServiceMeasurement(
        node_type="small/1", records=rate * seconds, mean=MEAN, variance=SCV * MEAN**2
    )
    return IntervalSample(
        time=end,
        seconds=seconds,
        operators={
            "op": OperatorSample(
                deployment={"small/1": 2}, arrived=rate, taken=rate, given=rate, services=(served,)
            )
        },
        response_time=waiting + MEAN + ELSEWHERE if latency is None else latency,
    )


def a_history(*, latency=None):
    ends = 300.0 * np.arange(1, 289)
    return History(
        samples=Samples(intervals=tuple(sample(end, latency=latency) for end in ends)),
        begin=0.0,
        rates={"op": rate_at(60.0 * np.arange(1440))},
        seasons={},
        used=(date(1970, 1, 1),),
        left_out={},
    )


def test_what_history_tells_replaces_what_the_file_says_and_the_rest_stays():
    fit = fit_history(a_history(), structure_of(EXPERIMENT), slot=60.0)

    fitted = refit(EXPERIMENT, fit, trace=Path("trace.txt"))

    [operator] = fitted.operators
    assert operator.service_rate == pytest.approx(1 / MEAN)
    assert operator.scv == pytest.approx(SCV)
    assert operator.network_time == pytest.approx(ELSEWHERE, rel=0.05)
    assert operator.budget == 0.2
    assert fitted.world.downtime == 7.0
    assert fitted.trace.file == Path("trace.txt")


def test_the_trace_has_the_minutes_of_the_history_and_then_what_was_measured_since():
    history = a_history()
    own = Samples(intervals=tuple(sample(DAY + 60.0 * n, seconds=60.0) for n in range(1, 61)))

    fit = fit_history(history, structure_of(EXPERIMENT), slot=60.0, recent=own)

    rates = fit.arrivals["op"].rates
    assert rates.size == 1440 + 60
    assert rates[:1440] == pytest.approx(history.rates["op"])
    assert rates[1500 - 1] == pytest.approx(own.intervals[-1].operators["op"].arrived)


def test_days_between_the_history_and_what_was_measured_since_are_not_made_up():
    begin = 7 * DAY
    own = Samples(intervals=tuple(sample(begin + 60.0 * n, seconds=60.0) for n in range(1, 1441)))

    fit = fit_history(a_history(), structure_of(EXPERIMENT), slot=60.0, recent=own)

    assert fit.begin == begin
    assert fit.arrivals["op"].rates.size == 1440
    assert fit.arrivals["op"].filled == 0


def test_of_what_an_operator_ran_on_and_may_not_any_more_only_the_traffic_is_left():
    types = (*EXPERIMENT.node_types, NodeType(name="large/1", speedup=2.0, price=2.0))
    bound = EXPERIMENT.operators[0].model_copy(update={"pools": ("large/1",)})
    structure = structure_of(
        EXPERIMENT.model_copy(update={"operators": (bound,), "node_types": types})
    )

    left = a_history().within(structure)

    assert (left.barred, left.partial) == (("small",), True)
    assert not left.samples.intervals
    assert left.rates["op"].size == 1440


def test_what_operators_ran_on_and_still_may_is_left_as_it_is():
    history = a_history()

    assert history.within(structure_of(EXPERIMENT)) == history


def test_a_history_that_lacks_operators_gives_its_traffic_where_little_can_be_judged():
    partly = replace(a_history(), unsized=("small",))
    fit = fit_history(partly, structure_of(EXPERIMENT), slot=60.0)
    unsure = replace(fit, quality=replace(fit.quality, good=False, chance=math.inf))

    assert is_traffic_alone(partly, unsure)
    assert not is_traffic_alone(partly, fit)


def test_days_before_a_drift_are_told_as_left_out():
    history = replace(a_history(), used=(date(1970, 1, 1), date(1970, 1, 2)))

    later = history.since(DAY)

    assert later.used == (date(1970, 1, 2),)
    assert later.left_out == {date(1970, 1, 1): "before the job was last changed"}


def test_minutes_that_nobody_knows_are_joined_by_a_line_and_counted():
    history = a_history()
    history.rates["op"][[10, 11]] = np.nan

    fit = fit_history(history, structure_of(EXPERIMENT), slot=60.0)

    assert fit.arrivals["op"].filled == 2
    assert np.isfinite(fit.arrivals["op"].rates).all()


def test_history_without_response_times_gives_no_fit_to_be_tuned_with():
    fit = fit_history(a_history(latency=float("nan")), structure_of(EXPERIMENT), slot=60.0)

    with pytest.raises(BadFitError, match="add the helper to the job"):
        refit(EXPERIMENT, fit, trace=Path("trace.txt"))


def test_response_times_that_are_less_than_the_work_are_a_bad_fit():
    fit = fit_history(a_history(latency=0.001), structure_of(EXPERIMENT), slot=60.0)

    assert not fit.quality.good
