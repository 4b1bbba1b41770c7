"""The status of a StreamApp on Kubernetes: what people and programs read of it.

Numbers for people are texts with their unit (`RATE` 120/s), because columns of `kubectl get` show
them as they are. What Weir itself needs to go on after a crash is kept as it writes it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic.types import JsonValue

from weir_operator.streamapp.section import Replicas, Section, map_list_by


class Condition(Section):
    """One aspect of the state, with every field of a Kubernetes condition."""

    type: str = Field(max_length=316)
    """Aspect: Ready, MetricsHealthy, ModelFitted, ObjectiveMet, Progressing, Paused or Degraded."""

    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""

    reason: str = Field(min_length=1, max_length=1024)
    """Why, in one CamelCase word; never empty."""

    message: str = Field(max_length=32768)
    """Why, in a sentence."""

    last_transition_time: str
    """When `status` last changed. Format: RFC 3339."""

    observed_generation: int | None = Field(default=None, ge=0)
    """Generation of the spec that was judged."""


class OperatorStatus(Section):
    """What is known of one operator."""

    name: str
    """Name of the operator."""

    deployment: Replicas | None = None
    """Replicas per `pool/size` that were applied, after the last guard."""

    rate: str | None = None
    """Records that arrive per second, such as 120/s."""

    response_time: str | None = None
    """Mean time in the operator, waiting and service, such as 45ms."""

    message: str | None = None
    """Why the last decision was taken."""


class StreamAppStatus(Section):
    """What Weir knows of the job, and what it did last."""

    observed_generation: int | None = Field(default=None, ge=0)
    """Generation of the spec that the rest speaks of."""

    conditions: tuple[Condition, ...] = Field(default=(), json_schema_extra=map_list_by("type"))
    """Aspects of the state."""

    replicas: int | None = Field(default=None, ge=0)
    """Replicas of all operators."""

    rate: str | None = None
    """Records that enter the job per second."""

    response_time: str | None = None
    """Response time over the last interval, in the objective's statistic."""

    objective: str | None = None
    """The bound with its statistic, such as `200ms mean`."""

    cost_per_hour: str | None = None
    """What the deployment costs per hour, JobManager included."""

    last_action: str | None = None
    """The last change with its reason, in a sentence."""

    operators: tuple[OperatorStatus, ...] = Field(default=(), json_schema_extra=map_list_by("name"))
    """What is known of each operator."""

    rescale: dict[str, JsonValue] | None = None
    """Journal of the change under way, or of the last one."""

    controller: dict[str, JsonValue] | None = None
    """What Weir needs to go on after a crash: job, savepoints, failed deployments, budget."""
