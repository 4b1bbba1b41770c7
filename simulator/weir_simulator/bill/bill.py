"""What a job cost, and what it would have cost by each policy, on the same arrivals.

    as it was: measured cost; response times measured, or modelled from what was measured
    by a policy: the fitted job, simulated on the measured arrivals, a TaskManager for each replica

Every simulated figure is a range: the job is simulated with the fitted work, and with the work
that is less and more by the error on hours that the fit has not seen.

What is assumed and not measured is varied one by one; those whose change moves the bill of the
default policy most are told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weir_policies import registry
from weir_policies.errors import WeirPolicyError
from weir_policies.model.arrays import Floats
from weir_policies.model.queueing import predict_means
from weir_simulator.bill.measured import Measured
from weir_simulator.bill.model import ENTRY, FittedJob, Variation
from weir_simulator.errors import SimulatorError
from weir_simulator.experiment import Experiment
from weir_simulator.processes import run_in_processes
from weir_simulator.run import simulate
from weir_simulator.state import AT_CHANGE, AT_PRICE, AT_REPLICAS, AT_TIME, RESTART

HOURS_A_MONTH = 730.0
DAY = 86_400.0
AS_IT_WAS = "as it was"
NEARLY_FULL = 0.98
"""Part of what a vertex can sustain at which its time is taken when more arrives, as simulated."""
MOST_TOLD = 3
"""Assumptions that are told."""
OTHER_BOUNDS = (0.5, 2.0, 4.0)
"""Factors of the objective that are priced besides."""
TRIED = 3 * DAY
"""Seconds, the last ones, on which assumptions and other objectives are tried: what they change is
seen there, and a run of weeks takes long."""
SEED = 1


class Range(NamedTuple):
    """A number, and between which it is."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class BillLine:
    """What one way of scaling costs, and how it does."""

    name: str
    cost: Range
    """Currency per hour."""
    over: Range
    """Share of the slots over the objective."""
    restarts: float
    """Per day."""
    peak: int
    """Most TaskManagers at once."""
    prices: Floats
    """Currency per hour, by slot."""
    responses: Floats
    """Seconds, by slot."""
    replicas: Floats
    """TaskManagers, by slot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumption:
    """What is not measured, and what follows where it is wrong."""

    assumed: str
    otherwise: str
    cost: float
    """Currency per hour if it is otherwise."""
    over: float
    """Share of the slots over the objective if it is otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherObjective:
    """What another objective would cost by the first policy."""

    bound: float
    cost: float
    over: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """The whole answer."""

    job: str
    bound: float
    """Seconds of response time that are the objective."""
    statistic: str
    begin: float
    """Unix seconds of the first slot that counts."""
    slot: float
    rates: Floats
    """Records/s that arrived, by slot."""
    lines: tuple[BillLine, ...]
    """As it was, then the policies in the order in which they were asked for."""
    refusals: Mapping[str, str]
    """Policies that cannot scale this job, with the reason."""
    assumptions: tuple[Assumption, ...]
    objectives: tuple[OtherObjective, ...]
    error: float
    """See `FittedJob.error`."""
    blocks: int
    notes: tuple[str, ...]

    @property
    def hours(self) -> float:
        """How long the time is that was counted."""
        return self.rates.size * self.slot / 3600


class _Order(NamedTuple):
    """One simulation."""

    experiment: Experiment
    policy: str


