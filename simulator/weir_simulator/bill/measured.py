"""From a job's history in metrics to what a bill is made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir_policies.model.node_types import NodeType
from weir_policies.policy import OperatorModel
from weir_simulator.bill.bill import Measured
from weir_simulator.bill.job import JobHistory, sample_job
from weir_simulator.fitting.structure import Structure

MAX_REPLICAS = 10
"""Replicas that an operator may have if its vertex never had half as many subtasks."""
KEY_GROUPS = 128
"""Flink's max parallelism while nobody sets it."""


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
    sampled = sample_job(history, today.name)
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
        if each.name in sampled.fixed
    }
    notes = [
        f"{name} {reason}: it keeps its {fixed[name]} replicas"
        for name, reason in sampled.fixed.items()
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
        samples=sampled.samples,
        structure=Structure(
            operators=operators,
            edges=history.edges.pairs,
            given=frozenset(each.name for each in node_types),
            fixed=frozenset(sampled.fixed),
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
