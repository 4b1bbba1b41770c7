"""Bounds of single sinks: judged at the sink, in their own statistic, beside the whole job's."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.operator.loop.builders import NOTHING, a_snapshot
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.cluster.status.conditions import judge_objective
from weir_operator.loop.tick import Tick
from weir_operator.metrics.values import AppMeasurement
from weir_operator.wiring.assembly import loop_settings
from weir_policies.model.objective import Statistic
from weir_simulator.experiment import Objective, PathBound

ALERTS = PathBound(sink="alerts", response_time=0.1, statistic=Statistic.P95)
OBJECTIVE = Objective(response_time=0.2, paths=(ALERTS,))


def a_sink(times):
    quantiles = {**NOTHING.quantiles, **times}
    quantiles.pop("mean", None)
    return replace(NOTHING, mean=times.get("mean", math.nan), quantiles=quantiles)


def seeing(**sinks):
    """Return an interval with these times at the sinks, s; all together 0.05 s."""
    whole = a_sink({"mean": 0.05, "p95": 0.05, "p99": 0.05})
    app = AppMeasurement(
        job_id="job",
        start=0.0,
        end=60.0,
        newest=60.0,
        operators={},
        sources=(),
        sinks={name: a_sink(times) for name, times in sinks.items()},
        end_to_end=whole,
        backlog=0.0,
    )
    return a_snapshot(output=whole, app=app)


@pytest.mark.parametrize(
    ("times", "violated"),
    [
        ({"mean": 0.02, "p95": 0.12}, True),
        ({"mean": 0.12, "p95": 0.09}, False),
        ({"mean": math.nan, "p95": math.nan}, False),
    ],
    ids=["its own statistic is late", "another statistic is", "nothing was measured there"],
)
def test_a_sink_beyond_its_own_bound_is_a_violation_of_the_whole(times, violated):
    snapshot = seeing(alerts=times, archive={"p95": 9.0})

    assert snapshot.violates(OBJECTIVE) is violated


def test_the_condition_names_the_sink_with_its_time_and_bound():
    settings = replace(loop_settings(a_stream_app()), objective=OBJECTIVE)
    snapshot = seeing(alerts={"p95": 0.123})
    violated = snapshot.violates(OBJECTIVE)
    tick = Tick(snapshot=snapshot, violated=violated, deployments={}, budgets={})

    aspect = judge_objective(tick, settings)

    assert (aspect.status, aspect.reason) == ("False", "Violated")
    assert "alerts (p95) 123 ms" in aspect.message
    assert "100 ms" in aspect.message