def make_bill(
    measured: Measured,
    job: FittedJob,
    *,
    policies: Sequence[str],
    on_finished: Callable[[int, int], None] = lambda done, total: None,
) -> Bill:
    """Return the bill of a job.

    Args:
        measured: As it ran.
        job: Fitted to that; its trace is written already.
        policies: Names, the first one that whose assumptions are tried.
        on_finished: Told after each simulation how many are done, and how many there are.

    Raises:
        UnknownPolicyError: A policy has no such name.
        SimulatorError: The first policy cannot scale the job, or a process was killed.
    """
    for policy in policies:
        registry.find(policy)
    slots = job.rates.size
    experiment = job.experiment.model_copy(update={"initial": _begin_with(measured, job)})
    errors = (0.0, -job.error, job.error)
    bound = experiment.objective.response_time
    doubts = _doubts(experiment, measured.crowding)
    orders = [
        _Order(Variation(work=1 + error).apply(experiment), policy)
        for policy in policies
        for error in errors
    ]
    recent = _shorten(experiment, slots, measured.slot)
    varied = [Variation(), *(each.variation for each in doubts)]
    bounds = [bound * factor for factor in OTHER_BOUNDS]
    varied += [Variation(bound=each) for each in bounds]
    orders += [_Order(each.apply(recent), policies[0]) for each in varied]
    done = 0

    def count(_: object) -> None:
        nonlocal done
        done += 1
        on_finished(done, len(orders))

    answers = run_in_processes(_run, orders, on_finished=count)
    lines = [_as_it_was(measured, job, bound)]
    refusals = {}
    for place, policy in enumerate(policies):
        found = answers[3 * place : 3 * place + 3]
        refused = next((each for each in found if isinstance(each, str)), None)
        if refused is not None:
            refusals[policy] = refused
        else:
            runs = [each for each in found if not isinstance(each, str)]
            lines.append(_line(policy, runs, bound, measured, experiment))
    if policies[0] in refusals:
        raise SimulatorError(
            f"--policy: expected one that can scale this job, got {policies[0]}: "
            f"{refusals[policies[0]]}"
        )
    first = lines[1]
    base, *rest = (each for each in answers[3 * len(policies) :] if not isinstance(each, str))
    costs = [first.cost.value * _cost(each, measured) / _cost(base, measured) for each in rest]
    tried = [
        Assumption(
            assumed=doubt.assumed,
            otherwise=doubt.otherwise,
            cost=cost,
            over=_moved_share(first, _share(base, bound), _share(history, bound)),
        )
        for doubt, history, cost in zip(doubts, rest, costs, strict=False)
    ]
    tried.sort(key=lambda each: -_moved(each, first))
    return Bill(
        job=measured.name,
        bound=bound,
        statistic=experiment.objective.statistic.word,
        begin=job.begin,
        slot=measured.slot,
        rates=job.rates,
        lines=tuple(lines),
        refusals=refusals,
        assumptions=tuple(tried[:MOST_TOLD]),
        objectives=tuple(
            OtherObjective(
                bound=each,
                cost=cost,
                over=_moved_share(first, _share(base, bound), _share(history, each)),
            )
            for each, history, cost in zip(
                bounds, rest[len(doubts) :], costs[len(doubts) :], strict=True
            )
        ),
        error=job.error,
        blocks=job.blocks,
        notes=(*measured.notes, *_gaps(job, slots), *_recently(recent)),
    )


def _run(order: _Order) -> Floats | str:
    try:
        return simulate(order.experiment, seed=SEED, policy=order.policy, history=True).history
    except (WeirPolicyError, SimulatorError) as error:
        return str(error)


class _Doubt(NamedTuple):
    assumed: str
    otherwise: str
    variation: Variation


def _doubts(experiment: Experiment, crowding: float) -> list[_Doubt]:
    """Return what is assumed of the job, each with what may be otherwise."""
    world, bound = experiment.world, experiment.objective.response_time
    doubts = [
        _Doubt(
            "service times vary as an exponential law does",
            "they vary four times as much",
            Variation(scv=4.0),
        ),
        _Doubt(
            f"a restart by Weir stops the job for {world.downtime:.3g} s",
            f"for {10 * max(world.downtime, 1.0):.3g} s",
            Variation(downtime=10 * max(world.downtime, 1.0)),
        ),
        _Doubt(
            "records lose no time between vertices and outside them, as far as it was not measured",
            "they lose a quarter of the objective there",
            Variation(unseen=bound / 4),
        ),
        _Doubt(
            "keys, windows and other hours need the same work per record",
            "each record needs a fifth more",
            Variation(work=1.2),
        ),
    ]
    if crowding > 1:
        doubts.append(
            _Doubt(
                f"each busy second takes a core, though tasks were busy {crowding:.1f} s per "
                "second of a slot",
                "they waited for each other, or for something else, all but one",
                Variation(work=1 / crowding),
            )
        )
    if any(each.speedup < 1 for each in experiment.node_types):
        doubts.append(
            _Doubt(
                "half a core does half the work of a core",
                "node types below a core do a fifth less",
                Variation(small=0.8),
            )
        )
    return doubts


def _moved(each: Assumption, first: BillLine) -> float:
    """Return how much an assumption matters: of the cost, and of the time over the objective."""
    base = max(first.cost.value, 1e-9)
    return abs(each.cost / base - 1) + abs(each.over - first.over.value)


def _moved_share(first: BillLine, base: float, varied: float) -> float:
    """Return the share over an objective, from how it differs in the time that was tried."""
    return min(max(first.over.value + varied - base, 0.0), 1.0)


def _shorten(experiment: Experiment, slots: int, slot: float) -> Experiment:
    kept = min(round(TRIED / slot), slots)
    trace = experiment.trace.model_copy(update={"start": slots - kept, "slots": kept})
    return experiment.model_copy(update={"trace": trace})


def _recently(recent: Experiment) -> tuple[str, ...]:
    if not recent.trace.start:
        return ()
    return (
        f"Assumptions and other objectives are tried on the last {TRIED / DAY:.0f} days, and "
        "scaled to the whole time",
    )


