"""The parts of the benchmark `live` that need no Flink: its arms, its bill and its verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.policies.live.apps import (
    APPS,
    KNOWN_LINES,
    LARGE_SPEED,
    LINES,
    Arm,
    describe,
    make_trace,
)
from benchmarks.policies.live.live import (
    LEARNED,
    MEMORY_PRICE,
    RunOutcome,
    figures_of,
    interval_of,
    is_tuned,
    price,
    rehearse,
    run,
    tune_on,
)
from benchmarks.policies.live.quotas import CORE, MIN_QUOTA, QuotaError, limit_of
from benchmarks.registry import BenchmarkError
from weir_operator.loop.run_record import Objective, OperatorTick, ResponseTime, TickRecord
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.wiring.assembly import tuning_settings
from weir_policies import registry
from weir_simulator.experiment import TraceSource
from weir_simulator.testing import an_experiment
from weir_simulator.traces import as_trace, write_trace

OUTCOME = RunOutcome(
    app="trips", trace="taxi", repeat=1, arm=Arm.TUNED, violations=0.05, judged=34, cost=0.2,
    restarts=3, resizes=2, waiting=0.0, wrong=0, load=1.0,
)  # fmt: skip


def a_manifest(arm, app="trips"):
    return describe(APPS[app], arm, trace=Path("/trace.txt"), out=Path("/out"), seed=1)


def an_outcome(arm, repeat, **changes):
    return replace(OUTCOME, arm=arm, repeat=repeat, **changes)


def value_of(figures, name):
    [found] = [each.value for each in figures if each.figure == name]
    return found


@pytest.mark.parametrize("app", list(APPS))
@pytest.mark.parametrize("arm", list(Arm))
def test_every_arm_of_every_job_is_a_valid_streamapp(app, arm):
    streamapp = parse_manifest(a_manifest(arm, app))

    assert [each.name for each in streamapp.spec.operators] == ["source", *APPS[app].work, "sink"]


@pytest.mark.parametrize("app", APPS.values(), ids=list(APPS))
def test_all_begin_with_the_least_replicas_that_are_not_too_busy_at_the_peak(app):
    operators = a_manifest(Arm.STATIC, app.name)["spec"]["operators"]

    first = {each["name"]: each["initial"]["large/1"] for each in operators if "initial" in each}

    for name, work in app.work.items():
        demand = app.most * work / LARGE_SPEED
        assert demand / first[name] <= 0.7 < demand / (first[name] - 1)


def test_both_arms_of_weir_differ_in_nothing_that_a_manifest_says():
    assert a_manifest(Arm.TUNED) == a_manifest(Arm.HAND)
    assert a_manifest(Arm.STATIC)["spec"]["operatorManager"]["policy"] == {"name": "hold"}


def test_what_was_tuned_while_learning_holds_in_every_repeat():
    learning, repeat = (
        parse_manifest(describe(APPS["trips"], Arm.TUNED, trace=trace, out=Path("/o"), seed=seed))
        for trace, seed in ((Path("/before.txt"), 0), (Path("/after.txt"), 3))
    )

    keys = [
        tuning_settings(each, policy="planner", tuner_deadline=1800.0).key
        for each in (learning, repeat)
    ]

    assert keys[0] == keys[1]


def test_a_state_without_a_tuning_is_not_tuned(tmp_path):
    assert not is_tuned(tmp_path)


def test_the_autoscalers_windows_are_as_much_shorter_as_the_trace():
    settings = a_manifest(Arm.AUTOSCALER)["spec"]["operatorManager"]["policy"]["settings"]

    assert settings["scale_down_interval"] == pytest.approx(3600 / 60)
    assert settings["metrics_window"] == 900 / 60


@pytest.mark.parametrize("kind", ["taxi", "tweets"])
def test_what_is_compared_on_peaks_at_one_and_follows_what_is_learned_from(kind):
    before, rates = make_trace(kind)

    assert rates.shape == (LINES,)
    assert rates.max() == 1
    assert before.shape == (KNOWN_LINES,)
    assert 0 < before.max() < 3


@pytest.mark.parametrize("speed", [0.5, 1.0, 1.6, 3.2])
def test_a_replicas_quota_is_its_speeds_share_of_a_small_core(speed):
    quota, period = limit_of(speed)

    assert quota / period == pytest.approx(speed * CORE)
    assert quota >= MIN_QUOTA


def test_a_speed_whose_quota_the_kernel_refuses_is_told():
    with pytest.raises(QuotaError, match=r"a speed of at least 0\.5"):
        limit_of(0.4)


def test_the_bill_has_the_memory_of_all_replicas_and_of_the_job_manager():
    app = parse_manifest(a_manifest(Arm.HAND))
    unknown = ResponseTime(mean=0.1, p50=0.1, p95=0.1, p99=0.1)
    operator = OperatorTick(
        name="match", replicas={"large/1": 2, "small/250m": 1}, rate=1.0, utilisation=0.5,
        response_time=0.1, budget=0.2, predicted=0.1, policy="planner", reason="",
    )  # fmt: skip
    tick = TickRecord(
        app="default/trips", time=0.0, elapsed=0.0, mode="Auto", objective=Objective(bound=0.5),
        rate=1.0, response_time=unknown, violated=False, backlog=0.0, cost_per_hour=0.3, cost=0.0,
        healthy=True, restarts=0, operators=(operator,),
    )  # fmt: skip

    small, large = (
        next(pool.memory.bytes for pool in app.spec.node_pools if pool.name == name)
        for name in ("small", "large")
    )
    gibibytes = (small + 2 * large + app.spec.flink.job_manager.memory.bytes) / 2**30
    assert price(tick, app) == pytest.approx(0.3 + MEMORY_PRICE * gibibytes)


def test_arms_are_compared_on_equal_arrivals_only():
    outcomes = [
        an_outcome(Arm.TUNED, 1, cost=0.2),
        an_outcome(Arm.HAND, 1, cost=0.4),
        an_outcome(Arm.TUNED, 2, cost=0.3, violations=0.1),
        an_outcome(Arm.HAND, 2, cost=0.3, violations=0.0),
        an_outcome(Arm.TUNED, 3, cost=9.0),
        an_outcome(Arm.HAND, 4, cost=9.0),
    ]

    figures = list(figures_of(outcomes))

    against = "trips on taxi, tuned weights against hand-set weights"
    cost, more = f"{against}: cost, mean of 2 pairs", f"{against}: misses more, mean of 2 pairs"
    assert value_of(figures, cost) == pytest.approx(75)
    assert value_of(figures, f"{cost}, lower end of 95 %") == pytest.approx(50)
    assert value_of(figures, f"{cost}, upper end of 95 %") == pytest.approx(100)
    assert value_of(figures, more) == pytest.approx(5)


def test_each_job_and_trace_has_figures_of_its_own_beside_those_of_all():
    outcomes = [
        an_outcome(arm, 1, trace=trace, cost=cost)
        for trace, costs in (("taxi", (0.2, 0.4)), ("tweets", (0.3, 0.3)))
        for arm, cost in zip((Arm.TUNED, Arm.HAND), costs, strict=True)
    ]

    figures = list(figures_of(outcomes))

    against = "tuned weights against hand-set weights: cost, mean of"
    assert value_of(figures, f"trips on taxi, {against} 1 pairs") == pytest.approx(50)
    assert value_of(figures, f"trips on tweets, {against} 1 pairs") == pytest.approx(100)
    assert value_of(figures, f"all, {against} 2 pairs") == pytest.approx(75)


def test_an_interval_narrows_with_the_pairs_and_a_single_pair_has_none():
    rng = np.random.default_rng(3)
    few, many = rng.normal(90, 5, 4), rng.normal(90, 5, 64)

    narrow, wide = interval_of(many), interval_of(few)

    assert interval_of(few[:1]) is None
    assert narrow is not None
    assert wide is not None
    assert narrow[1] - narrow[0] < wide[1] - wide[0]
    assert narrow[0] < many.mean() < narrow[1]


@pytest.mark.parametrize(
    ("variable", "value"), [("LIVE_APP", "trip"), ("LIVE_TRACE", "cab"), ("LIVE_REPEAT", "0")]
)
def test_a_choice_that_is_none_is_refused_by_name(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)

    with pytest.raises(BenchmarkError, match=f"{variable}: expected one of .*, got '{value}'"):
        run()


def test_without_a_good_fit_nothing_is_tuned_or_compared(tmp_path):
    app = parse_manifest(a_manifest(Arm.TUNED))

    with pytest.raises(BenchmarkError, match="fitted while trips ran, got none: see ModelUnfitted"):
        tune_on(np.ones(KNOWN_LINES), app=app, state=tmp_path / "state" / "default.trips")


def test_a_rehearsed_policy_replaces_the_learned_one_and_no_belief(tmp_path):
    trace = tmp_path / "days.txt"
    write_trace(trace, as_trace([100.0, 120.0] * 50))
    days = an_experiment(trace=TraceSource(file=trace), policy={"name": "queueing"})
    name = days.operators[0].name
    learned = {"version": 1, "operators": {name: {"belief": {"b": 1}, "policy": {"version": 0}}}}
    (tmp_path / LEARNED).write_text(json.dumps(learned))

    rehearse(days, slots=100, state=tmp_path, file="rehearsed.json")

    rehearsed = json.loads((tmp_path / "rehearsed.json").read_text())
    of_operator = rehearsed["operators"][name]
    heir = registry.build("queueing", rng=np.random.default_rng(1))
    heir.load_state_dict(of_operator["policy"])  # refuses what is no state of it
    assert "memory" in of_operator["policy"]
    assert of_operator["belief"] == {"b": 1}
    assert rehearsed["version"] == 1
