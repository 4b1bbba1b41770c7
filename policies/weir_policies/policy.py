"""The protocol of every policy, and the values that go in and come out.

Most policies decide for one operator (`OperatorPolicy`), some for all operators of an application
at once (`ApplicationPolicy`); `registry.is_joint` says which.

A policy is pure: no clock, no I/O, randomness only from the generator given to its constructor.
`decide` changes nothing (equal state and input, equal decision); only `learn` changes state; all
state, the generator's included, is saved by `state_dict`. The same object decides in the simulator
and in the live controller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Protocol, runtime_checkable

from pydantic import Field

from weir_policies.errors import ParameterError
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.season import Season

NEEDED = 0.5
"""Urgency from which a change keeps the objective; below, it only saves money."""


class Neighbourhood(StrEnum):
    """Which targets a policy proposes; the simulator obeys it."""

    ONE = "one"
    """One replica more or less, as in the papers."""
    ANY = "any"
    """Any deployment, because Flink pays one restart whatever the distance."""


class Sharing(StrEnum):
    """How an operator's records are shared among its replicas."""

    EQUAL = "Equal"
    """Every replica gets 1/p, whatever its speed: keyed edges, round robin."""
    PROPORTIONAL = "Proportional"
    """Each gets a share that follows its speed."""
    BY_LOAD = "ByLoad"
    """Equal while there is room, towards proportional as the slowest fill up: Flink's adaptive
    partitioner."""


class Aggregation(StrEnum):
    """How the replicas' values become the operator's."""

    WORST = "worst"
    AVERAGE = "average"