def _begin_with(measured: Measured, job: FittedJob) -> dict[str, int]:
    """Return the replicas of each operator to begin with: what the largest had at first."""
    types = job.experiment.node_types
    most = min(each.max_replicas for each in job.experiment.operators if each.name != ENTRY)
    begun: dict[str, int] = {}
    for interval in measured.samples.intervals:
        if interval.time > job.begin and interval.operators:
            begun = max(
                (dict(each.deployment) for each in interval.operators.values()),
                key=lambda named: sum(named.values()),
            )
            break
    known = {each.name for each in types}
    left = most
    capped = {}
    for name, count in begun.items():
        if name in known and min(count, left) > 0:
            capped[name] = min(count, left)
            left -= capped[name]
    start = capped or {types[0].name: 1}
    if any(each.name == ENTRY for each in types):
        start[ENTRY] = 1
    return start


def _line(
    policy: str, runs: Sequence[Floats], bound: float, measured: Measured, experiment: Experiment
) -> BillLine:
    middle = runs[0]
    costs = [_cost(each, measured) for each in runs]
    overs = [_share(each, bound) for each in runs]
    entry = sum(each.name == ENTRY for each in experiment.operators)
    replicas = middle[:, AT_REPLICAS] - entry
    days = middle.shape[0] * measured.slot / DAY
    return BillLine(
        name=policy,
        cost=Range(costs[0], min(costs), max(costs)),
        over=Range(overs[0], min(overs), max(overs)),
        restarts=float((middle[:, AT_CHANGE] == RESTART).sum()) / days,
        peak=int(replicas.max()),
        prices=middle[:, AT_PRICE] + measured.fixed_cost,
        responses=middle[:, AT_TIME],
        replicas=replicas,
    )


def _cost(history: Floats, measured: Measured) -> float:
    return float(history[:, AT_PRICE].mean()) + measured.fixed_cost


def _share(history: Floats, bound: float) -> float:
    return float((history[:, AT_TIME] > bound).mean())


def _as_it_was(measured: Measured, job: FittedJob, bound: float) -> BillLine:
    """Return the job's own line: what it cost is measured, and its response times as far."""
    times = model_responses(measured, job)
    during = (measured.times > job.begin) & (
        measured.times <= job.begin + job.rates.size * measured.slot + measured.slot / 2
    )
    cost, replicas = measured.cost[during], measured.replicas[during]
    late = measured.late[during]
    objective = job.experiment.objective
    responses = times[during] * (objective.response_time / objective.mean_bound)

    def over(bound: float) -> float:
        known = np.isfinite(responses) | late | np.isinf(responses)
        with np.errstate(invalid="ignore"):
            return float(((responses > bound) | late)[known].mean()) if known.any() else math.nan

    paid = float(np.nanmean(cost))
    modelled = not np.isfinite(measured.response).any()
    error = job.error if modelled else 0.0
    days = job.rates.size * measured.slot / DAY
    shares = over(bound), over(bound * (1 + error)), over(bound * (1 - error))
    return BillLine(
        name=AS_IT_WAS,
        cost=Range(paid, paid, paid),
        over=Range(*shares),
        restarts=measured.restarts / days,
        peak=int(np.nanmax(replicas)),
        prices=cost,
        responses=responses,
        replicas=replicas,
    )


def model_responses(measured: Measured, job: FittedJob) -> Floats:
    """Return seconds from source to sink, by slot: measured ones, and modelled ones for want.

    Modelled are, of each vertex, the steady time of its replicas at what reached it, and, in front
    of the sources, how long it takes to work off what waits there.
    """
    calibration = job.calibration
    row = {time: place for place, time in enumerate(measured.times.tolist())}
    seen: dict[str, list[tuple[int, tuple[int, ...], float]]] = {
        name: [] for name in calibration.models
    }
    for interval in measured.samples.intervals:
        place = row.get(interval.time)
        for name in seen if place is not None else ():
            sample = interval.operators.get(name)
            if sample is not None and place is not None:
                types = calibration.models[name].node_types
                counts = tuple(sample.deployment.get(each.name, 0) for each in types)
                seen[name].append((place, counts, sample.taken))
    taken: dict[str, Floats] = {}
    for name, model in calibration.models.items():
        taken[name] = np.full(measured.times.size, np.nan)
        if not seen[name]:
            continue
        places = np.array([place for place, _, _ in seen[name]])
        deployments = np.array([counts for _, counts, _ in seen[name]])
        rates = np.array([rate for _, _, rate in seen[name]])
        used = predict_means(model, deployments, rates)[1]
        capped = np.where(used > NEARLY_FULL, rates * NEARLY_FULL / used, rates)
        taken[name][places] = predict_means(model, deployments, capped)[0]
    flow = calibration.dataflow
    steady = flow.response_times({name: taken.get(name, np.zeros(1)) for name in flow.operators})
    steady = steady + calibration.unmodelled_latency
    modelled = steady + np.nan_to_num(measured.waiting, nan=0.0)
    return np.where(np.isfinite(measured.response), measured.response, modelled)


def _gaps(job: FittedJob, slots: int) -> tuple[str, ...]:
    if job.filled <= slots / 100:
        return ()
    return (
        f"Arrivals of {job.filled / slots:.0%} of the time were not measured: a straight line "
        "between their neighbours stands there",
    )
