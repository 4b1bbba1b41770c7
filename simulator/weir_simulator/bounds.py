"""Floors and limits on cost of an experiment, slot by slot, as the controller keeps them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from weir_policies.application_manager.cost_cap import share_cap
from weir_policies.model.arrays import Counts
from weir_policies.policy import OperatorModel
from weir_simulator.experiment import Experiment
from weir_simulator.schedules import find_last_period
from weir_simulator.state import Bounds

_BEGIN = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
"""Slot 0, a Monday."""


def find_bounds(
    experiment: Experiment,
    slots: int,
    models: Sequence[OperatorModel],
    budgets: Mapping[str, float],
) -> Bounds:
    """Return what must be kept.

    Args:
        experiment: What is run.
        slots: Its length.
        models: The operators, with service times as they are measured.
        budgets: Seconds of mean response time granted to each.
    """
    floors = find_floors(experiment, slots)
    prices = np.full(floors.shape, np.inf)
    money, flow = experiment.objective.max_cost_per_hour, experiment.dataflow
    if money is not None:
        kinds, kind_of_slot = np.unique(floors, axis=0, return_inverse=True)
        names = [model.name for model in models]
        for kind, row in enumerate(kinds.tolist()):
            shares = share_cap(
                dict(zip(names, models, strict=True)),
                budgets=budgets,
                rates=flow.spread_rates(dict.fromkeys(flow.sources, 1.0)),
                floors=dict(zip(names, row, strict=True)),
                money=money,
            )
            prices[kind_of_slot.reshape(-1) == kind] = [shares.prices[name] for name in names]
    return Bounds(floors, prices)


def find_floors(experiment: Experiment, slots: int) -> Counts:
    """Return the replicas that each operator must have, as decided in each slot, `(slots, o)`.

    What is decided in a slot is in force from the next one on, or when replicas are provisioned: a
    floor begins so many slots earlier, and again as many, as another change may have just begun.
    """
    rows = {each.name: row for row, each in enumerate(experiment.operators)}
    floors = np.ones((slots, len(rows)), dtype=np.int64)
    floors[:] = [each.min_replicas for each in experiment.operators]
    slot = experiment.slot
    ahead = 1 + 2 * math.ceil(experiment.world.provisioning_delay / slot)
    for window in experiment.windows:
        until = _BEGIN + (slots + ahead) * slot
        period = find_last_period(window.schedule, window.time_zone, window.duration, until)
        while period is not None and period.end > _BEGIN:
            first = max(math.floor((period.begin - _BEGIN) / slot) - ahead, 0)
            # In the last slot before its end, the next one is decided, which is free again.
            last = min(math.ceil((period.end - _BEGIN) / slot) - 1, slots)
            for name, floor in window.min_replicas.items():
                held = floors[first:last, rows[name]]
                np.maximum(held, floor, out=held)
            period = find_last_period(
                window.schedule, window.time_zone, window.duration, period.begin - 1
            )
    return floors
