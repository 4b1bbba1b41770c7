"""Tunes weights and latency budgets: asks a search, simulates, reports back, judges the result.

Evaluations are proposed in batches of a fixed size and reported in order, so that the result does
not depend on the number of processes or on which of them is fast.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from weir_policies import registry
from weir_policies.application_manager.budgets import share_equally
from weir_policies.application_manager.search.algorithms import build_search
from weir_policies.application_manager.search.protocol import Limits, Search, Trial, rank
from weir_policies.application_manager.search.space import Space
from weir_policies.policy import CostWeights, Tuning
from weir_simulator.arrivals import arrival_rates
from weir_simulator.errors import TuningError
from weir_simulator.experiment import Experiment
from weir_simulator.policies import Policies
from weir_simulator.traces import Trace
from weir_simulator.training import train_policies
from weir_simulator.tuning.evaluation import (
    MONEY,
    RunResult,
    SimulationRun,
    depends_on_seed,
    forecast,
)
from weir_simulator.tuning.judging import (
    MIN_SEEDS,
    Judged,
    certainty_of_keeping,
    certainty_of_less,
    explain_doubt,
    is_better,
    required_of_each,
)
from weir_simulator.tuning.order import (
    Evaluation,
    Forecast,
    TuningRequest,
    TuningResult,
    apply_tuning,
)
from weir_simulator.tuning.resampling import resample
from weir_simulator.tuning.study import Study
from weir_simulator.tuning.workers import Workers, count_workers

EQUAL_WEIGHTS = CostWeights(violation=1 / 3, resources=1 / 3, reconfiguration=1 / 3)
CAREFUL = 0.5
"""Part of each limit within which one of the points that are compared is, where there is any: the
best are often just within a limit, and none of them surely."""
JUDGING_SEEDS, JUDGING_SEEDS_OF_LEARNERS = 3, 6
RESAMPLED = 20
"""Traces that are made up where the measured one is too short to compare two points on."""
RESAMPLED_TO_CHOOSE = 10
"""The same, to choose the point that is compared: none of these is among the others."""
MAX_CHOICES = 6
"""Points of the search among which that one is chosen."""
BETWEEN = (0.25, 0.5, 0.75)
"""How far from the incumbent to the cheapest of them the other choices are: the incumbent usually
keeps the limits by far, and the cheapest hardly."""
MAX_RESAMPLED_SLOTS = 20_000
"""Slots of the longest trace that is made up, two weeks of minutes: longer ones take too long."""
TINY = 1e-6
"""A weight of 0 has no ratio to another."""
OVERTIME = 1.3
"""Times the deadline until which traffic is made up; without it, the trace alone decides."""
MADE_UP_SHARE = 0.25
"""Of the deadline, the most that is reserved for made-up traffic."""
FORECAST_SEEDS = 3

Ended = Literal["finished", "stopped", "deadline"]


def never() -> bool:
    """Return that there is no need to stop."""
    return False


def ignore(evaluation: Evaluation) -> None:
    """Do nothing with an evaluation."""


def tune(
    order: TuningRequest,
    *,
    on_evaluation: Callable[[Evaluation], None] = ignore,
    should_stop: Callable[[], bool] = never,
    study: Path | None = None,
) -> TuningResult:
    """Return the best weights and budgets that an order's search finds.

    Where the trace is too short to compare them with the incumbent, traffic is made up from its
    changes, and both are compared on that.

    Args:
        order: What to tune, and how.
        on_evaluation: Called after each evaluation, those read from a study included, in order.
        should_stop: Asked several times a second; when it is true, running evaluations are let
            finish and the best so far is judged on the fewest seeds that say anything.
        study: A folder in which each evaluation is written at once, and from which a second call
            with the same order resumes; `None` keeps nothing.

    Raises:
        TuningError: The order asks for more slots than its trace has, the study is of another
            order or cannot be written, or nothing was evaluated in full before the end.
        WeirPolicyError: The policy cannot take the experiment, or an extra is not installed.
        SimulatorError: The trace cannot be read, or a process was killed from outside.
    """
    began = time.monotonic()
    trace = arrival_rates(order.experiment.trace)
    slots = trace.size if order.slots is None else order.slots
    judging_slots = slots if order.judging_slots is None else order.judging_slots
    if max(slots, judging_slots) > trace.size:
        raise TuningError(
            f"Expected at most {trace.size} slots per evaluation, as many as the trace has, "
            f"got {max(slots, judging_slots)}; give fewer slots or a longer trace"
        )
    kept = None if study is None else Study(study, order, _traces(order, trace[:slots]))
    with (
        # The search's matrices are small, and the simulations have the other processors.
        threadpool_limits(limits=1),
        Workers(order.experiment, trace, count=count_workers(order.workers, order.batch)) as pool,
    ):
        search = _Search(order, trace, slots, judging_slots, pool, began, should_stop)
        search.run(on_evaluation, kept)
        result = search.judge()
    if kept is not None:
        kept.finish(result)
    return _add_extras(order, search.made_up if result.resampled else [], result)


def resampled_traffic(rates: Trace, *, seed: int) -> list[Trace]:
    """Return the traces that are made up from one that is too short."""
    rng = np.random.default_rng([seed, 3])
    return [resample(rates, rng) for _ in range(RESAMPLED + RESAMPLED_TO_CHOOSE)]


def _add_extras(
    order: TuningRequest, made_up: Sequence[Trace], result: TuningResult
) -> TuningResult:
    """Return the result with a forecast of its best and trained policies, as asked for.

    They are trained for what will be in force: the best if it is better, else the incumbent.
    """
    best = apply_tuning(order.experiment, result.best)
    expected: Forecast | None = None
    if order.watch is not None:
        traffic = made_up[:RESAMPLED]
        seeds = range(order.seed, order.seed + (len(traffic) or FORECAST_SEEDS))
        expected = forecast(best, seeds=seeds, intervals=order.watch, traffic=traffic)
    learned = Policies({})
    if order.train and registry.find(best.policy.name).learns_by_trying:
        stays = order.train_incumbent or not result.better
        chosen = apply_tuning(order.experiment, result.incumbent) if stays else best
        learned = train_policies(chosen, slots=order.train, seed=order.seed)
    return result.model_copy(
        update={
            "forecast": expected,
            "trained": {name: dict(each.state_dict()) for name, each in learned.operators.items()},
            "trained_jointly": None
            if learned.application is None
            else dict(learned.application.state_dict()),
        }
    )


def naive_tuning(experiment: Experiment) -> Tuning:
    """Return equal weights, and quotas of the bound that are equal along the longest path.

    Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6.3 and Algorithm 5, without
    its line 5, which the program behind the published figures does not have.
    """
    objective = experiment.objective
    quotas = share_equally(
        experiment.dataflow, objective.mean_bound, sink_bounds=objective.mean_sink_bounds
    )
    return Tuning(weights=EQUAL_WEIGHTS, budgets=quotas)


class _Search:
    """One call of `tune`."""

    def __init__(
        self,
        order: TuningRequest,
        trace: Trace,
        slots: int,
        judging_slots: int,
        workers: Workers,
        began: float,
        should_stop: Callable[[], bool],
    ) -> None:
        self._order, self._trace, self._workers, self._began = order, trace, workers, began
        self._slots, self._judging_slots = slots, judging_slots
        self._asked_to_stop = should_stop
        self._limits = order.constraints.limits
        experiment, objective = order.experiment, order.experiment.objective
        self._space = Space(
            experiment.dataflow, objective.mean_bound, sink_bounds=objective.mean_sink_bounds
        )
        self._incumbent = order.incumbent or naive_tuning(experiment)
        self._starts = [self._incumbent, *order.warm_starts]
        self._encoded = [self._space.encode(point) for point in self._starts]
        self._evaluations: list[Evaluation] = []
        self._ended: Ended = "finished"
        self._batches = 0
        self._run_seconds = math.inf  # of a full evaluation, at best
        self._seed_matters = depends_on_seed(experiment)
        self._simulated: dict[Hashable, RunResult] = {}
        """What came of runs on the trace where the seed does not matter, by `_key_of`."""
        self.made_up: Sequence[Trace] = ()
        """Traces made up where the measured one is too short."""

    def run(self, on_evaluation: Callable[[Evaluation], None], study: Study | None) -> None:
        """Ask, evaluate and report until the request is done, or it is time to stop."""
        order = self._order
        search = build_search(
            order.algorithm,
            surrogate=order.surrogate,
            space=self._space,
            limits=self._limits,
            starts=self._encoded,
            evaluations=order.evaluations,
            rng=np.random.default_rng([order.seed, 2]),
        )
        used = 0.0
        while used < order.evaluations and not self._is_time():
            left = order.evaluations - used
            trials = [
                trial
                for trial in search.ask(min(order.batch, max(1, int(left))))
                if (left := left - trial.fidelity) > -1e-9
            ]
            if not trials:
                return
            if not self._evaluate(search, trials, on_evaluation, study):
                return
            used = sum(evaluation.fidelity for evaluation in self._evaluations)

    def judge(self) -> TuningResult:
        """Return the best of what is compared with the incumbent, and how it compares.

        That is the shortlist, on the trace. If the trace is too short, it is the point that is
        chosen on made-up traffic, on other such traffic.
        """
        order, limits = self._order, self._limits
        full = sorted(
            (each for each in self._evaluations if each.fidelity == 1.0),
            key=lambda each: rank(each.outcome, limits),
        )
        if not full:
            raise TuningError(
                "Expected at least one evaluation in full, got none before the end; "
                "give a later deadline, fewer slots or a resumable study"
            )
        points = self._shortlist(full)
        seeds = [order.seed + 1 + place for place in range(self._judging_seeds)]
        judged = self._judge_runs(points, seeds)
        on_made_up = self._judge_on_made_up(full) if self._is_short(judged) else None
        if on_made_up is not None:
            points, judged = on_made_up
        theirs, candidates = judged[0], judged[1:]
        compared = sum(point != self._incumbent for point in points)
        required = required_of_each(order.confidence, max(1, compared))
        better = [is_better(each, theirs, limits, confidence=required) for each in candidates]
        # The cheapest is often too near a limit to keep it surely, where the next one does.
        chosen = min(
            range(len(points)),
            key=lambda c: (
                not (better[c] and candidates[c].outcome.keeps(limits)),
                *rank(candidates[c].outcome, limits),
            ),
        )
        ours = candidates[chosen]
        return TuningResult(
            algorithm=order.algorithm,
            best=points[chosen],
            prediction=ours.prediction,
            feasible=ours.outcome.keeps(limits),
            incumbent=self._incumbent,
            incumbent_prediction=theirs.prediction,
            better=better[chosen],
            certainty=certainty_of_less(ours, theirs, (MONEY,)),
            keeping=certainty_of_keeping(ours, limits),
            # Where the incumbent breaks a limit there are two ways to be better, see `is_better`.
            required=required if theirs.outcome.keeps(limits) else required_of_each(required, 2),
            doubt=explain_doubt(ours, theirs, limits),
            evaluations=tuple(self._evaluations),
            simulated_slots=sum(each.slots for each in self._evaluations),
            seconds=time.monotonic() - self._began,
            ended=self._ended,
            resampled=on_made_up is not None,
        )

    def _judge_runs(
        self,
        points: Sequence[Tuning],
        seeds: Sequence[int],
        traffic: Sequence[Trace] = (),
        should_stop: Callable[[], bool] = never,
    ) -> list[Judged]:
        """Return the incumbent and then the points, simulated with each seed."""
        runs = [
            SimulationRun(
                point=point,
                slots=self._judging_slots,
                seed=seed,
                rates=traffic[place] if traffic else None,
            )
            for point in (self._incumbent, *points)
            for place, seed in enumerate(seeds)
        ]
        measured = [each for each in self._simulate(runs, should_stop) if each is not None]
        if len(measured) < len(runs):
            return []
        return [
            Judged(measured[place : place + len(seeds)], resampled=bool(traffic))
            for place in range(0, len(measured), len(seeds))
        ]

    def _simulate(
        self, runs: Sequence[SimulationRun], should_stop: Callable[[], bool]
    ) -> list[RunResult | None]:
        """Return what comes of runs; those that differ by a seed without effect are made once."""
        if self._seed_matters or any(run.rates is not None for run in runs):
            return self._workers.evaluate(runs, should_stop=should_stop)
        missing = {_key_of(run): run for run in runs if _key_of(run) not in self._simulated}
        measured = self._workers.evaluate([*missing.values()], should_stop=should_stop)
        self._note_results([*missing.values()], measured)
        return [self._simulated.get(_key_of(run)) for run in runs]

    def _note_results(
        self, runs: Sequence[SimulationRun], measured: Sequence[RunResult | None]
    ) -> None:
        for run, each in zip(runs, measured, strict=True):
            if each is not None and not self._seed_matters:
                self._simulated[_key_of(run)] = each

    def _is_short(self, judged: Sequence[Judged]) -> bool:
        """Return whether the trace says nothing of other traffic, which can be made up instead.

        Where it says of any point that it is better, that is enough.
        """
        theirs, candidates = judged[0], judged[1:]
        order, limits = self._order, self._limits
        return (
            self._judging_seeds >= MIN_SEEDS
            and MIN_SEEDS <= self._judging_slots <= MAX_RESAMPLED_SLOTS
            and registry.find(order.experiment.policy.name).network is None
            and any(explain_doubt(each, theirs, limits) for each in candidates)
            and not any(
                is_better(each, theirs, limits, confidence=order.confidence) for each in candidates
            )
        )

    def _judge_on_made_up(
        self, full: Sequence[Evaluation]
    ) -> tuple[list[Tuning], list[Judged]] | None:
        """Return a point, and how it and the incumbent do on made-up traffic; `None` if late."""
        order = self._order
        made_up = resampled_traffic(self._trace[: self._judging_slots], seed=order.seed)
        self.made_up = made_up
        seeds = [order.seed + 1 + place for place in range(len(made_up))]
        points = self._choices(full)
        judged = self._judge_runs(
            points, seeds[RESAMPLED:], made_up[RESAMPLED:], should_stop=self._is_overtime
        )
        if not judged:
            return None
        best = [self._most_likely(points, judged)]
        judged = self._judge_runs(
            best, seeds[:RESAMPLED], made_up[:RESAMPLED], should_stop=self._is_overtime
        )
        return (best, judged) if judged else None

    def _is_overtime(self) -> bool:
        deadline = self._order.deadline
        late = deadline is not None and time.monotonic() - self._began > OVERTIME * deadline
        return late or self._asked_to_stop()

    def _shortlist(self, full: Sequence[Evaluation]) -> list[Tuning]:
        """Return which of the search's points are compared with the incumbent."""
        order, limits = self._order, self._limits
        points = [each.point for each in full[: order.shortlist]]
        half = Limits(
            violations=CAREFUL * limits.violations,
            reconfigurations=CAREFUL * limits.reconfigurations,
        )
        careful = min(full, key=lambda each: rank(each.outcome, half)).point
        points += [careful] if careful not in points else []
        # Somebody had a reason for the warm starts, and the search's slots may not show it.
        return points + [point for point in order.warm_starts if point not in points]

    def _choices(self, full: Sequence[Evaluation]) -> list[Tuning]:
        """Return the points among which one is chosen on made-up traffic.

        The search has seen a single short trace, on which the cheapest points nearly break a limit.
        So these are points that no other is as good as in every respect, some on the way to the
        incumbent, and the warm starts.
        """
        front = [
            each.point
            for each in sorted(full, key=lambda each: each.money)
            if not any(_dominates(other, each) for other in full)
        ]
        places = np.unique(np.linspace(0, len(front) - 1, MAX_CHOICES).round().astype(int))
        points = [front[place] for place in places]
        others = [_blend(self._incumbent, front[0], part) for part in BETWEEN]
        return points + [each for each in (*others, *self._order.warm_starts) if each not in points]

    def _most_likely(self, points: Sequence[Tuning], judged: Sequence[Judged]) -> Tuning:
        """Return the cheapest point that is surely better than the incumbent, or the next to it."""
        theirs, *candidates = judged

        def order_of(place: int) -> tuple[bool, float]:
            ours = candidates[place]
            if is_better(ours, theirs, self._limits, confidence=self._order.confidence):
                return False, ours.outcome.money
            saves = certainty_of_less(ours, theirs, (MONEY,)) or 0.0
            return True, -min(saves, certainty_of_keeping(ours, self._limits) or 0.0)

        return points[min(range(len(points)), key=order_of)]

    def _evaluate(
        self,
        search: Search,
        trials: Sequence[Trial],
        on_evaluation: Callable[[Evaluation], None],
        study: Study | None,
    ) -> bool:
        """Evaluate a batch and report to the search; return whether all of it was evaluated."""
        first = len(self._evaluations)
        points = [self._point_of(trial) for trial in trials]
        known = [
            None if study is None else _same(study.read(first + b), point, trial)
            for b, (point, trial) in enumerate(zip(points, trials, strict=True))
        ]
        missing = [b for b in range(len(trials)) if known[b] is None]
        began = time.monotonic()
        runs = [self._run(points[b], trials[b]) for b in missing]
        measured = self._workers.evaluate(runs, should_stop=self._is_time)
        self._note_results(runs, measured)
        self._note_speed(time.monotonic() - began, [trials[b].fidelity for b in missing])
        for b, each in zip(missing, measured, strict=True):
            if each is not None:
                evaluation = self._describe(first + b, points[b], trials[b], each)
                if study is not None:
                    study.keep(evaluation)
                known[b] = evaluation
        for trial, made in zip(trials, known, strict=True):
            if made is None:
                return False
            self._evaluations.append(made)
            search.tell(trial, made.outcome)
            on_evaluation(made)
        return True

    def _point_of(self, trial: Trial) -> Tuning:
        """Return the point of a trial: a start exactly as given, not the nearest of the cube."""
        for point, coordinates in zip(self._starts, self._encoded, strict=True):
            if np.array_equal(trial.coordinates, coordinates):
                return point
        return self._space.decode(trial.coordinates)

    def _run(self, point: Tuning, trial: Trial) -> SimulationRun:
        slots = max(1, round(trial.fidelity * self._slots))
        return SimulationRun(point=point, slots=slots, seed=self._order.seed)

    def _describe(
        self, number: int, point: Tuning, trial: Trial, measured: RunResult
    ) -> Evaluation:
        outcome = measured.outcome
        return Evaluation(
            number=number,
            origin=trial.origin,
            point=point,
            fidelity=trial.fidelity,
            slots=measured.slots,
            money=outcome.money,
            violations=min(outcome.violations, 1.0),
            reconfigurations=min(outcome.reconfigurations, 1.0),
            feasible=outcome.keeps(self._limits),
        )

    @property
    def _judging_seeds(self) -> int:
        asked = self._order.judging_seeds
        if asked is None:
            learns = registry.find(self._order.experiment.policy.name).learns_by_trying
            asked = JUDGING_SEEDS_OF_LEARNERS if learns else JUDGING_SEEDS
        return min(asked, MIN_SEEDS) if self._ended == "stopped" else asked

    def _note_speed(self, seconds: float, fidelities: Sequence[float]) -> None:
        """Learn how long an evaluation takes; the first batch says nothing, because it compiles."""
        self._batches += 1
        if fidelities and self._batches > 1:
            self._run_seconds = min(self._run_seconds, seconds / sum(fidelities))

    def _is_time(self) -> bool:
        """Return whether to stop, so that the judging is done by the deadline."""
        deadline = self._order.deadline
        if self._asked_to_stop():
            self._ended = "stopped"
        elif deadline is not None:
            used = time.monotonic() - self._began
            longer = self._judging_slots / self._slots
            known = math.isfinite(self._run_seconds)
            each = self._run_seconds * longer if known else 0.0
            # Made-up traffic is left out when it would take too long, so that it may not keep the
            # search from beginning.
            made_up = min(each * self._made_up_runs, MADE_UP_SHARE * deadline)
            reserve = each * self._judging_runs + made_up
            if used + reserve > deadline:
                self._ended = "deadline"
        return self._ended != "finished"

    @property
    def _judging_runs(self) -> int:
        points = 2 + self._order.shortlist + len(self._order.warm_starts)
        return points * (self._judging_seeds if self._seed_matters else 1)

    @property
    def _made_up_runs(self) -> int:
        """Evaluations that the judging makes on made-up traffic, where the trace is short."""
        if self._judging_slots > MAX_RESAMPLED_SLOTS:
            return 0
        choices = 1 + MAX_CHOICES + len(BETWEEN) + len(self._order.warm_starts)
        return choices * RESAMPLED_TO_CHOOSE + 2 * RESAMPLED


