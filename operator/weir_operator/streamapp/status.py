"""The status of a StreamApp on Kubernetes.

Numbers for people are texts with their unit (`RATE` 120/s), because `kubectl get` shows them
unchanged. The parts with which Weir resumes after a crash have no schema.

Every text and list has a maximum length, so that a status never exceeds the limits of etcd and
kopf; use `shorten` for longer texts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

from pydantic import Field
from pydantic.types import JsonValue

from weir_operator.streamapp.section import LONGEST_NAME, Deployment, map_list_by
from weir_simulator.validation import Section

LONGEST_ID: Final = LONGEST_NAME + 17
"""Characters of a decision's id, which is that of its tick and the operator's name."""
MOST_OPERATORS: Final = 100
"""Operators in a status; an external job may have more."""
LONGEST_TEXT: Final = 1024
"""Characters of a sentence in a status, as in an event."""


class Condition(Section):
    """One aspect of the state, with every field of a Kubernetes condition."""

    type: str = Field(min_length=1, max_length=64)
    """Aspect: Ready, Deciding, MetricsHealthy, ModelFitted, Tuned, ObjectiveMet, CostCapped,
    Skewed, Progressing, Paused, Degraded, WithinLimits or RecordsKept."""

    status: Literal["True", "False", "Unknown"]
    """Whether it is true."""

    reason: str = Field(
        min_length=1,
        max_length=256,
        json_schema_extra={"pattern": "^[A-Z][A-Za-z0-9]*$"},
    )
    """Why, in one CamelCase word; never empty."""

    message: str = Field(max_length=LONGEST_TEXT)
    """Why, in a sentence."""

    last_transition_time: str = Field(max_length=40)
    """When `status` last changed. Format: RFC 3339."""

    observed_generation: int | None = Field(default=None, ge=0)
    """Generation of the spec that the condition describes. If unset, it is not known."""


class Outcome(StrEnum):
    """What happened to a decision."""

    STAYED = "Stayed"
    GRANTED = "Granted"
    DENIED = "Denied"
    HELD = "Held"
    ADVISED = "Advised"


class DecisionStatus(Section):
    """A decision of an Operator Manager and its outcome."""

    id: str = Field(max_length=LONGEST_ID)
    """Id of the decision record, which `weir explain` shows."""

    time: str = Field(max_length=40)
    """When the policy decided. Format: RFC 3339."""

    outcome: Outcome
    """What happened to it: the policy kept the deployment; its proposal was granted or denied; bad
    data, a pause or a blocked period held it back; or it was only advice. Format: `Stayed`,
    `Granted`, `Denied`, `Held` or `Advised`."""

    message: str = Field(max_length=LONGEST_TEXT)
    """Why, in a sentence."""


class OperatorStatus(Section):
    """The state of one operator."""

    name: str = Field(max_length=LONGEST_NAME)
    """Name of the operator."""

    replicas: int | None = Field(default=None, ge=0)
    """Replicas in all pools. If unset, it does not run."""

    deployment: Deployment | None = Field(default=None, max_length=128)
    """Current replicas per `pool/size`. If unset, it does not run."""

    target: Deployment | None = Field(default=None, max_length=128)
    """Replicas per `pool/size` that the last decision proposed. If unset, there was no decision
    yet."""

    rate: str | None = Field(default=None, max_length=64)
    """Records that arrive per second, such as 120/s. If unset, it is not known."""

    response_time: str | None = Field(default=None, max_length=64)
    """Mean time in the operator, waiting plus service, such as 45ms. If unset, it is not known."""

    budget: str | None = Field(default=None, max_length=64)
    """Part of the objective's bound that this operator may use, such as 60ms. If unset, the
    Application Manager has not assigned one yet."""

    policy: str | None = Field(default=None, max_length=LONGEST_NAME)
    """Policy that decides. If unset, the operator is fixed."""

    decision: DecisionStatus | None = None
    """The last decision. If unset, there was none yet."""


class TuningStatus(Section):
    """The weights of the Operator Managers; their budgets are in `operators`."""

    version: int = Field(ge=0)
    """Number of the current tuning, as in `weir explain`; 0 if there was none."""

    since: str | None = Field(default=None, max_length=40)
    """When it was applied. If unset, there was no tuning. Format: RFC 3339."""

    violations: str = Field(max_length=64)
    """Weight of violations of the objective, such as 0.6."""

    resources: str = Field(max_length=64)
    """Weight of the cost of replicas, such as 0.2."""

    reconfigurations: str = Field(max_length=64)
    """Weight of restarts, such as 0.2."""

    message: str | None = Field(default=None, max_length=LONGEST_TEXT)
    """The simulator's forecast for it, in a sentence. If unset, there was no tuning."""


class StreamAppStatus(Section):
    """The state of the job, and what Weir did last."""

    observed_generation: int | None = Field(default=None, ge=0)
    """Generation of the spec that this status describes. If unset, Weir has not read any."""

    conditions: tuple[Condition, ...] = Field(
        default=(), max_length=16, json_schema_extra=map_list_by("type")
    )
    """Aspects of the state. If unset, nothing is known."""

    replicas: int | None = Field(default=None, ge=0)
    """Replicas of all operators. If unset, the job does not run."""

    rate: str | None = Field(default=None, max_length=64)
    """Records that enter the job per second. If unset, it is not known."""

    response_time: str | None = Field(default=None, max_length=64)
    """Response time over the last interval, in the objective's statistic. If unset, it is not
    known."""

    objective: str | None = Field(default=None, max_length=64)
    """The bound with its statistic, such as `200ms mean`. If unset, Weir has not read any."""

    cost_per_hour: str | None = Field(default=None, max_length=64)
    """Cost of the deployment per hour, with the JobManager. If unset, the job does not run."""

    last_action: str | None = Field(default=None, max_length=LONGEST_TEXT)
    """The last change and how long it took, such as `Rescaled match 2 -> 3 in 12 s`; conditions and
    events give the reason. If unset, there was none."""

    restarts_last_day: int | None = Field(default=None, ge=0)
    """Restarts that scaling caused in the last 24 hours. If unset, the job never started."""

    window: str | None = Field(default=None, max_length=LONGEST_NAME)
    """Name of the current blocked period. If unset, there is none."""

    advice: str | None = Field(default=None, max_length=LONGEST_TEXT)
    """In mode Advise: what following the decisions would have cost so far, or when Weir will know;
    after a day, how much it would have saved per day and with how many restarts. If unset, there
    was no measurement yet, or the mode is not Advise."""

    tuning: TuningStatus | None = None
    """The current tuning. If unset, there is no tuner."""

    operators: tuple[OperatorStatus, ...] = Field(
        default=(), max_length=MOST_OPERATORS, json_schema_extra=map_list_by("name")
    )
    """The state of each operator, at most the first 100. If unset, it is not known."""

    rescale: str | None = None
    """Journal of the current or the last change. If unset, there was none. Format: one line of
    JSON."""

    controller: dict[str, JsonValue] | None = None
    """What Weir needs to resume after a crash: job, savepoints, failed deployments, budget. If
    unset, the job never started."""


def shorten(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return `text`, cut at `longest` characters where it is longer."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
