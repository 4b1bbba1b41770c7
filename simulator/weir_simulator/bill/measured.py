"""From a history in metrics to what a bill is made of: samples of a fit, and what was paid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir_policies.model.arrays import Floats
from weir_policies.model.estimation import ENOUGH_RECORDS, ServiceMeasurement
from weir_policies.model.node_types import NodeType
from weir_policies.policy import OperatorModel
from weir_simulator.bill.job import Flags, JobHistory, Vertex
from weir_simulator.fitting.samples import IntervalSample, OperatorSample, Samples
from weir_simulator.fitting.structure import Structure

MAX_REPLICAS = 10
"""Replicas that an operator may have if its vertex never had half as many subtasks."""
KEY_GROUPS = 128
"""Flink's max parallelism while nobody sets it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A job as it ran; arrays have one entry per slot, and NaN where nothing is known."""

    name: str
    samples: Samples
    structure: Structure
    slot: float
    times: Floats
    """Unix seconds at which the slots end."""
    cost: Floats
    """Currency per hour."""
    replicas: Floats
    """TaskManagers."""
    response: Floats
    """Seconds from source to sink as they were measured."""
    late: Flags
    """Slots that a restart stopped, or in which records waited uncounted in front of a source."""
    waiting: Floats
    """Seconds for which records waited in front of the sources."""
    restarts: int
    crowding: float = 0.0
    """Busy seconds of all tasks per second of a slot; 0 where that is not known."""
    fixed_cost: float = 0.0
    """Currency per hour, under any policy, of what cannot be simulated."""
    notes: tuple[str, ...] = ()


def measure_job(
    history: JobHistory, node_types: Sequence[NodeType], *, task_manager: float
) -> Measured:
    """Return a job as it ran, as its metrics say.

    Args:
        history: Of the job.
        node_types: What its operators may run on; what its subtasks ran on comes first.
        task_manager: What one of its TaskManagers cost, currency per hour.
    """
    today = node_types[0]
    samples, unfitted = sample_job(history, today.name)
    sources = {each.name for each in history.sources}
    operators = tuple(
        OperatorModel(
            name=each.name,
            node_types=tuple(node_types),
            max_replicas=min(
                max(MAX_REPLICAS, 2 * int(each.parallelism.max())),
                max(KEY_GROUPS, int(each.parallelism.max())),
            ),
            service_mean=float("nan"),
            service_scv=float("nan"),
            keyed=each.name not in sources,
        )
        for each in history.vertices
    )
    fixed = {
        each.name: int(each.parallelism[each.parallelism > 0][-1])
        for each in history.vertices
        if each.name in unfitted
    }
    notes = [
        f"{name} {reason}: it keeps its {fixed[name]} replicas" for name, reason in unfitted.items()
    ]
    waiting = np.zeros(history.task_managers.size)
    for each in history.sources:
        with np.errstate(divide="ignore", invalid="ignore"):
            waiting = np.fmax(waiting, np.where(each.taken > 0, each.pending / each.taken, 0.0))
    told = all(np.isfinite(each.pending).any() for each in history.sources)
    managers = np.where(history.task_managers > 0, history.task_managers, np.nan).astype(float)
    busy = sum(
        float(np.nanmean(each.busy)) for each in history.vertices if np.isfinite(each.busy).any()
    )
    return Measured(
        name=history.name,
        samples=samples,
        structure=Structure(
            operators=operators,
            edges=history.edges.pairs,
            given=frozenset(each.name for each in node_types),
            fixed=frozenset(unfitted),
        ),
        slot=history.slot,
        times=history.times,
        cost=managers * task_manager,
        replicas=managers,
        response=history.latency,
        late=history.stopped | (history.held_back & (not told)),
        waiting=waiting,
        restarts=len(history.restarts),
        crowding=busy / (float(np.nanmean(managers)) * history.slots_each),
        fixed_cost=sum(count * today.price for count in fixed.values()),
        notes=(*history.notes, *notes),
    )


def sample_job(history: JobHistory, node_type: str) -> tuple[Samples, Mapping[str, str]]:
    """Return the intervals of a history, whose replicas all ran on one node type, for a fit.

    Also the vertices that cannot be fitted, with the reason.
    """
    fixed: dict[str, str] = {}
    for each in history.vertices:
        records = float(np.nansum(each.taken) * history.slot)
        if not np.nansum(each.busy) > 0:
            fixed[each.name] = "reports no busy time"
        elif records < 2 * ENOUGH_RECORDS:
            fixed[each.name] = "took in hardly a record"
    disturbed = ~history.known
    disturbed[1:] |= history.stopped[:-1]
    disturbed |= history.stopped
    held_back = history.held_back
    sources = {each.name for each in history.sources}
    intervals = []
    columns = [
        (each.name, each, _arrivals(each, held_back, history.slot, is_source=each.name in sources))
        for each in history.vertices
    ]
    deployments: dict[int, Mapping[str, int]] = {}
    for row, end in enumerate(history.times.tolist()):
        operators = {}
        for name, vertex, arrived in columns:
            replicas = int(vertex.parallelism[row])
            taken = float(vertex.taken[row])
            if not vertex.complete[row] or not math.isfinite(taken):
                continue
            records, busy = taken * history.slot, float(vertex.busy[row])
            operators[name] = OperatorSample(
                deployment=deployments.setdefault(replicas, {node_type: replicas}),
                arrived=float(arrived[row]),
                taken=taken,
                given=float(vertex.given[row]) if taken > 0 else math.nan,
                services=(
                    ServiceMeasurement(
                        node_type=node_type,
                        records=records,
                        mean=busy * history.slot / records,
                        variance=math.nan,
                    ),
                )
                if records > 0 and busy > 0
                else (),
                utilisation=(float(vertex.busiest[row]),),
            )
        if operators:
            intervals.append(
                IntervalSample(
                    time=end,
                    seconds=history.slot,
                    operators=operators,
                    response_time=float(history.latency[row]) or math.nan,
                    disturbed=bool(disturbed[row]),
                )
            )
    return Samples(intervals=tuple(intervals)), fixed


def _arrivals(vertex: Vertex, held_back: Flags, slot: float, *, is_source: bool) -> Floats:
    """Return records/s that reached a vertex, or would have; NaN while that is not known."""
    grown = np.diff(vertex.pending, prepend=np.nan) / slot
    if is_source and np.isfinite(vertex.pending).any():
        return np.where(np.isfinite(grown), np.maximum(vertex.taken + grown, 0.0), vertex.taken)
    return np.where(held_back, np.nan, vertex.taken)
