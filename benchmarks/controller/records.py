"""What a StreamApp's decision records take on disk, and whether the file stays within its limit.

Decisions are taken as the loops take them, by two policies over three pools, on loads that move
from interval to interval; then they are written again and again, until the oldest must go.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.controller.made_up_app import TYPES, make_layout, make_manager, make_replicas
from benchmarks.figures import Figure, at_most
from weir_operator.loop.decision_records import (
    MAX_BYTES,
    MOST_INTERVALS,
    DecisionRecord,
    RecordStore,
)
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.testing import Load, a_window
from weir_policies.model.estimation import ServiceMeasurement
from weir_policies.model.node_types import Deployment
from weir_simulator.fitting.samples import IntervalSample, OperatorSample

ABOUT = "Disk space of decision records, per operator and month, and their limit"
DURATION = "3 min"

TICKS = 400
INTERVAL = 60.0
MONTH = 30 * 86_400.0
OPERATORS = 3
TIMES_FULL = 3.0
"""How often as much is written as the file may hold."""
NAMES = tuple(f"operator-{place}" for place in range(OPERATORS))


def run() -> list[Figure]:
    """Measure both policies, then fill a file."""
    figures = []
    taken: list[DecisionRecord] = []
    for policy in ("queueing", "planner"):
        taken = _decide(policy)
        size = _size_of(taken)
        figures += [
            Figure(figure=f"a decision of {policy}", value=size, unit="bytes"),
            Figure(
                figure=f"an operator's month of {policy}, deciding every minute",
                value=size * MONTH / INTERVAL / 2**20,
                unit="MiB",
            ),
        ]
    with tempfile.TemporaryDirectory() as folder:
        figures.append(_measure_intervals(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        figures += _fill(Path(folder), taken)
    return figures


def _decide(policy: str) -> list[DecisionRecord]:
    """Return the decisions of some hours."""
    rng = np.random.default_rng(7)
    managers = {name: make_manager(name, policy) for name in NAMES}
    layout = make_layout(make_replicas(NAMES))
    taken = []
    for tick in range(TICKS):
        now = 1.7e9 + INTERVAL * tick
        replicas = make_replicas(NAMES, started=now - 3600.0)
        rate = 60.0 + 40.0 * math.sin(tick / 40.0) + 5.0 * rng.normal()
        load = Load(rate=rate, busy=rate / 250.0, service_mean=0.01, service_scv=1.2, age=0.05)
        loads = {name: replace(load, busy=load.busy * rng.uniform(0.9, 1.1)) for name in NAMES}
        measured = measure(
            a_window(layout, loads, start=now - INTERVAL, end=now, period=5.0), layout
        )
        for place, name in enumerate(NAMES):
            observation = managers[name].observe(
                measured,
                replicas[name],
                deployment=Deployment((1, 1, 1)),
                budget=0.05 + 0.01 * rng.random(),
                first=place == 0,
            )
            taken.append(
                DecisionRecord(
                    id=f"{tick:012x}-{name}",
                    time=now,
                    operator=name,
                    policy=policy,
                    observation=observation,
                    decision=managers[name].propose(observation).decision,
                    verdict="Denied: the restart budget is used up",
                    change=None,
                )
            )
    return taken


def _size_of(taken: list[DecisionRecord]) -> float:
    """Return the bytes of a file per decision in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.sqlite"
        store = RecordStore(path)
        for begin in range(0, len(taken), OPERATORS):
            store.write(taken[begin : begin + OPERATORS])
        store.close()
        return path.stat().st_size / len(taken)


def _measure_intervals(folder: Path) -> Figure:
    """Return what the measured intervals take that are kept for fits."""
    rng = np.random.default_rng(5)
    store = RecordStore(folder / "records.sqlite")
    for number in range(MOST_INTERVALS):
        services = tuple(
            ServiceMeasurement(
                node_type=each.name,
                records=int(rng.integers(1000)),
                mean=0.01 * rng.random(),
                variance=1e-4 * rng.random(),
            )
            for each in TYPES
        )
        operator = OperatorSample(
            deployment={each.name: 1 for each in TYPES},
            arrived=100 * rng.random(),
            taken=100 * rng.random(),
            given=100 * rng.random(),
            services=services,
            response_time=rng.random(),
            utilisation=tuple(rng.random(len(TYPES))),
        )
        store.note_interval(
            IntervalSample(
                time=INTERVAL * number,
                seconds=INTERVAL,
                operators=dict.fromkeys(NAMES, operator),
                response_time=rng.random(),
            )
        )
    store.close()
    return Figure(
        figure=f"the measured intervals of {OPERATORS} operators, 8 days of minutes",
        value=_bytes_in(folder) / 2**20,
        unit="MiB",
    )


def _fill(folder: Path, taken: list[DecisionRecord]) -> list[Figure]:
    """Write several times what the file may hold."""
    store = RecordStore(folder / "records.sqlite")
    size = _size_of(taken)
    ticks = int(TIMES_FULL * MAX_BYTES / size / OPERATORS)
    largest, spent = 0, []
    for tick in range(ticks):
        begin = OPERATORS * (tick % TICKS)
        now = 1.7e9 + 20.0 * tick  # a month is not over before the file is full
        given = [
            replace(each, id=f"{tick:012x}-{each.operator}", time=now)
            for each in taken[begin : begin + OPERATORS]
        ]
        began = time.process_time()
        store.write(given)
        spent.append(time.process_time() - began)
        if tick % 1000 == 0:
            largest = max(largest, _bytes_in(folder))
    store.close()
    return [
        at_most(
            figure="the records of a StreamApp, however much is written",
            value=max(largest, _bytes_in(folder)) / 2**20,
            unit="MiB",
            limit=MAX_BYTES / 2**20 + 4,
        ),
        Figure(figure="CPU time of a write", value=1000 * statistics.median(spent), unit="ms"),
        Figure(figure="of the longest, with what must go", value=1000 * max(spent), unit="ms"),
    ]


def _bytes_in(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.iterdir())
