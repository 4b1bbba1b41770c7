"""How the control loops run: managers, blocked periods, fallback, and how a change is made."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic.types import JsonValue

from weir_operator.streamapp.quantities import Duration
from weir_operator.streamapp.schedules import SCHEDULE_SCHEMA, check_schedule
from weir_operator.streamapp.section import (
    Mistake,
    Name,
    Replicas,
    Rule,
    Section,
    refuse,
    validations,
)


class Policy(Section):
    """Which algorithm decides for an operator."""

    name: Name = Field(default="planner", examples=["planner"])
    """Name under which the policy is registered. If unset, defaults to planner."""

    settings: dict[str, JsonValue] = Field(default={}, max_length=50)
    """The policy's own settings, by name. If unset, the policy's defaults hold."""


class OperatorManager(Section):
    """The fast loop: one for each operator."""

    interval: Duration = Field(default=Duration("1m"), examples=["1m"])
    """Time between two decisions. If unset, defaults to 1m. Format: duration."""

    policy: Policy = Policy()
    """The algorithm that decides. If unset, defaults to `{name: planner}`."""


class RestartBudget(Section):
    """How many restarts of the job scaling may cause: a bucket of tokens, one for each restart."""

    size: int = Field(default=3, ge=1, le=1000, examples=[3])
    """Most tokens in the bucket, so most restarts in quick succession. If unset, defaults to 3.
    Minimum: 1."""

    refill_every: Duration = Field(default=Duration("1h"), examples=["1h"])
    """Time after which a token is put in. If unset, defaults to 1h. Format: duration."""


class TokenBucket(Section):
    """When a token is put in, by the response time's share of the objective over two intervals.

    The bucket holds one token, which pays one operator's restart in its direction.
    """

    model_config = Section.model_config | {
        "json_schema_extra": validations(
            Rule(
                rule="self.low < self.high",
                field=".low",
                expected="less than high",
                remedy="lower it below high",
            )
        )
    }

    high: float = Field(default=0.9, gt=0, le=10, examples=[0.9])
    """Share of the objective above which a token for scaling out is put in. If unset, defaults to
    0.9. Above zero, and above `low`."""

    low: float = Field(default=0.5, ge=0, le=10, examples=[0.5])
    """Share of the objective below which a token for scaling in is put in. If unset, defaults to
    0.5. Minimum: 0, and below `high`."""

    @model_validator(mode="after")
    def _check_low_below_high(self) -> Self:
        if self.low >= self.high:
            refuse(
                [
                    Mistake(
                        ("low",), self.low, f"less than high = {self.high}", "lower it below high"
                    )
                ]
            )
        return self


class Migration(Section):
    """When a replica leaves a node of Kubernetes for another one of the same pool.

    A node is slow where its replicas take longer for a record than those of the same operator, of
    the same size, on other nodes of the pool, for five intervals in a row.
    """

    least_speed: float = Field(default=0.7, gt=0, le=0.9, examples=[0.7])
    """Speed below which a node is slow, as a share of that of the other nodes. If unset, defaults
    to 0.7. Above zero, and at most 0.9: closer to 1, chance would speak."""


class Arbitration(Section):
    """How proposals that compete are granted or denied."""

    token_bucket: TokenBucket | None = None
    """Tokens that changes with a restart must pay with, besides the restart budget. If unset, no
    tokens are asked for."""

    migration: Migration | None = None
    """Replicas on a slow node are replaced, one by one, by others elsewhere in their pool; each
    change restarts the job, by the restart budget. On one machine it has no effect. If unset,
    replicas stay."""


class ApplicationManager(Section):
    """The slow loop: one for the StreamApp."""

    interval: Duration = Field(default=Duration("1h"), examples=["1h"])
    """Time between two tunings of the operators' managers. If unset, defaults to 1h. Format:
    duration."""

    restart_budget: RestartBudget = RestartBudget()
    """Restarts that scaling may cause. If unset, defaults to `{size: 3, refillEvery: 1h}`."""

    arbitration: Arbitration = Arbitration()
    """How competing proposals are granted. If unset, by urgency and the restart budget alone."""


class Allowed(StrEnum):
    """What a blocked period still allows."""

    NOTHING = "Nothing"
    SCALE_OUT = "ScaleOut"
    SCALE_IN = "ScaleIn"


class Window(Section):
    """A blocked period, in which scaling stands still but for one direction."""

    name: Name = Field(examples=["peak"])
    """Name of the period, unique in the list."""

    schedule: Annotated[str, AfterValidator(check_schedule)] = Field(
        examples=["0 17 * * 1-5"],
        json_schema_extra=SCHEDULE_SCHEMA,
    )
    """When the period begins, in UTC. Format: cron with five fields (minute, hour, day of month,
    month, day of week)."""

    duration: Duration = Field(examples=["2h"])
    """How long the period lasts. Format: duration."""

    allow: Allowed = Allowed.NOTHING
    """The one direction that stays allowed. If unset, defaults to Nothing. Format: `Nothing`,
    `ScaleOut` or `ScaleIn`."""


class FallbackDeployment(StrEnum):
    """What to do when metrics stay unhealthy."""

    HOLD = "Hold"
    LARGEST = "Largest"
    NAMED = "Named"


class Fallback(Section):
    """What happens when metrics stay unhealthy."""

    model_config = Section.model_config | {
        "json_schema_extra": validations(
            Rule(
                rule="self.deployment != 'Named' || has(self.named)",
                field=".named",
                expected="replicas per operator where deployment is Named",
                remedy="add it, such as named: {tokenize: {large/1: 4}}",
            ),
            Rule(
                rule="self.deployment == 'Named' || !has(self.named)",
                field=".named",
                expected="nothing where deployment is not Named",
                remedy="set deployment to Named, or remove named",
            ),
        )
    }

    after: Duration = Field(default=Duration("10m"), examples=["10m"])
    """How long metrics must have been unhealthy. If unset, defaults to 10m. Format: duration."""

    deployment: FallbackDeployment = FallbackDeployment.HOLD
    """Where to go: stay, the largest deployment allowed, or the one in `named`. If unset, defaults
    to Hold. Format: `Hold`, `Largest` or `Named`."""

    named: dict[str, Annotated[Replicas, Field(min_length=1, max_length=16)]] | None = Field(
        default=None, min_length=1, max_length=100, examples=[{"tokenize": {"large/1": 4}}]
    )
    """Replicas per `pool/size` for each operator that is to change; the others stay. May be set
    only where `deployment` is Named, and must be there."""

    @model_validator(mode="after")
    def _check_named(self) -> Self:
        wanted = self.deployment is FallbackDeployment.NAMED
        if wanted and self.named is None:
            refuse(
                [Mistake(("named",), None, "replicas per operator where deployment is Named",
                         "add it, such as named: {tokenize: {large/1: 4}}")]
            )  # fmt: skip
        if not wanted and self.named is not None:
            refuse(
                [Mistake(("named",), self.named, f"nothing where deployment is {self.deployment}",
                         "set deployment to Named, or remove named")]
            )  # fmt: skip
        return self


class Savepoints(Section):
    """What becomes of savepoints."""

    keep: int = Field(default=3, ge=1, le=1000, examples=[3])
    """How many of Weir's own savepoints are kept, newest first. If unset, defaults to 3. Minimum:
    1."""


class RescaleVia(StrEnum):
    """What carries the state over a restart."""

    AUTO = "Auto"
    SAVEPOINT = "Savepoint"
    CHECKPOINT = "Checkpoint"


class Rescale(Section):
    """How a restart with other replicas is made; past a deadline the job is left or put right."""

    via: RescaleVia = RescaleVia.AUTO
    """What carries the state: a savepoint loses and doubles nothing, a checkpoint is quicker for
    large state and replays; Auto takes the savepoint while it keeps its deadline. If unset,
    defaults to Auto. Format: `Auto`, `Savepoint` or `Checkpoint`."""

    savepoint_deadline: Duration = Field(default=Duration("10s"), examples=["10s"])
    """How long stopping with a savepoint may take; then the newest checkpoint is used, or, with via
    Savepoint, the change given up. If unset, defaults to 10s. Format: duration."""

    start_deadline: Duration = Field(default=Duration("60s"), examples=["60s"])
    """How long added replicas may take to find a node, while the job runs on; then the change is
    given up. Those that have a node may take three times as long to register. If unset, defaults to
    60s. Format: duration."""

    submit_deadline: Duration = Field(default=Duration("30s"), examples=["30s"])
    """How long the job may take to run again; then the old deployment is restored. If unset,
    defaults to 30s. Format: duration."""
