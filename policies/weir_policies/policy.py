"""What every operator policy promises, and the values that go in and come out.

A policy is pure: no clock, no I/O, randomness only from the generator handed to its constructor.
`decide` changes nothing (equal state and input, equal decision); `learn` is the only place where
state changes; all state, the generator's included, goes through `state_dict`. The same object
decides in the simulator and in the live controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from weir_policies.errors import ParameterError
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

    EQUAL = "equal"
    """Every replica gets 1/p, whatever its speed: keyed edges, round robin."""
    PROPORTIONAL = "proportional"
    """Each gets a share that follows its speed."""
    BY_LOAD = "byLoad"
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
    network_time: float = 0.0
    """Seconds per record spent in buffers and on the wire before the operator; measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CostWeights:
    """How much each part of an interval's cost matters; the defaults are the paper's.

    Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6.

    Raises:
        ParameterError: A weight is negative.
    """

    violation: float = 0.6
    resources: float = 0.2
    reconfiguration: float = 0.2

    def __post_init__(self) -> None:
        """Refuse negative weights."""
        if not min(self.violation, self.resources, self.reconfiguration) >= 0:
            raise ParameterError(f"Expected weights >= 0, got {self}")


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
    """A deployment that a policy weighed."""

    deployment: Deployment
    score: float
    """Lower is better; `inf` is ruled out. Comparable only within one decision."""
    expectation: Expectation
    verdict: str
    """Why it was chosen or rejected, for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Where to go, why, and what else was weighed."""

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
    """A policy that may be told, before its first interval, what usually arrives."""

    def expect(self, season: Season) -> None:
        """Begin with it; what was learned already stays as it is."""
        ...


@runtime_checkable
class ApplicationPolicy(Protocol):
    """Chooses the deployments of all operators at once."""

    def decide(self, observations: Mapping[str, Observation]) -> Mapping[str, Decision]:
        """Choose a target per operator; of one operator alone, its part of the joint target."""
        ...

    def learn(self, transitions: Mapping[str, Transition]) -> None:
        """Update the learned state from one interval of all operators, in the dataflow's order."""
        ...

    def state_dict(self) -> Mapping[str, Any]:
        """Return everything learned, the generator's state included, as plain JSON values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore exactly what `state_dict` returned."""
        ...
