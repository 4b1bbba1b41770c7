"""The result of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weir_policies.model.dataflow import Dataflow
from weir_policies.policy import OperatorModel
from weir_simulator.fitting.flow import PassageNoise
from weir_simulator.fitting.service import Noise
from weir_simulator.fitting.structure import Structure


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A job as the samples show it; the rest is as specified."""

    structure: Structure
    models: Mapping[str, OperatorModel]
    """The scaled operators by name; their mean is over records, which is what is measured."""
    dataflow: Dataflow
    """The graph with fitted selectivities; an edge on which nothing was seen keeps its own."""
    speedups: Mapping[str, float]
    """By node type, for every one."""
    unmodelled_latency: float
    """Seconds from source to sink that are spent at none of the scaled operators."""
    downtime: float
    """Seconds without output of a change that restarts the job."""
    provisioning: float
    """Seconds until added replicas are there."""
    services: Mapping[tuple[str, str], float]
    """Measured seconds per record, by operator and node type; those that were not seen together
    have none."""
    noise: Noise
    """Of the service times from interval to interval."""
    passage_noises: Mapping[tuple[str, str], PassageNoise]
    """Of what passes an edge from interval to interval, as far as it is known."""
