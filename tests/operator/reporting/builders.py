"""Builders of run records for tests: one tick, or a run that looks like a real one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

import numpy as np

from weir_operator.loop.run_record import (
    RECORDS,
    EventRecord,
    Objective,
    OperatorTick,
    RecordedRun,
    RescaleRecord,
    ResponseTime,
    RunSummary,
    Step,
    TickRecord,
)
from weir_operator.runtime.protocol import Deployments

_START = 1_700_000_000.0
_INTERVAL = 5.0
_SERVICE = {"enrich": 0.008, "aggregate": 0.012}  # seconds a record at speed 1
_SPEED = {"small/250m": 0.5, "small/500m": 1.0, "large/1": 2.0}
_PRICE = {"small/250m": 0.011, "small/500m": 0.021, "large/1": 0.058}
_BOUND = 0.5


def a_tick(
    *,
    time: float = _START,
    elapsed: float = 0.0,
    rate: float = 300.0,
    response: float = 0.2,
    violated: bool | None = False,
    healthy: bool = True,
    problems: tuple[str, ...] = (),
    operators: tuple[OperatorTick, ...] | None = None,
    cost_per_hour: float = 0.171,
    cost: float = 0.0,
    backlog: float = 0.0,
    restarts: int = 0,
) -> TickRecord:
    """Return a tick of a small app that keeps its objective of 500 ms."""
    if operators is None:
        operators = (
            an_operator(name="source", replicas={"small/250m": 1}, rate=rate),
            an_operator(name="enrich", replicas={"small/500m": 3}, rate=rate),
            an_operator(name="aggregate", replicas={"large/1": 2, "small/250m": 1}, rate=rate),
        )
    return TickRecord(
        app="trips",
        time=time,
        elapsed=elapsed,
        mode="Auto",
        objective=Objective(bound=_BOUND, statistic="mean"),
        rate=rate,
        response_time=ResponseTime(
            mean=response, p50=0.7 * response, p95=2.4 * response, p99=3.6 * response
        ),
        violated=violated,
        backlog=backlog,
        cost_per_hour=cost_per_hour,
        cost=cost,
        healthy=healthy,
        problems=problems,
        restarts=restarts,
        operators=operators,
    )


def an_operator(
    *,
    name: str = "enrich",
    replicas: dict[str, int] | None = None,
    rate: float = 300.0,
    utilisation: float = 0.71,
    response: float = 0.042,
    predicted: float = 0.04,
    reason: str = "Stays: no cheaper deployment keeps the budget.",
    target: dict[str, int] | None = None,
    verdict: str = "",
) -> OperatorTick:
    return OperatorTick(
        name=name,
        replicas={"small/500m": 3} if replicas is None else replicas,
        rate=rate,
        utilisation=utilisation,
        response_time=response,
        budget=0.12,
        predicted=predicted,
        policy="queueing",
        reason=reason,
        target=target,
        verdict=verdict,
    )


def a_run(*, ticks: int = 60, blind: Collection[int] = ()) -> RecordedRun:
    """Return a run over a hill of traffic, rescaled up and down, with a resize and a rollback.

    Args:
        ticks: Control intervals of 5 s.
        blind: Ticks at which the metrics could not be trusted, so that NaN stands in them.
    """
    rng = np.random.default_rng(7)
    run = RecordedRun()
    deployments: dict[str, dict[str, int]] = {
        "source": {"small/250m": 1},
        "enrich": {"small/500m": 2},
        "aggregate": {"small/500m": 2, "large/1": 1},
    }
    plan = _plan(ticks)
    cost, restarts, measured, violations = 0.0, 0, [], 0
    for number in range(ticks):
        now = _START + _INTERVAL * number
        hill = math.exp(-(((number / ticks - 0.5) / 0.22) ** 2))
        rate = float(rng.poisson(5 * (110 + 420 * hill)) / 5)
        change = plan.get(number)
        operators = tuple(
            _operator_tick(name, replicas, rate, change) for name, replicas in deployments.items()
        )
        response = sum(operator.response_time for operator in operators)
        response *= float(rng.lognormal(0.0, 0.15)) * (7.0 if number - 1 in plan else 1.0)
        per_hour = 0.03 + sum(
            count * _PRICE[name]
            for replicas in deployments.values()
            for name, count in replicas.items()
        )
        cost += per_hour * _INTERVAL / 3600
        unseen = number in blind
        if not unseen:
            measured.append(response)
            violations += response > _BOUND
        run = run.with_record(
            a_tick(
                time=now,
                elapsed=_INTERVAL * number,
                rate=math.nan if unseen else rate,
                response=math.nan if unseen else response,
                violated=None if unseen else response > _BOUND,
                healthy=not unseen,
                problems=("Half of the TaskManagers of enrich sent no samples.",) * unseen,
                operators=operators,
                cost_per_hour=per_hour,
                cost=cost,
                backlog=rate * max(0.0, response - _BOUND),
                restarts=restarts,
            )
        )
        if change is not None:
            done = change[2] == "done"
            before = {name: dict(replicas) for name, replicas in deployments.items()}
            after = {**before, change[0]: change[1]}
            run = run.with_record(_rescale(number, now, change, before, after))
            restarts += change[0] != "source"
            if done:
                deployments[change[0]] = dict(change[1])
            else:
                run = run.with_record(
                    EventRecord(
                        time=now + 4.0,
                        level="warning",
                        message="The new deployment never ran a task: the old one is restored.",
                    )
                )
    return run.with_record(
        RunSummary(
            app="trips",
            started=_START,
            finished=_START + _INTERVAL * ticks,
            intervals=len(measured),
            violations=violations,
            violation_share=violations / len(measured),
            cost=cost,
            response_mean=float(np.mean(measured)),
            response_p95=float(np.quantile(measured, 0.95)),
            restarts=sum(change.kind == "rescale" for change in run.rescales),
            resizes=sum(change.kind == "resize" for change in run.rescales),
            emitted=98_312,
            received=98_312,
            lost=0,
            doubled=0,
            gaps=tuple(change.gap for change in run.rescales if change.gap is not None),
        )
    )


_Change = tuple[str, dict[str, int], str]  # operator, target, outcome


def _plan(ticks: int) -> dict[int, _Change]:
    """Return the changes by the tick at which they are decided."""
    return {
        int(ticks * share): change
        for share, change in {
            0.18: ("enrich", {"small/500m": 4}, "done"),
            0.27: ("aggregate", {"small/500m": 2, "large/1": 3}, "done"),
            0.35: ("enrich", {"small/500m": 6}, "rolledBack"),
            0.40: ("enrich", {"small/500m": 7}, "done"),
            0.52: ("source", {"small/500m": 1}, "done"),
            0.66: ("aggregate", {"small/500m": 2, "large/1": 2}, "done"),
            0.75: ("enrich", {"small/500m": 3}, "done"),
            0.87: ("aggregate", {"small/500m": 1, "large/1": 1}, "done"),
        }.items()
    }


def _operator_tick(
    name: str, replicas: dict[str, int], rate: float, change: _Change | None
) -> OperatorTick:
    def respond(deployment: dict[str, int]) -> tuple[float, float]:
        capacity = sum(count * _SPEED[kind] for kind, count in deployment.items())
        utilisation = min(0.98, rate * _SERVICE.get(name, 0.0005) / capacity)
        return utilisation, 0.012 / (1 - utilisation)

    utilisation, response = respond(replicas)
    target = change[1] if change is not None and change[0] == name else None
    grows = target is not None and sum(target.values()) > sum(replicas.values())
    return an_operator(
        name=name,
        replicas=dict(replicas),
        rate=rate,
        utilisation=utilisation,
        response=response,
        predicted=respond(replicas if target is None else target)[1],
        target=target,
        reason=(
            "Stays: no cheaper deployment keeps the budget."
            if target is None
            else f"{'More' if grows else 'Fewer'} replicas: at {rate:.0f} records/s the present "
            f"deployment would take {response * 1000:.0f} ms of 120 ms."
        ),
        verdict="" if target is None else "Granted.",
    )


def _rescale(
    number: int, now: float, change: _Change, before: Deployments, after: Deployments
) -> RescaleRecord:
    resize = change[0] == "source"
    steps = ("starting", "savepoint", "removing", "submitting", "verifying")
    names = ("patching",) if resize else steps
    return RescaleRecord(
        id=str(number),
        kind="resize" if resize else "rescale",
        started=now,
        finished=now + (0.4 if resize else 3.1),
        before=before,
        after=after,
        outcome=change[2],
        steps=tuple(Step(name=step, time=now + 0.6 * at) for at, step in enumerate(names)),
        gap=None if resize else 0.62 + 0.01 * number,
        reason=f"{change[0]} asks for {sum(change[1].values())} replicas.",
    )


def read_run(lines: Iterable[str]) -> RecordedRun:
    """Return the run of which these are the lines of JSON."""
    run = RecordedRun()
    for line in lines:
        run = run.with_record(RECORDS.validate_json(line))
    return run
