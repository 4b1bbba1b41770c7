"""The result of a fit: every number with its interval, and the models of the operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weir_policies.model.dataflow import Dataflow
from weir_policies.policy import Aggregation, OperatorModel, Sharing
from weir_simulator.fitting.estimate import Estimate
from weir_simulator.fitting.flow import PassageNoise, with_selectivities
from weir_simulator.fitting.service import Noise
from weir_simulator.fitting.structure import Structure


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorFit:
    """One operator."""

    service_mean: Estimate
    """Seconds per record at speedup 1."""
    service_scv: Estimate
    """Squared coefficient of variation of the service time."""
    arrival_scv: Estimate
    """The same of the times between arrivals at the operator as a whole."""
    network_time: Estimate
    """Seconds per record in buffers and on the wire before it."""
    sharing: Sharing


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A job as the samples show it; the rest is as specified."""

    structure: Structure
    operators: Mapping[str, OperatorFit]
    """By name; those that are never scaled are not in it."""
    selectivities: Mapping[tuple[str, str], Estimate]
    """Records on an edge per record that its first operator takes in, for every edge."""
    speedups: Mapping[str, Estimate]
    """By node type, for every one."""
    unmodelled_latency: Estimate
    """Seconds from source to sink that are spent at none of the scaled operators."""
    downtime: Estimate
    """Seconds without output of a change that restarts the job."""
    provisioning: Estimate
    """Seconds until added replicas are there."""
    services: Mapping[tuple[str, str], float]
    """Measured seconds per record, by operator and node type; those that were not seen together
    have none."""
    noise: Noise
    """Of the service times from interval to interval."""
    passage_noises: Mapping[tuple[str, str], PassageNoise]
    """Of what passes an edge from interval to interval, as far as it is known."""

    @property
    def dataflow(self) -> Dataflow:
        """The graph with fitted selectivities."""
        return with_selectivities(self.structure.dataflow, self.selectivities)

    @property
    def models(self) -> Mapping[str, OperatorModel]:
        """The scaled operators by name; their mean is over records, which is what is measured."""
        return {
            name: replace(
                self.structure.models[name],
                node_types=tuple(
                    replace(each, speedup=self.speedups[each.name].value)
                    for each in self.structure.models[name].node_types
                ),
                service_mean=fitted.service_mean.value,
                service_scv=fitted.service_scv.value,
                arrival_scv=fitted.arrival_scv.value,
                network_time=fitted.network_time.value,
                sharing=fitted.sharing,
                aggregation=Aggregation.AVERAGE,
            )
            for name, fitted in self.operators.items()
        }
