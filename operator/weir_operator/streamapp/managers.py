"""How the control loops run: managers, blocked periods, fallback, and how Weir makes a change."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic.types import JsonValue

from weir_operator.streamapp.quantities import Duration, Level, MinSpeed
from weir_operator.streamapp.section import Checked, Deployment, Name, Rule, validations
from weir_simulator.schedules import EXPECTED, FIELDS, UTC, check_schedule, check_time_zone
from weir_simulator.validation import Section

MIN_INTERVAL = 1.0
"""Seconds between two decisions: at a millisecond, one StreamApp takes half of a core."""


def _field_pattern(lowest: int, highest: int, names: tuple[str, ...]) -> str:
    """Return a regular expression for one field, its range included but not a range's order."""
    value = "|".join((*(f"0*{number}" for number in range(lowest, highest + 1)), *names))
    item = rf"(\*|({value})(-({value}))?)(/0*[1-9][0-9]*)?"
    return f"{item}(,{item})*"


SCHEDULE_SCHEMA = {
    "pattern": r"^[0-9A-Za-z*/,-]+( [0-9A-Za-z*/,-]+){4}$",
    "maxLength": 128,
    **validations(
        Rule(
            rule="self.matches(r'(?i)^"
            + " ".join(
                _field_pattern(lowest, highest, names) for _, lowest, highest, names in FIELDS
            )
            + "$')",
            expected=EXPECTED,
            remedy="correct the field that is out of range",
        )
    ),
}
"""What the CRD can say of a schedule; that a range does not run backwards, and that some month has
the day, is checked in Python alone."""

TIME_ZONE_SCHEMA: dict[str, JsonValue] = {"pattern": "^[A-Za-z][A-Za-z0-9_+/-]*$", "maxLength": 64}


class Policy(Section):
    """Which algorithm decides for an operator."""

    name: Name = Field(default="planner", examples=["planner"])
    """Name of the policy. If unset, defaults to planner."""

    settings: dict[str, JsonValue] = Field(default={}, max_length=50)
    """The policy's own settings, by name. If unset, the policy's defaults apply."""


class OperatorManager(Checked):
    """The fast loop: one for each operator."""

    rules = (
        Rule(
            rule="duration(self.interval) >= duration('1s')",
            holds=lambda self: self.interval.seconds >= MIN_INTERVAL,
            field=".interval",
            expected="at least 1s",
            got="self.interval",
            remedy="lengthen it",
        ),
    )

    interval: Duration = Field(default=Duration("1m"), examples=["1m"])
    """Time between two decisions. If unset, defaults to 1m. Minimum: 1s. Format: duration."""

    policy: Policy = Policy()
    """The algorithm that decides. If unset, defaults to `{name: planner}`."""


class RestartBudget(Section):
    """How many restarts of the job scaling may cause: a bucket of tokens, one for each restart."""

    size: int = Field(default=3, ge=1, le=1000, examples=[3])
    """Maximum number of tokens in the bucket, and so of restarts in quick succession. If unset,
    defaults to 3. Minimum: 1."""

    refill_every: Duration = Field(default=Duration("1h"), examples=["1h"])
    """Time between two new tokens. If unset, defaults to 1h. Format: duration."""


class TokenBucket(Checked):
    """When the bucket gets a token: if the mean response time of a period is high or low enough.

    A token pays for one operator's restart in one direction. The bucket holds tokens of one
    direction at a time; a token of the other direction removes them.
    """

    rules = (
        Rule(
            rule="quantity(self.low).isLessThan(quantity(self.high))",
            holds=lambda self: self.low < self.high,
            field=".low",
            expected="less than high",
            remedy="lower it below high",
        ),
    )

    high: Level = Field(default=0.9, examples=["0.9"], json_schema_extra={"default": "0.9"})
    """Share of the objective above which the bucket gets a token for scaling out. If unset,
    defaults to "0.9". Above `low`, and at most 10. Format: decimal number in quotes."""

    low: Level = Field(default=0.5, examples=["0.5"], json_schema_extra={"default": "0.5"})
    """Share of the objective below which the bucket gets a token for scaling in. If unset, defaults
    to "0.5". Minimum: 0, and below `high`. Format: decimal number in quotes."""

    size: int = Field(default=1, ge=1, le=1000, examples=[1])
    """Maximum number of tokens in the bucket. If unset, defaults to 1. Minimum: 1."""

    every: Duration | None = Field(default=None, examples=["1m"])
    """Length of a period; each one makes at most one token. If unset, defaults to two intervals of
    the Operator Manager. Format: duration."""


class Migration(Section):
    """When Weir moves a replica to another node of the same pool.

    A node is slow if, for five intervals in a row, its replicas take longer per record than
    replicas of the same operator and size on other nodes of the pool.
    """

    min_speed: MinSpeed = Field(default=0.7, examples=["0.7"], json_schema_extra={"default": "0.7"})
    """Speed below which a node is slow, as a share of the speed of the other nodes. If unset,
    defaults to "0.7". Above zero, and at most 0.9, because smaller differences occur by chance.
    Format: decimal number in quotes."""


class Arbitration(Section):
    """How Weir grants or denies competing proposals."""

    token_bucket: TokenBucket | None = None
    """Tokens that changes with a restart need in addition to the restart budget. If unset, they
    need none."""

    migration: Migration | None = None
    """Moves replicas off slow nodes, one by one, to other nodes of their pool. Each move restarts
    the job and takes a token of the restart budget. No effect with `weir local`. If unset, replicas
    stay."""


