"""Describes a calibrated job as an experiment of the simulator.

Operators that are never scaled are left out: their time is added to the network time of the first
operators, and edges through them are joined. The simulator gives the same trace to every operator
that records reach first; a job that differs is refused.

The experiment judges the mean over records, which is what is measured of a real job.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.node_types import NodeType
from weir_policies.policy import Aggregation, CostWeights, OperatorModel, Sharing
from weir_simulator import experiment
from weir_simulator.errors import FitError
from weir_simulator.experiment import Experiment, Objective, PathBound, PolicyChoice
from weir_simulator.fitting.calibrated import Calibration
from weir_simulator.fitting.structure import Structure
from weir_simulator.traces import Trace

UNEQUAL = 0.05
"""Relative difference of two rates that are still taken for the same."""


def describe_experiment(
    calibration: Calibration,
    *,
    objective: Objective,
    trace: Path,
    rates: Trace,
    slot: float,
    weights: CostWeights,
    policy: PolicyChoice,
) -> Experiment:
    """Return the experiment.

    Args:
        calibration: What was fitted.
        objective: Its sinks are those of the job.
        trace: File of the rates.
        rates: Records/s, shape `(slots,)`; they tell how exactly a rate can be counted in a slot.
        slot: Seconds.
        weights: How much each part of the cost matters.
        policy: Which one scales.

    Raises:
        FitError: No operator is scaled, or one gets records both from a scaled operator and
            directly from a source.
    """
    structure = calibration.structure
    graph = contract(calibration.dataflow, structure.fixed)
    types = _join_types([structure.models[name] for name in graph.operators])
    models = calibration.models
    operators = tuple(
        experiment.Operator(
            name=name,
            service_rate=1 / models[name].service_mean,
            scv=models[name].service_scv,
            max_replicas=models[name].max_replicas,
            keyed=models[name].keyed,
            sharing=models[name].sharing,
            aggregation=Aggregation.AVERAGE,
            key_groups=models[name].key_groups,
            keys=_describe_keys(models[name]),
            arrival_scv=models[name].arrival_scv,
            network_time=models[name].network_time
            + (calibration.unmodelled_latency if name in graph.sources else 0.0),
            pools=_limit_pools(models[name], types),
        )
        for name in graph.operators
    )
    pools = [node_type.pool for node_type in types]
    return Experiment(
        operators=operators,
        edges=tuple(
            experiment.Edge.model_validate(
                {"from": edge.source, "to": edge.target, "selectivity": edge.selectivity}
            )
            for edge in graph.edges
        ),
        node_types=tuple(
            experiment.NodeType(
                name=each.name,
                speedup=calibration.speedups[each.name],
                price=each.price,
                pool=each.pool,
                pool_limit=each.pool_limit,
            )
            for each in types
        ),
        objective=objective.model_copy(
            update={"paths": _end_at_scaled(objective.paths, structure, graph.operators)}
        ),
        weights=weights,
        trace=experiment.TraceSource(file=trace),
        policy=policy,
        slot=slot,
        world=experiment.World(
            resizes=len(set(pools)) < len(pools),
            provisioning_delay=calibration.provisioning,
            downtime=calibration.downtime,
            queues=True,
            noise=_counting_noise(rates, slot),
        ),
    )


def _describe_keys(model: OperatorModel) -> experiment.Keys | None:
    """Return how uneven an operator's keys are, to four digits; `None` where they are even."""
    dealt = model.keyed and model.key_groups is not None and model.sharing is Sharing.EQUAL
    if not (dealt and model.fullest):
        return None
    return experiment.Keys(fullest=tuple(float(f"{each:.4g}") for each in model.fullest))


def _end_at_scaled(
    paths: Sequence[PathBound], structure: Structure, scaled: Sequence[str]
) -> tuple[PathBound, ...]:
    """Return the bounds of single sinks at the last scaled operators before them.

    What a record spends at the others is part of the time at the first ones.
    """
    dataflow, ends = structure.dataflow, dict[str, dict[str, None]]()
    for name in dataflow.order:
        ends[name] = {name: None} if name in scaled else {}
        for edge in dataflow.into(name) if name not in scaled else ():
            ends[name] |= ends[edge.source]
    return tuple(
        path.model_copy(update={"sink": end}) for path in paths for end in ends.get(path.sink, {})
    )


def contract(dataflow: Dataflow, fixed: Collection[str]) -> Dataflow:
    """Return the graph of the operators that are not fixed, edges through the others joined.

    Raises:
        FitError: No operator is scaled, or one gets records both from a scaled operator and
            directly from a source.
    """
    scaled = tuple(name for name in dataflow.operators if name not in fixed)
    if not scaled:
        raise FitError("Expected an operator that Weir scales, got only fixed ones; scale one")
    # How many records reach an operator per record of a scaled one: through fixed ones only.
    reaching: dict[str, dict[str, float]] = {}
    direct: set[str] = set()  # get records from a source without passing a scaled operator
    for name in dataflow.order:
        feeding = dataflow.into(name)
        reaching[name] = {}
        if not feeding:
            direct.add(name)
        for edge in feeding:
            passed = edge.selectivity
            if edge.source in scaled:
                reaching[name][edge.source] = reaching[name].get(edge.source, 0.0) + passed
                continue
            for origin, share in reaching[edge.source].items():
                reaching[name][origin] = reaching[name].get(origin, 0.0) + share * passed
            if edge.source in direct:
                direct.add(name)
    mixed = [name for name in scaled if name in direct and reaching[name]]
    if mixed:
        raise FitError(
            f"Expected {mixed[0]!r} to get records either from scaled operators or "
            "from a source, got both, which the simulator does not support: remove "
            "`fixed` from the operator in between in spec.operators"
        )
    return Dataflow(
        operators=scaled,
        edges=tuple(
            Edge(source=origin, target=name, selectivity=share)
            for name in scaled
            for origin, share in reaching[name].items()
        ),
    )


def common_rates(traces: Mapping[str, Trace]) -> Trace:
    """Return the trace that is the same at every first operator.

    Raises:
        FitError: They are not the same.
    """
    means = {name: float(trace.mean()) for name, trace in traces.items()}
    if max(means.values()) - min(means.values()) > UNEQUAL * max(means.values()):
        listed = ", ".join(f"{name}: {mean:.3g}/s" for name, mean in means.items())
        raise FitError(
            "Expected equal rates at all operators that records reach first, got "
            f"{listed}; the simulator gives them one trace: pin them to one slot "
            "sharing group, so that they are one of spec.operators, or remove "
            "`fixed` from the operator that feeds them all"
        )
    return next(iter(traces.values()))


def _join_types(models: Sequence[OperatorModel]) -> tuple[NodeType, ...]:
    """Return the node types of all operators, in the order of those that have most.

    Where one operator may run on all of them, that is the order of the manifest.
    """
    listed = sorted((model.node_types for model in models), key=len, reverse=True)
    return tuple(dict.fromkeys(itertools.chain.from_iterable(listed)))


def _limit_pools(model: OperatorModel, types: Sequence[NodeType]) -> tuple[str, ...] | None:
    """Return the pools of an operator that may not run on all node types; else `None`."""
    if len(model.node_types) == len(types):
        return None
    return tuple(dict.fromkeys(each.pool for each in model.node_types))


def _counting_noise(rates: Sequence[float] | Trace, slot: float) -> float:
    """Return the relative error of a rate that is counted for one slot, if arrivals are Poisson."""
    records = float(sum(rates)) / len(rates) * slot
    return 1 / math.sqrt(records) if records > 1 else 1.0