class ChangeKind(StrEnum):
    """What going from one deployment to another costs."""

    NOTHING = "nothing"
    RESIZE = "resize"
    """Same replicas per pool, other sizes: in place, no restart, no token."""
    RESCALE = "rescale"
    """Other counts per pool: one restart of the job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorModel:
    """What is believed about one operator; measured or fitted where it can be."""

    name: str
    node_types: tuple[NodeType, ...]
    max_replicas: int
    service_mean: float
    """Seconds of work per record at speedup 1; NaN where unknown."""
    service_scv: float
    """Squared coefficient of variation of the service time; NaN where unknown."""
    arrival_scv: float = 1.0
    """SCV of the times between arrivals at the operator as a whole; 1 is Poisson."""
    keyed: bool = False
    """Records are dealt by key (random thinning of the arrivals), not by turn."""
    sharing: Sharing = Sharing.EQUAL
    aggregation: Aggregation = Aggregation.WORST
    key_groups: int | None = None
    """Max parallelism M of a keyed operator: the worst of p replicas carries ceil(M/p)/M of the
    records. `None` shares without that rounding."""
    hot_share: float = 0.0
    """Part of the records that one replica gets beyond its key groups, however many there are,
    because many records share a key; measured. Only the worst replica is predicted with it."""
    fullest: tuple[float, ...] = ()
    """Part of the records that the fullest replica gets at each parallelism from 1, where the keys
    were measured and are uneven; in place of `key_groups` and `hot_share`. At larger parallelisms,
    the last one holds."""
    network_time: float = 0.0
    """Seconds per record spent in buffers and on the wire before the operator; measured."""

    @property
    def is_skewed(self) -> bool:
        """Whether one replica gets more of the records than its key groups alone explain."""
        return bool(self.fullest) or self.hot_share > 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CostWeights:
    """How much each part of an interval's cost matters; the defaults are the paper's.

    The aliases are the fields' names in the files of experiments and tunings.

    Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6.

    Raises:
        ParameterError: A weight is negative.
    """

    violation: Annotated[float, Field(alias="violations", ge=0, examples=[0.6])] = 0.6
    resources: Annotated[float, Field(ge=0, examples=[0.2])] = 0.2
    reconfiguration: Annotated[float, Field(alias="reconfigurations", ge=0, examples=[0.2])] = 0.2

    def __post_init__(self) -> None:
        """Refuse negative weights."""
        if not min(self.violation, self.resources, self.reconfiguration) >= 0:
            raise ParameterError(f"Expected weights >= 0, got {self}")

    def normalised(self) -> CostWeights:
        """Return the weights as parts of their sum, which is all that they say."""
        total = self.violation + self.resources + self.reconfiguration
        if total == 0:
            return self
        return CostWeights(
            violation=self.violation / total,
            resources=self.resources / total,
            reconfiguration=self.reconfiguration / total,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """What a tuning sets: the weights and latency budgets that operators decide with."""

    weights: CostWeights
    budgets: Mapping[str, Annotated[float, Field(gt=0)]]
    """Seconds of mean response time granted to each operator, by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What an operator's manager knows at one tick. NaN where something could not be measured."""

    time: float
    """Seconds on the caller's clock; differences matter, the origin does not."""
    time_of_week: float
    """Position in the week as a number in [0, 1), Monday 00:00 UTC is 0."""
    interval: float
    """Seconds since the observation before, the time that the rates below average over."""
    model: OperatorModel
    deployment: Deployment
    rate: float
    """Records/s that arrive at the operator (not: that it manages to process)."""
    processed: float
    """Records/s that the operator took in during the interval."""
    response_time: float
    """Seconds in the operator, waiting plus service, mean over the interval."""
    utilisation: tuple[float, ...]
    """Busy share per replica in [0, 1], ordered by node type, then by replica id."""
    backlog: float
    """Records that wait before the operator, the source's included where it is the cause."""
    replica_ages: tuple[float, ...]
    """Seconds since each replica joined, in the order of `utilisation`."""
    budget: float
    """Seconds of response time granted to the operator by the AM."""
    weights: CostWeights = CostWeights()
    """How much each part of the operator's cost matters; tuned by the AM."""
    dearest: float | None = None
    """Price that the operator's greatest cost is made of, k_max replicas at it; `None` is the
    dearest node type. See `model.cost.normalised_cost`."""
    most_replicas: int | None = None
    """How many these are instead of k_max: those of all operators together, where the cost of the
    operator counts as a part of the application's."""
    restarts_anyway: bool = False
    """Whether the job is restarted at this tick for another operator, so that one for this operator
    costs nothing more. Policies that make use of it are asked a second time."""
    offered_rate: float = math.nan
    """Records/s that would arrive if nothing waited upstream: what arrives at the sources, passed
    on. NaN where that is unknown."""
    upstream_backlog: float = math.nan
    """Records that wait upstream, as many as will arrive of them. NaN where that is unknown."""
    min_replicas: int = 1
    """Replicas that the operator must have by the time a change would take. Whoever carries out a
    decision adds what it lacks, so a policy that knows only single moves may ignore it."""
    max_price: float | None = None
    """Currency per hour that its replicas may cost at most, which counts more than the replicas;
    `None` is no limit. Whoever carries out a decision takes away what is above it."""

    @property
    def costs_too_much(self) -> bool:
        """Whether its replicas cost more than they may."""
        pairs = zip(self.deployment, self.model.node_types, strict=True)
        price = sum(count * node_type.price for count, node_type in pairs)
        return self.max_price is not None and price > self.max_price * (1 + 1e-9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """What a decision expects of its target: kept, and compared with what happened."""

    response_time: float
    """Seconds, mean, at the operator; NaN where the policy does not predict."""
    utilisation: float
    """Of the worst replica; NaN where the policy does not predict."""
    cost_per_hour: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A deployment that a policy considered."""

    deployment: Deployment
    score: float
    """Lower is better; `inf` is ruled out. Comparable only within one decision."""
    expectation: Expectation
    verdict: str
    """Why it was chosen or rejected, for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A target, its reason, and the candidates."""

    target: Deployment
    reason: str
    """One sentence for people, never empty."""
    candidates: tuple[Candidate, ...]
    """The chosen one and the best of the rejected, best first; at most a dozen."""
    expectation: Expectation
    urgency: float
    """In [0, 1]: how much the operator needs the change; the AM orders by it. 0 = stay, below
    `NEEDED` it saves money, from there on the objective needs it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CostParts:
    """The cost of one interval, by what caused it; each in [0, 1] before weighting."""

    violation: float
    resources: float
    reconfiguration: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """One interval as a policy learns from it."""

    observation: Observation
    proposed: Deployment
    enacted: Deployment
    """Differs from `proposed` when the AM denied it or a guard cut it."""
    cost: CostParts
    next_observation: Observation


@runtime_checkable
class OperatorPolicy(Protocol):
    """Chooses the deployment of one operator."""

    def decide(self, observation: Observation) -> Decision:
        """Choose a target; missing data gives the present deployment with a reason."""
        ...

    def learn(self, transition: Transition) -> None:
        """Update the learned state from one interval."""
        ...

    def state_dict(self) -> Mapping[str, Any]:
        """Return everything learned, the generator's state included, as plain JSON values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore exactly what `state_dict` returned."""
        ...


@runtime_checkable
class WarmStartable(Protocol):
    """A policy that can start with the usual arrivals, before its first interval."""

    def warm_start(self, season: Season) -> None:
        """Begin with it; what was learned already stays as it is."""
        ...


@runtime_checkable
class Compilable(Protocol):
    """A policy that is compiled, which may take a minute on a machine that has not done it yet."""

    def compile(self) -> None:
        """Compile it now, before it is asked."""
        ...


@runtime_checkable
class JoinsRestarts(Protocol):
    """A policy that may decide otherwise where the job is restarted for another operator anyway.

    It is then asked a second time at the same tick, with `Observation.restarts_anyway`.
    """

    @property
    def joins_restarts(self) -> bool:
        """Whether it makes use of that."""
        ...


@runtime_checkable
class ApplicationPolicy(Protocol):
    """Chooses the deployments of all operators at once.

    The dataflow holds the operators that it decides for, and may lack others of the job: those with
    a fixed deployment. Observations and transitions are by the operators' names.
    """

    def decide(
        self, observations: Mapping[str, Observation], dataflow: Dataflow
    ) -> Mapping[str, Decision]:
        """Choose a target for each operator that was observed.

        Missing data, or an operator that was not observed, gives present deployments with a reason
        wherever the joint target depends on it.
        """
        ...

    def learn(self, transitions: Mapping[str, Transition], dataflow: Dataflow) -> None:
        """Update the learned state from one interval; nothing where an operator's is missing."""
        ...

    def state_dict(self) -> Mapping[str, Any]:
        """Return everything learned, the generator's state included, as plain JSON values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore exactly what `state_dict` returned."""
        ...