def _same(known: Evaluation | None, point: Tuning, trial: Trial) -> Evaluation | None:
    """Return what a study knows, if it is of this very point.

    With more evaluations to make, a search may plan otherwise from some evaluation on.
    """
    if known is None or known.point != point or known.fidelity != trial.fidelity:
        return None
    return known


def _key_of(run: SimulationRun) -> Hashable:
    """Return what decides what comes of a run on the trace where the seed does not matter."""
    return astuple(run.point.weights), tuple(run.point.budgets.items()), run.slots


def _dominates(one: Evaluation, other: Evaluation) -> bool:
    mine, its = ((each.money, each.violations, each.reconfigurations) for each in (one, other))
    return mine != its and all(a <= b for a, b in zip(mine, its, strict=True))


def _blend(one: Tuning, other: Tuning, part: float) -> Tuning:
    """Return the point so far from one to the other, weights by their ratios."""
    mine, its = (np.maximum(astuple(each.weights.normalised()), TINY) for each in (one, other))
    violation, resources, reconfiguration = (mine ** (1 - part) * its**part).tolist()
    weights = CostWeights(violation=violation, resources=resources, reconfiguration=reconfiguration)
    budgets = {
        name: (1 - part) * budget + part * other.budgets[name]
        for name, budget in one.budgets.items()
    }
    return Tuning(weights=weights.normalised(), budgets=budgets)


def _traces(order: TuningRequest, rates: Trace) -> dict[str, Trace]:
    """Return the rates that evaluations depend on, by where the experiment names them."""
    training = order.experiment.training
    return {"trace": rates} | ({} if training is None else {"training": arrival_rates(training)})
