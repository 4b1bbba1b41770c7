"""A StreamApp as it ran, out of Weir's own records of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weir_operator.errors import PermanentError
from weir_operator.tuning.samples import read_samples
from weir_policies.policy import ChangeKind
from weir_simulator.bill.measured import Measured
from weir_simulator.experiment import Experiment
from weir_simulator.fitting.refit import structure_of
from weir_simulator.fitting.samples import IntervalSample


def measure_streamapp(
    name: str, records: Path, experiment: Experiment, *, since: float, until: float
) -> Measured:
    """Return a StreamApp as it ran between two Unix times, out of the file of its records.

    Its response times are measured; the experiment says what its operators are, and what node types
    cost.

    Raises:
        PermanentError: The records cannot be read, or have no interval in that time.
    """
    samples = read_samples(records, since=since)
    intervals = tuple(each for each in samples.intervals if each.time <= until)
    if not intervals:
        raise PermanentError(
            f"Expected measured intervals of {name} between --start and --end, got none; "
            "choose an earlier time"
        )
    prices = {each.name: each.price for each in experiment.node_types}
    known = {each.name for each in experiment.operators}

    def total(interval: IntervalSample, *, paid: bool) -> float:
        scaled = [each for own, each in interval.operators.items() if own in known]
        if len(scaled) < len(known):
            return np.nan
        return sum(
            count * (prices.get(kind, np.nan) if paid else 1)
            for each in scaled
            for kind, count in each.deployment.items()
        )

    changes = [
        each
        for each in samples.changes
        if each.kind is ChangeKind.RESCALE and intervals[0].time < each.time <= until
    ]
    return Measured(
        name=name,
        samples=type(samples)(intervals=intervals, changes=samples.changes),
        structure=structure_of(experiment),
        slot=experiment.slot,
        times=np.array([each.time for each in intervals]),
        cost=np.array([total(each, paid=True) for each in intervals]),
        replicas=np.array([total(each, paid=False) for each in intervals]),
        response=np.array([each.response_time for each in intervals]),
        late=np.zeros(len(intervals), dtype=bool),
        waiting=np.zeros(len(intervals)),
        restarts=len(changes),
        notes=("Operators that are never scaled, and the JobManager, are left out of the cost",),
    )