class ApplicationManager(Section):
    """The slow loop: one for the StreamApp."""

    interval: Duration = Field(default=Duration("1h"), examples=["1h"])
    """Time between two tunings of the Operator Managers. If unset, defaults to 1h. Format:
    duration."""

    restart_budget: RestartBudget = RestartBudget()
    """Restarts that scaling may cause. If unset, defaults to `{size: 3, refillEvery: 1h}`."""

    arbitration: Arbitration = Arbitration()
    """How Weir grants competing proposals. If unset, by urgency and the restart budget only."""


class Allowed(StrEnum):
    """What a blocked period still allows."""

    NOTHING = "Nothing"
    SCALE_OUT = "ScaleOut"
    SCALE_IN = "ScaleIn"
    EVERYTHING = "Everything"


class Window(Section):
    """A period that limits scaling, sets a minimum of replicas, or both."""

    name: Name = Field(examples=["peak"])
    """Name of the period, unique in the list."""

    schedule: Annotated[str, AfterValidator(check_schedule)] = Field(
        examples=["0 17 * * 1-5"],
        json_schema_extra=SCHEDULE_SCHEMA,
    )
    """When the period begins, on the clocks of `timeZone`. A time that the clocks skip counts when
    they have jumped; one that they show twice counts once. Format: cron with five fields (minute,
    hour, day of month, month, day of week)."""

    time_zone: Annotated[str, AfterValidator(check_time_zone)] = Field(
        default=UTC, examples=["Europe/Berlin"], json_schema_extra=TIME_ZONE_SCHEMA
    )
    """Time zone of `schedule`. If unset, defaults to UTC. Format: name in the time zone database of
    the IANA."""

    duration: Duration = Field(examples=["2h"])
    """How long the period lasts. Format: duration."""

    allow: Allowed | None = None
    """The direction that is still allowed. If unset, defaults to Everything with `minReplicas`, and
    otherwise to Nothing. Format: `Nothing`, `ScaleOut`, `ScaleIn` or `Everything`."""

    min_replicas: dict[str, Annotated[int, Field(ge=1, le=10_000, examples=[4])]] | None = Field(
        default=None, min_length=1, max_length=100, examples=[{"tokenize": 4}]
    )
    """Minimum number of replicas of operators during the period; Weir adds them before it begins.
    If unset, only the operators' own `minReplicas` applies. At most `maxReplicas` of each operator,
    and what its pools hold."""

    @property
    def allows(self) -> Allowed:
        """What is allowed, the default filled in."""
        if self.allow is not None:
            return self.allow
        return Allowed.NOTHING if self.min_replicas is None else Allowed.EVERYTHING


class FallbackDeployment(StrEnum):
    """What to do when metrics stay unhealthy."""

    HOLD = "Hold"
    LARGEST = "Largest"
    NAMED = "Named"


class Fallback(Checked):
    """What Weir does when metrics stay unhealthy."""

    rules = (
        Rule(
            rule="self.deployment != 'Named' || has(self.named)",
            holds=lambda self: self.deployment != "Named" or self.named is not None,
            field=".named",
            expected="replicas per operator, because deployment is Named",
            remedy="add it, such as named: {tokenize: {large/1: 4}}",
        ),
        Rule(
            rule="self.deployment == 'Named' || !has(self.named)",
            holds=lambda self: self.deployment == "Named" or self.named is None,
            field=".named",
            expected="no value, because deployment is not Named",
            remedy="set deployment to Named, or remove named",
        ),
    )

    after: Duration = Field(default=Duration("10m"), examples=["10m"])
    """How long metrics must have been unhealthy. If unset, defaults to 10m. Format: duration."""

    deployment: FallbackDeployment = FallbackDeployment.HOLD
    """The target deployment: the current one (Hold), the largest one allowed, or the one in
    `named`. If unset, defaults to Hold. Format: `Hold`, `Largest` or `Named`."""

    named: dict[str, Annotated[Deployment, Field(min_length=1, max_length=16)]] | None = Field(
        default=None, min_length=1, max_length=100, examples=[{"tokenize": {"large/1": 4}}]
    )
    """Replicas per `pool/size` for each operator to change; the others stay. Required if
    `deployment` is Named. May be set only in that case."""


class Savepoints(Section):
    """How many savepoints Weir keeps."""

    keep: int = Field(default=3, ge=1, le=1000, examples=[3])
    """How many of its own savepoints Weir keeps, the newest ones. If unset, defaults to 3. Minimum:
    1."""


class RescaleVia(StrEnum):
    """How a restart transfers the state."""

    AUTO = "Auto"
    SAVEPOINT = "Savepoint"
    CHECKPOINT = "Checkpoint"


class Rescale(Section):
    """How Weir restarts the job to change its replicas, and how long each step may take."""

    via: RescaleVia = RescaleVia.AUTO
    """How the restart transfers the state. With a savepoint, no record is lost or processed twice.
    A checkpoint is faster for large state, but records since then are processed again. Auto uses a
    savepoint as long as it meets its deadline. If unset, defaults to Auto. Format: `Auto`,
    `Savepoint` or `Checkpoint`."""

    savepoint_deadline: Duration = Field(default=Duration("10s"), examples=["10s"])
    """How long the job may take to stop with a savepoint. After that, Weir uses the newest
    checkpoint or, with via Savepoint, abandons the change. A PyFlink job always has at least 1m.
    If unset, defaults to 10s. Format: duration."""

    start_deadline: Duration = Field(default=Duration("60s"), examples=["60s"])
    """How long the scheduling of new replicas may take, while the job keeps running. After that,
    Weir abandons the change. Scheduled replicas may take three times as long to register. If unset,
    defaults to 60s. Format: duration."""

    submit_deadline: Duration = Field(default=Duration("30s"), examples=["30s"])
    """How long the job may take to run again. After that, Weir restores the old deployment. A
    PyFlink job always has at least 2m. If unset, defaults to 30s. Format: duration."""
