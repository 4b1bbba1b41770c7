"""The StreamApp resource: one Flink job, its objective, and the node pools it may use.

A `StreamApp` is always valid in itself. Only the controller finds mistakes that depend on Flink,
Kubernetes or measurements, such as an operator that the job does not have, or a bound below the
service time. The status is in `status`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

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
from weir_operator.streamapp.rules import CEL_RULES, RULES
from weir_operator.streamapp.section import Checked, Name, map_list_by
from weir_simulator.validation import Mistake, Section, judge, refusal

API_VERSION: Final = "weir.dev/v1alpha1"
KIND: Final = "StreamApp"
CANARY: Final = "weir-canary"
"""Name of the StreamApp with which the controller tests its watch."""


class Mode(StrEnum):
    """How much Weir does."""

    OFF = "Off"
    ADVISE = "Advise"
    AUTO = "Auto"


class State(StrEnum):
    """Whether the job should run."""

    RUNNING = "Running"
    SUSPENDED = "Suspended"


class DeletionPolicy(StrEnum):
    """What happens to a job's state when its StreamApp is deleted."""

    KEEP = "Keep"
    DELETE = "Delete"


def _check_name_is_free(name: str) -> str:
    if name == CANARY:
        raise refusal(f"a name other than {CANARY}, which Weir uses itself", "choose another name")
    return name


class Metadata(BaseModel):
    """Kubernetes' metadata; Weir checks only the fields that it reads and keeps the rest."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: Annotated[Name, AfterValidator(_check_name_is_free)] = Field(examples=["trips"])
    namespace: Name = "default"
    annotations: dict[str, str] = {}


class Spec(Checked):
    """The job to run, its objective, and the node pools that it may use."""

    rules = CEL_RULES

    mode: Mode = Mode.AUTO
    """How much Weir does. Off keeps the job running and decides nothing; Advise decides, records
    and forecasts, but does not scale the job; Auto scales it. May not be Auto if `flink.ref` names
    a Deployment. If unset, defaults to Auto. Format: `"Off"` (in quotes, because YAML reads a bare
    Off as false), `Advise` or `Auto`."""

    state: State = State.RUNNING
    """Whether the job should run; Suspended stops it with a savepoint. If unset, defaults to
    Running. Format: `Running` or `Suspended`."""

    deletion_policy: DeletionPolicy = DeletionPolicy.KEEP
    """What happens to the job's state when the StreamApp is deleted. Keep stops the job with a
    final savepoint, names it in an event, and keeps all checkpoints and savepoints. Delete stops
    the job at once and deletes them. You can change it until you delete the StreamApp. If unset,
    defaults to Keep. Format: `Keep` or `Delete`."""

    flink: Flink = Field(examples=[{"image": "example/trips:1.4"}])
    """The Flink job."""

    objective: Objective = Field(examples=[{"responseTime": "200ms"}])
    """The response time that the job must meet."""

    node_pools: tuple[NodePool, ...] = Field(
        default=(),
        max_length=16,
        examples=[[{"name": "small"}]],
        json_schema_extra=map_list_by("name"),
    )
    """Kinds of nodes that replicas can run on. May be left out only if `flink.ref` is set; then
    defaults to one pool, the TaskManagers of the external job. At most one in mode Auto with
    `flink.ref`."""

    operators: tuple[Operator, ...] = Field(
        default=(), max_length=100, json_schema_extra=map_list_by("name")
    )
    """The job's operators, each with TaskManagers of its own. With Weir's agent, the list may be
    incomplete: vertices that it does not name share TaskManagers, and where their operator is near
    its limits, each one that is busy for a tenth of the time becomes an operator of its own. Weir
    chooses their replicas: the program's own `setParallelism` has no effect. Without the agent, it
    names all operators that the program pins itself. If unset, the whole job is one operator; with
    the agent, only until Weir separates its busy vertices."""

    operator_manager: OperatorManager = OperatorManager()
    """The fast control loop of each operator. If unset, the policy planner decides every 1m."""

    application_manager: ApplicationManager = ApplicationManager()
    """The slow control loop of the StreamApp. If unset, it tunes every 1h, and scaling may restart
    the job three times at once and one more time each hour."""

    windows: tuple[Window, ...] = Field(
        default=(), max_length=50, json_schema_extra=map_list_by("name")
    )
    """Periods that block scaling, or in which operators have more replicas at least. If unset,
    scaling is never blocked."""

    fallback: Fallback = Fallback()
    """What Weir does when metrics stay unhealthy. If unset, it keeps the deployment."""

    savepoints: Savepoints = Savepoints()
    """How many savepoints Weir keeps. If unset, it keeps the newest three."""

    rescale: Rescale = Rescale()
    """How Weir restarts the job to change its replicas. If unset, it uses a savepoint if that is
    fast enough."""

    reset_nonce: int = Field(default=0, ge=0, le=2**53, examples=[1])
    """A new value discards what Weir has learned, tuned and measured. If unset, defaults to 0.
    Minimum: 0."""

    def mistakes(self) -> Iterator[Mistake]:
        """Yield those between the sections."""
        yield from judge(RULES, {name: getattr(self, name) for name in type(self).model_fields})


class StreamApp(Section):
    """One Flink job, its objective, and the node pools it may use."""

    api_version: Literal["weir.dev/v1alpha1"] = API_VERSION
    kind: Literal["StreamApp"] = KIND
    metadata: Metadata = Field(examples=[{"name": "trips"}])
    spec: Spec = Field(examples=[{"flink": {"image": "example/trips:1.4"}}])
