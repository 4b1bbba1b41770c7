"""Tunes a job that Weir has fitted a simulator to, on days of rates instead of hours.

Weir tunes on what it has measured. A run that passes sixty times faster tells enough of the work,
but of the traffic only hours: too little to be sure of anything. So the days before stand for the
traffic, as a history does that is kept; all else is as the controller does it. Both of Weir's arms
then go through these days in the simulator, each with its own weights: in ten hours the planner
does not find its plan better than a rule that knows no weights.
"""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

from rich.console import Console

from benchmarks.registry import BenchmarkError
from weir_operator.streamapp.models import StreamApp
from weir_operator.tuning.fitting import find_fitted
from weir_operator.tuning.store import TUNINGS, TuningStore, Version
from weir_operator.tuning.work import TuningWork
from weir_operator.tuning.worker import run_tuning
from weir_operator.wiring.assembly import tuning_settings
from weir_simulator.experiment import Experiment
from weir_simulator.experiment_files import load_experiment
from weir_simulator.fitting.refit import with_trace
from weir_simulator.traces import Trace
from weir_simulator.training import train_policies
from weir_simulator.tuning.order import Point, TuningRequest, apply_point

LEARNED = "learned.json"
REHEARSED_BY_HAND = "rehearsed-by-hand.json"
REHEARSED_TUNED = "rehearsed-tuned.json"
EVALUATIONS = 50
JUDGING_SEEDS = 10
"""Both more than the controller's: here is time to be surer."""


def tune_on(rates: Trace, *, app: StreamApp, state: Path) -> None:
    """Put the tuning in force in a folder of state, if one is found that is surely better.

    Args:
        rates: Records/s, an interval of the Operator Managers each, shape `(n,)`.
        app: The StreamApp.
        state: Folder of its state, with the experiment that was fitted.

    Raises:
        BenchmarkError: No fit was good enough to be left there.
        TuningError: A tuning cannot be made of the fit.
    """
    fitted = find_fitted(state)
    if not fitted.exists():
        raise BenchmarkError(
            f"Expected a simulator that was fitted while {app.metadata.name} ran, got none: see "
            f"ModelUnfitted in the run's report in {state.parents[1]}; run it again, beside less"
        )
    policy = app.spec.operator_manager.policy.name
    settings = tuning_settings(app, policy=policy, tuner_deadline=math.inf)
    experiment = load_experiment(fitted)
    budgets = {each.name: each.budget for each in experiment.operators if each.budget is not None}
    order = TuningRequest(
        experiment=experiment,
        constraints=settings.terms.constraints,
        evaluations=EVALUATIONS,
        judging_seeds=JUDGING_SEEDS,
        incumbent=Point(weights=experiment.weights, budgets=budgets),
    )
    work = TuningWork(order=order, rates=tuple(rates), watch=settings.terms.watch, train=0)
    folder = state / "tuned-on-days"
    folder.mkdir()
    answer = run_tuning(work, folder, stop=threading.Event())
    days = with_trace(experiment, trace=folder / "trace.txt")  # where the work has put the rates
    rehearse(days, slots=rates.size, state=state, file=REHEARSED_BY_HAND)
    result = answer.result
    expected, before = result.prediction.money.mean, result.incumbent_prediction.money.mean
    Console().print(
        f"tuned on {len(rates)} intervals: {expected:.3g} instead of {before:.3g} an hour, "
        f"certainty {result.certainty}, of keeping the objective {result.keeping}: "
        f"{'better' if result.better else 'not surely better'}"
    )
    if not result.better:
        return
    tuned = apply_point(days, result.best)
    rehearse(tuned, slots=rates.size, state=state, file=REHEARSED_TUNED)
    version = Version.of(
        answer,
        number=1,
        since=time.time(),
        former=0,
        budgets=result.best.budgets,
        most_rate=float(rates.max()),
    )
    store = TuningStore(state / TUNINGS, key=settings.key)
    store.save(store.fresh().with_version(version).model_copy(update={"current": 1}))


def rehearse(days: Experiment, *, slots: int, state: Path, file: str) -> None:
    """Write what was measured so far, with policies that went through the days in the simulator.

    They start over there: what is kept of the real job is in the simulator, which was fitted to it,
    and in the beliefs. Their clock is the simulator's, so nothing that depends on the hour counts.

    Args:
        days: The fitted job, the rates of the days, and an arm's weights and budgets.
        slots: How many are gone through.
        state: Folder with what was learned, where the file goes.
        file: Its name.
    """
    learned = json.loads((state / LEARNED).read_text())
    for name, policy in train_policies(days, slots=slots, seed=0).items():
        learned["operators"][name]["policy"] = policy
    (state / file).write_text(json.dumps(learned))
