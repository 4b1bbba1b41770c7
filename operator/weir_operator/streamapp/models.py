"""The StreamApp resource: one Flink job and its scaling contract.

A `StreamApp` that exists is right in itself: what only Flink, Kubernetes or a trace can judge (an
operator that the job does not have, a bound below the service time) is the controller's business.
Its status is not part of it; see `status`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from weir_operator.streamapp.flink import Flink
from weir_operator.streamapp.managers import (
    ApplicationManager,
    Fallback,
    OperatorManager,
    Rescale,
    Savepoints,
    Window,
)
from weir_operator.streamapp.objective import Objective
from weir_operator.streamapp.operators import Operator
from weir_operator.streamapp.pools import NodePool
from weir_operator.streamapp.rules import CEL_RULES, judge
from weir_operator.streamapp.section import (
    Name,
    Section,
    map_list_by,
    refusal,
    refuse,
    validations,
)

API_VERSION: Final = "weir.dev/v1alpha1"
KIND: Final = "StreamApp"
CANARY: Final = "weir-canary"
"""Name of the StreamApp by which the controller sees that its watch lives."""


class Mode(StrEnum):
    """How much Weir does."""

    OFF = "Off"
    ADVISE = "Advise"
    AUTO = "Auto"


class State(StrEnum):
    """Whether the job is to run."""

    RUNNING = "Running"
    SUSPENDED = "Suspended"


class DeletionPolicy(StrEnum):
    """What becomes of a job's state when its StreamApp is deleted."""

    KEEP = "Keep"
    DELETE = "Delete"


def _check_name_is_free(name: str) -> str:
    if name == CANARY:
        raise refusal(
            f"another name than {CANARY}, which the controller's own canary has", "choose another"
        )
    return name


class Metadata(BaseModel):
    """Kubernetes' metadata; only what Weir reads is judged, the rest is kept as it is."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: Annotated[Name, AfterValidator(_check_name_is_free)] = Field(examples=["trips"])
    namespace: Name = "default"
    annotations: dict[str, str] = {}


class Spec(Section):
    """What is to run, what it owes its users, and what it may use."""

    model_config = Section.model_config | {"json_schema_extra": validations(*CEL_RULES)}

    mode: Mode = Mode.AUTO
    """How much Weir does: nothing; decide, record and forecast without touching the job; or scale.
    May not be Auto where `flink.ref` is set. If unset, defaults to Auto. Format: `"Off"` (in
    quotes, a bare Off is a truth value in YAML), `Advise` or `Auto`."""

    state: State = State.RUNNING
    """Whether the job is to run; Suspended stops it with a savepoint. If unset, defaults to
    Running. Format: `Running` or `Suspended`."""

    deletion_policy: DeletionPolicy = DeletionPolicy.KEEP
    """What becomes of the job's state when the StreamApp is deleted. Keep stops the job with a last
    savepoint, names it in an event, and leaves checkpoints and savepoints where they are; Delete
    stops the job at once and removes them. May be changed until the deletion. If unset, defaults to
    Keep. Format: `Keep` or `Delete`."""

    flink: Flink = Field(examples=[{"image": "example/trips:1.4"}])
    """The Flink job."""

    objective: Objective = Field(examples=[{"responseTime": "200ms"}])
    """What the job owes its users."""

    node_pools: tuple[NodePool, ...] = Field(
        min_length=1,
        max_length=16,
        examples=[[{"name": "small"}]],
        json_schema_extra=map_list_by("name"),
    )
    """Kinds of nodes that replicas can run on. At least one."""

    operators: tuple[Operator, ...] = Field(
        default=(), max_length=100, json_schema_extra=map_list_by("name")
    )
    """The job's operators, each a slot sharing group. If unset, the whole job is one operator."""

    operator_manager: OperatorManager = OperatorManager()
    """The fast control loop of each operator. If unset, the policy planner decides every 1m."""

    application_manager: ApplicationManager = ApplicationManager()
    """The slow control loop of the whole. If unset, tunes every 1h, with three restarts at once and
    one more each hour."""

    windows: tuple[Window, ...] = Field(
        default=(), max_length=50, json_schema_extra=map_list_by("name")
    )
    """Blocked periods. If unset, scaling is never blocked."""

    fallback: Fallback = Fallback()
    """What happens when metrics stay unhealthy. If unset, the deployment is held."""

    savepoints: Savepoints = Savepoints()
    """What becomes of savepoints. If unset, the newest three are kept."""

    rescale: Rescale = Rescale()
    """How a restart with other replicas is made. If unset, with a savepoint where it is quick."""

    reset_nonce: int = Field(default=0, ge=0, le=2**53, examples=[1])
    """A new value makes Weir forget what it has learned. If unset, defaults to 0. Minimum: 0."""

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        refuse(judge({name: getattr(self, name) for name in type(self).model_fields}))
        return self


class StreamApp(Section):
    """One Flink job and its scaling contract."""

    api_version: Literal["weir.dev/v1alpha1"] = API_VERSION
    kind: Literal["StreamApp"] = KIND
    metadata: Metadata = Field(examples=[{"name": "trips"}])
    spec: Spec = Field(examples=[{"flink": {"image": "example/trips:1.4"}}])
