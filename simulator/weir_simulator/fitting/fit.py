"""Fits a simulator to samples, and measures how good the fit is.

    clean -> hold hours out -> calibrate -> predict the held-out hours -> calibrate with all

Pure. The fit that is used was made from all hours; the one that is judged was not.

A bad fit is a value, with a sentence that says why. `to_experiment` refuses it, because a tuning in
a simulator that does not describe the job would be worse than no tuning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from weir_policies.policy import Aggregation, ChangeKind, CostWeights, OperatorModel
from weir_simulator.errors import FitError
from weir_simulator.experiment import Experiment, Objective, PolicyChoice
from weir_simulator.fitting.calibrated import Calibration
from weir_simulator.fitting.cleaning import clean
from weir_simulator.fitting.description import common_rates, contract, describe_experiment
from weir_simulator.fitting.flow import ArrivalTrace, fit_flow, trace_arrivals
from weir_simulator.fitting.quality import Quality, judge_fit, split_blocks
from weir_simulator.fitting.samples import ChangeSample, IntervalSample, Samples
from weir_simulator.fitting.service import fit_services, fit_sharing
from weir_simulator.fitting.structure import Structure
from weir_simulator.fitting.waiting import fit_unmodelled_latency, fit_waiting
from weir_simulator.traces import Trace

UNMEASURED_DOWNTIME = 2.0
"""Seconds without output of a restart, while none was measured. `make bench NAME=rescale` had 0.7
to 2.5 s, `NAME=rescale-cluster` 1.4 to 2.3 s; with 0, a tuning would take restarts for free."""
UNMEASURED_PROVISIONING = 5.0
"""Seconds until added replicas are there, while none was added. `make bench NAME=rescale` had 1.6
to 3.1 s, `NAME=rescale-cluster` about 6 s."""
LEAST_INTERVALS = 30
"""Undisturbed intervals below which there is no fit: half an hour of minutes."""


class TooFewSamplesError(FitError):
    """Too little was measured so far."""


class BadFitError(FitError):
    """A fit that predicts badly was asked for an experiment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """A calibrated job, and how far to trust it."""

    calibration: Calibration
    quality: Quality
    arrivals: Mapping[str, ArrivalTrace]
    """At the operators that records reach first, by name."""
    slot: float
    """Seconds of one slot of the arrivals."""

    @property
    def models(self) -> Mapping[str, OperatorModel]:
        """The scaled operators as they were fitted, by name."""
        return self.calibration.models

    def to_experiment(
        self,
        *,
        objective: Objective,
        trace: Path,
        weights: CostWeights | None = None,
        policy: PolicyChoice | None = None,
    ) -> Experiment:
        """Return the job as an experiment, ready to be simulated and tuned.

        Args:
            objective: Its sinks are those of the job.
            trace: Where `rates` were written with `write_trace`; it is not opened here.
            weights: `None` is the experiment's default.
            policy: `None` is the experiment's default.

        Raises:
            BadFitError: The fit is not good.
            FitError: The simulator cannot have such a job.
        """
        if not self.quality.good:
            raise BadFitError(self.quality.sentence)
        return describe_experiment(
            self.calibration,
            objective=objective,
            trace=trace,
            rates=self.rates,
            slot=self.slot,
            weights=weights or CostWeights(),
            policy=policy or PolicyChoice(name="planner"),
        )

    @property
    def begin(self) -> float:
        """Unix seconds at which the rates begin."""
        return min(trace.begin for trace in self.arrivals.values())

    @property
    def rates(self) -> Trace:
        """Records/s slot by slot at the first operators, as `to_experiment` wants them written.

        Raises:
            FitError: They differ from one first operator to another.
        """
        return common_rates({name: trace.rates for name, trace in self.arrivals.items()})


def fit(
    samples: Samples,
    structure: Structure,
    *,
    slot: float,
) -> Fit:
    """Fit a job to what was measured of it.

    Args:
        samples: Of one job whose work has not changed meanwhile (see `drift`).
        structure: The job as specified.
        slot: Seconds between two decisions in the experiment.

    Raises:
        TooFewSamplesError: There are fewer intervals, or an operator was hardly measured.
        FitError: The simulator cannot have such a job.
    """
    cleaned = clean(samples, structure)
    intervals = cleaned.intervals
    undisturbed = sum(not interval.disturbed for interval in intervals)
    if undisturbed < LEAST_INTERVALS:
        raise TooFewSamplesError(
            f"Expected at least {LEAST_INTERVALS} undisturbed intervals for a fit, "
            f"got {undisturbed}; wait for more"
        )
    fitted, held_out, block = split_blocks(intervals)
    judged = calibrate(fitted, (), structure)
    quality = judge_fit(judged, held_out, block=block)
    sources = contract(structure.dataflow, structure.fixed).sources
    arrivals = {name: trace_arrivals(intervals, name, slot=slot) for name in sources}
    if unknown := sorted(name for name, trace in arrivals.items() if trace is None):
        raise TooFewSamplesError(
            f"Expected a rate of arrivals at {unknown}, got none; wait for one"
        )
    return Fit(
        calibration=calibrate(intervals, cleaned.changes, structure),
        quality=quality,
        arrivals={name: trace for name, trace in arrivals.items() if trace is not None},
        slot=slot,
    )


def calibrate(
    intervals: Sequence[IntervalSample], changes: Sequence[ChangeSample], structure: Structure
) -> Calibration:
    """Return what clean intervals and changes say, without a judgement.

    Raises:
        TooFewSamplesError: A scaled operator has no service time, neither measured nor specified.
    """
    calm = [interval for interval in intervals if not interval.disturbed]
    services = fit_services(calm, structure)
    models: dict[str, OperatorModel] = {}
    for specified in structure.operators:
        name = specified.name
        if name in structure.fixed:
            continue
        mean = services.means.get(name, specified.service_mean)
        if not mean > 0:
            raise TooFewSamplesError(
                f"Expected the service time of {name!r} from at least 100 records on a node type, "
                "got fewer; wait for more, or add the helper to the job"
            )
        # Without any, that of an exponential law.
        assumed_scv = 1.0 if math.isnan(specified.service_scv) else specified.service_scv
        model = replace(
            specified,
            service_mean=mean,
            service_scv=services.scvs.get(name, assumed_scv),
            node_types=tuple(
                replace(each, speedup=services.speedups[each.name]) for each in specified.node_types
            ),
            aggregation=Aggregation.AVERAGE,
        )
        models[name] = fit_waiting(calm, replace(model, sharing=fit_sharing(calm, model)))
    restarts = [change for change in changes if change.kind is ChangeKind.RESCALE]
    dataflow, noises = fit_flow(calm, structure.dataflow)
    return Calibration(
        structure=structure,
        models=models,
        dataflow=dataflow,
        speedups=services.speedups,
        unmodelled_latency=fit_unmodelled_latency(calm, structure.dataflow, models),
        downtime=_mean_of([change.downtime for change in restarts], UNMEASURED_DOWNTIME),
        provisioning=_mean_of([change.provisioning for change in changes], UNMEASURED_PROVISIONING),
        services=services.measured,
        noise=services.noise,
        passage_noises=noises,
    )


def _mean_of(seconds: Sequence[float], unmeasured: float) -> float:
    known = [each for each in seconds if not math.isnan(each)]
    return float(np.mean(known)) if known else unmeasured
