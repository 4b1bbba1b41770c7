"""The status of a StreamApp on Kubernetes: what people and programs read of it.

Numbers for people are texts with their unit (`RATE` 120/s), because columns of `kubectl get` show
them as they are. What Weir itself needs to go on after a crash is kept as it writes it.

Every text and list is bounded, so that a status never outgrows what etcd and kopf bear: whoever
writes one cuts a longer text with `shorten`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

from pydantic import Field
from pydantic.types import JsonValue

from weir_operator.streamapp.section import LONGEST_NAME, Replicas, Section, map_list_by

LONGEST_ID: Final = LONGEST_NAME + 17
"""Characters of a decision's id, which is that of its tick and the operator's name."""
MOST_OPERATORS: Final = 100
"""Operators in a status; a job that somebody else runs may have more."""
LONGEST_TEXT: Final = 1024
"""Characters of a sentence in a status, as in an event."""


class Condition(Section):
    """One aspect of the state, with every field of a Kubernetes condition."""

    type: str = Field(min_length=1, max_length=64)
    """Aspect: Ready, Deciding, MetricsHealthy, ModelFitted, Tuned, ObjectiveMet, Progressing,
    Paused, Degraded, RecordsKept or NetworkPolicyEnforced."""

    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""

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
    """Generation of the spec that was judged. If unset, it is not known."""


class Outcome(StrEnum):
    """What became of a decision."""

    STAYED = "Stayed"
    GRANTED = "Granted"
    DENIED = "Denied"
    HELD = "Held"
    ADVISED = "Advised"


class DecisionStatus(Section):
    """A decision of an Operator Manager and what became of it."""

    id: str = Field(max_length=LONGEST_ID)
    """Under which `weir explain` finds it with everything that was weighed."""

    time: str = Field(max_length=40)
    """When it was taken. Format: RFC 3339."""

    outcome: Outcome
    """What became of it: the policy stayed; its proposal was granted or denied; it was held back
    by bad data, a pause or a blocked period; or it was advice. Format: `Stayed`, `Granted`,
    `Denied`, `Held` or `Advised`."""

    message: str = Field(max_length=LONGEST_TEXT)
    """Why, in a sentence."""


class OperatorStatus(Section):
    """What is known of one operator."""

    name: str = Field(max_length=LONGEST_NAME)
    """Name of the operator."""

    replicas: int | None = Field(default=None, ge=0)
    """Replicas of all pools. If unset, it does not run."""

    deployment: Replicas | None = Field(default=None, max_length=128)
    """Replicas per `pool/size` that were applied, after the last guard. If unset, it does not
    run."""

    target: Replicas | None = Field(default=None, max_length=128)
    """Replicas per `pool/size` that the last decision asks for. If unset, none was taken yet."""

    rate: str | None = Field(default=None, max_length=64)
    """Records that arrive per second, such as 120/s. If unset, it is not known."""

    response_time: str | None = Field(default=None, max_length=64)
    """Mean time in the operator, waiting and service, such as 45ms. If unset, it is not known."""

    budget: str | None = Field(default=None, max_length=64)
    """Part of the objective that the Application Manager leaves to this operator, such as 60ms. If
    unset, none was assigned yet."""

    policy: str | None = Field(default=None, max_length=LONGEST_NAME)
    """Policy that decides. If unset, the operator is fixed."""

    decision: DecisionStatus | None = None
    """The last decision. If unset, none was taken yet."""


class TuningStatus(Section):
    """The weights that the Operator Managers work with; budgets are with the operators."""

    version: int = Field(ge=0)
    """Number of the tuning in force, as `weir explain` names it; 0 where nothing was tuned."""

    since: str | None = Field(default=None, max_length=40)
    """When it was taken. If unset, nothing was tuned. Format: RFC 3339."""

    violations: str = Field(max_length=64)
    """Weight of violations of the objective, such as 0.6."""

    resources: str = Field(max_length=64)
    """Weight of what the replicas cost, such as 0.2."""

    reconfigurations: str = Field(max_length=64)
    """Weight of restarts, such as 0.2."""

    message: str | None = Field(default=None, max_length=LONGEST_TEXT)
    """What the simulator expects of it, in a sentence. If unset, nothing was tuned."""


class StreamAppStatus(Section):
    """What Weir knows of the job, and what it did last."""

    observed_generation: int | None = Field(default=None, ge=0)
    """Generation of the spec that the rest speaks of. If unset, Weir has not seen any."""

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
    """The bound with its statistic, such as `200ms mean`. If unset, Weir has not seen any."""

    cost_per_hour: str | None = Field(default=None, max_length=64)
    """What the deployment costs per hour, JobManager included. If unset, the job does not run."""

    last_action: str | None = Field(default=None, max_length=LONGEST_TEXT)
    """The last change and how long it took, in few words, such as `Rescaled match 2 -> 3 in 12 s`;
    conditions and events say why. If unset, there was none."""

    restarts_last_day: int | None = Field(default=None, ge=0)
    """Restarts of the job that scaling caused in the last 24 hours. If unset, it never started."""

    window: str | None = Field(default=None, max_length=LONGEST_NAME)
    """Name of the blocked period that is open. If unset, none is."""

    advice: str | None = Field(default=None, max_length=LONGEST_TEXT)
    """In mode Advise, what following the decisions would have cost so far, or after how long that
    is known; after a day, what it would have saved a day and with how many restarts. If unset,
    nothing was seen yet, or the mode is another."""

    tuning: TuningStatus | None = None
    """What was tuned. If unset, nobody tunes."""

    operators: tuple[OperatorStatus, ...] = Field(
        default=(), max_length=MOST_OPERATORS, json_schema_extra=map_list_by("name")
    )
    """What is known of each operator, of the first 100. If unset, nothing is."""

    rescale: dict[str, JsonValue] | None = None
    """Journal of the change under way, or of the last one. If unset, there was none."""

    controller: dict[str, JsonValue] | None = None
    """What Weir needs to go on after a crash: job, savepoints, failed deployments, budget. If
    unset, the job never started."""


def shorten(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return `text`, cut at `longest` characters where it is longer."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
