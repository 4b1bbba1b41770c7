"""The Operator Managers: they observe, learn from the last interval, and propose.

They grant and change nothing. Each operator's manager decides for itself (`SeparateManagers`), or
one policy decides for all scaled operators (`JointManagers`); the manifest's policy declares which.
An `ObservedOperator` is an operator's model and state between two ticks; an `OperatorManager` also
has the policy that decides for it alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from weir_operator.flink.topology import Topology
from weir_operator.loop.proposals import Proposal
from weir_operator.metrics.keys import is_mixed
from weir_operator.metrics.values import AppMeasurement
from weir_operator.runtime.protocol import Replica
from weir_operator.streamapp.operators import Operator
from weir_policies.errors import StateError
from weir_policies.kernels.expectation import compile_predictions, predict_few
from weir_policies.model.cost import kind_of_change, normalised_cost
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.estimation import (
    WRONG,
    OperatorBelief,
    believe,
    learn_arrival_scv,
    learn_hot_share,
    learn_keys,
    learn_network_time,
    learn_services,
    note_error,
    without_network,
)
from weir_policies.model.keys import KeyShares
from weir_policies.model.node_types import Deployment
from weir_policies.policy import (
    ApplicationPolicy,
    ChangeKind,
    Compilable,
    CostParts,
    CostWeights,
    Decision,
    JoinsRestarts,
    Neighbourhood,
    Observation,
    OperatorModel,
    OperatorPolicy,
    Sharing,
    Transition,
)

State = Mapping[str, Any]
"""Plain JSON values."""

WEEK = 7 * 86_400.0
_MONDAY = 4 * 86_400.0  # the Unix epoch was a Thursday


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingTransition:
    """What was decided last, until its result is known."""

    before: Observation
    proposed: Deployment
    acting: bool = False
    """Whether it is carried out."""
    waited: bool = False
    """Whether it was being carried out, or was not settled, in an interval since."""
    missed: bool = False
    """Whether the objective was missed meanwhile."""

    def begin_acting(self) -> PendingTransition:
        """Return it while it is carried out."""
        return replace(self, acting=True)

    def held_up(self, *, missed: bool) -> PendingTransition | None:
        """Return it after such an interval; what another's change disturbs teaches nothing."""
        if not self.acting:
            return None
        return replace(self, waited=True, missed=self.missed or missed)

    def is_of(self, after: Observation) -> bool:
        """Return whether the decision led there; after a failed change, no decision did."""
        return not self.waited or after.deployment != self.before.deployment

    def ended_by(self, after: Observation) -> Transition:
        """Return what it teaches."""
        before = self.before
        types = before.model.node_types
        change = kind_of_change(before.deployment, after.deployment, types)
        late = self.missed or after.response_time > after.budget
        is_known = self.missed or not math.isnan(after.response_time)
        return Transition(
            observation=before,
            proposed=self.proposed,
            enacted=after.deployment,
            cost=CostParts(
                violation=float(late) if is_known else math.nan,
                resources=normalised_cost(
                    after.deployment,
                    types,
                    max_replicas=before.most_replicas or before.model.max_replicas,
                ),
                reconfiguration=float(change is ChangeKind.RESCALE),
            ),
            next_observation=after,
        )


class ObservedOperator:
    """One operator as its loop knows it: what is believed of it, and what was measured."""

    def __init__(
        self,
        *,
        model: OperatorModel,
        given: Collection[str],
        fixed: Deployment | None,
        most_replicas: int | None = None,
    ) -> None:
        self.name = model.name
        self.fixed = fixed
        self._most_replicas = most_replicas
        self._specified = model
        self.given = frozenset(given)
        """Names of the node types whose speedup the manifest gives."""
        self._belief = OperatorBelief()
        self._believed: OperatorModel | None = None

    @property
    def specified(self) -> OperatorModel:
        """The operator without anything in it that was measured."""
        return self._specified

    @property
    def model(self) -> OperatorModel:
        """The operator with everything in it that was measured."""
        if self._believed is None:
            self._believed = believe(self._belief, self._specified, given=self.given)
        return self._believed

    @property
    def is_corrected(self) -> bool:
        """Whether the waiting is not as the queueing model has it, but as was measured."""
        return self._belief.arrival_scv is not None

    def note_edges(
        self, *, keyed: bool, balanced: bool, sharing: Sharing | None, key_groups: int
    ) -> None:
        """Store how records reach the operator, from the job's plan."""
        follows_load = balanced and not keyed
        default = Sharing.BY_LOAD if follows_load else Sharing.EQUAL
        self._specified = replace(
            self._specified,
            keyed=keyed,
            sharing=sharing or default,
            key_groups=key_groups if keyed else None,
        )
        self._believed = None

    def observe(
        self,
        app: AppMeasurement,
        replicas: Sequence[Replica],
        *,
        deployment: Deployment,
        budget: float,
        first: bool,
        full: Collection[str] = (),
        weights: CostWeights | None = None,
        min_replicas: int = 1,
        keys: KeyShares | None = None,
        disturbed: bool = False,
    ) -> Observation:
        """Learn the beliefs of a healthy interval and return what is known now.

        Args:
            app: What was measured in the interval.
            replicas: Its replicas.
            deployment: The same as counts.
            budget: Seconds of response time granted by the AM.
            first: Whether a source feeds it, so that what waits there waits for it.
            full: Pools without room for more of its replicas.
            weights: How much each part of its cost matters; `None` takes the paper's. They come
                with each observation and are no part of what was learned, which they leave as it
                is.
            min_replicas: Replicas that it must have.
            keys: What was counted of its keys.
            disturbed: Whether records still waited for a restart.
        """
        measurement = app.operators[self.name]
        arriving = passing = measurement.arrival_rate
        if app.backlog > 0:
            # A backlog that is worked off passes too; `max` keeps an unknown arrival rate unknown.
            passing = max(arriving, measurement.processed_rate)
        belief = learn_services(self._belief, measurement.services)
        belief = learn_hot_share(
            belief, [each.served for each in measurement.replicas], self._specified
        )
        if keys is not None and is_mixed(deployment):
            keys = replace(keys, work=())
        belief = learn_keys(belief, keys, self._specified.max_replicas)
        believed = believe(belief, self._specified, given=self.given)
        average = without_network(believed)
        [(predicted, busiest)] = predict_few(average, [deployment], passing)
        response = measurement.response_time
        # Neither a backlog, nor what a restart left, nor a hot key, of which the mean says nothing,
        # is a fault of the model.
        if not (disturbed or app.source_wait > response / WRONG or believed.is_skewed):
            belief = note_error(
                belief, response_time=response, expected=predicted + believed.network_time
            )
        belief = learn_arrival_scv(
            belief,
            self._specified,
            passed=response - believed.network_time,
            utilisation=busiest,
            size=deployment.size,
            predict=lambda scv: predict_few(
                replace(average, arrival_scv=scv), [deployment], passing
            )[0][0],
        )
        if not disturbed:
            belief = learn_network_time(
                belief,
                response_time=response,
                predicted=predicted,
                # One that works off what waits, or has a hot key, is busier than is predicted.
                utilisation=max([busiest, *measurement.utilisation]),
            )
        self._belief = belief
        self._believed = None
        order = {t.name: place for place, t in enumerate(self._specified.node_types)}
        ranked = sorted(replicas, key=lambda r: (order.get(r.node_type, len(order)), r.id))
        busy = {replica.tm_id: replica.utilisation for replica in measurement.replicas}
        waiting = measurement.queue_records
        if first and not math.isnan(app.backlog):
            waiting = max(app.backlog, 0.0 if math.isnan(waiting) else waiting)
        if math.isnan(waiting):
            # The interval passed the gate, so this is not missing data: the job has no way to tell
            # (no helper, no latency markers, no backlog at its source), or nothing arrived.
            waiting = 0.0
        return Observation(
            time=app.end,
            time_of_week=((app.end - _MONDAY) % WEEK) / WEEK,
            interval=app.end - app.start,
            model=_within_full_pools(
                _within_splits(self.model, deployment, measurement.splits),
                deployment,
                full,
            ),
            deployment=deployment,
            # Behind the first operator, to which alone the backlog is shown, what passes that one
            # is what arrives.
            rate=arriving if first else passing,
            processed=measurement.processed_rate,
            response_time=measurement.response_time,
            utilisation=tuple(busy.get(replica.id, math.nan) for replica in ranked),
            backlog=waiting,
            replica_ages=tuple(max(0.0, app.end - each.started) for each in ranked),
            budget=budget,
            weights=CostWeights() if weights is None else weights,
            most_replicas=self._most_replicas,
            offered_rate=arriving,
            # What waits at the sources waits for the first operators: it is their own backlog.
            upstream_backlog=0.0 if first else measurement.upstream_backlog,
            min_replicas=min_replicas,
        )

    def forget(self) -> None:
        """Start over: no belief is kept."""
        self._belief = OperatorBelief()
        self._believed = None

    def state_dict(self) -> dict[str, Any]:
        """Return everything learned as plain JSON values."""
        return {"belief": self._belief.to_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            StateError: It is of another version.
        """
        self._belief = OperatorBelief.from_dict(state["belief"])
        self._believed = None


class OperatorManager(ObservedOperator):
    """The loop of one operator whose policy decides for it alone."""

    def __init__(
        self,
        *,
        model: OperatorModel,
        given: Collection[str],
        policy: OperatorPolicy,
        fixed: Deployment | None,
        neighbourhood: Neighbourhood = Neighbourhood.ANY,
        most_replicas: int | None = None,
        fallback_policy: OperatorPolicy | None = None,
    ) -> None:
        super().__init__(model=model, given=given, fixed=fixed, most_replicas=most_replicas)
        self._neighbourhood = neighbourhood
        self._policy = policy
        self._new_fallback_policy = fallback_policy
        self._fallback_policy = fallback_policy
        self.uses_fallback_policy = False
        """Whether the fallback policy made the last decision."""
        self._initial_state = dict(policy.state_dict())
        self._lesson: PendingTransition | None = None

    def compile(self) -> None:
        """Compile the policy before it is asked, where it is compiled: it may take a minute."""
        for policy in (self._policy, self._fallback_policy):
            if isinstance(policy, Compilable):
                policy.compile()

    @property
    def neighbourhood(self) -> Neighbourhood:
        """Which targets are proposed; a fallback policy proposes any."""
        return Neighbourhood.ANY if self.in_training else self._neighbourhood

    @property
    def in_training(self) -> bool:
        """Whether a fallback policy decides because the policy has not been trained yet."""
        return self._fallback_policy is not None

    def promote(self, state: Mapping[str, Any]) -> None:
        """Use the policy from now on, with what it has learned in a simulator.

        Raises:
            StateError: The state is another policy's, or of another version.
        """
        self._policy.load_state_dict(state)
        self._fallback_policy = None
        self._lesson = None  # what it did not decide teaches it nothing

    def propose(self, observation: Observation) -> Proposal:
        """Learn from the last interval, then decide."""
        decision = self._learn_and_decide(observation)
        self.uses_fallback_policy = self.in_training
        self._lesson = PendingTransition(before=observation, proposed=decision.target)
        return Proposal(observation=observation, decision=decision)

    def join_restart(
        self, observation: Observation, *, taken: Mapping[str, int]
    ) -> Proposal | None:
        """Decide again at the same tick, because the job is restarted for another operator.

        Args:
            observation: The one on which it decided.
            taken: Replicas of each pool that the other operators have, or get if that is more.

        Returns:
            What is proposed instead; `None` where the policy makes no use of it.
        """
        policy = self._deciding
        joins = isinstance(policy, JoinsRestarts) and policy.joins_restarts
        if not joins or self._lesson is None:
            return None
        model = _within_room(observation.model, self.model, taken)
        known = replace(observation, model=model, restarts_anyway=True)
        decision = policy.decide(known)
        self._lesson = PendingTransition(before=observation, proposed=decision.target)
        return Proposal(observation=known, decision=decision)

    def _learn_and_decide(self, observation: Observation) -> Decision:
        if self._lesson is not None and self._lesson.is_of(observation):
            self._deciding.learn(self._lesson.ended_by(observation))
        return self._deciding.decide(observation)

    def act(self) -> None:
        """Note that its last proposal is carried out, so that it learns from the result."""
        if self._lesson is not None:
            self._lesson = self._lesson.begin_acting()

    def imagine(self, observation: Observation) -> Proposal:
        """Decide on what is only imagined: nothing is learned from it or remembered of it."""
        return Proposal(observation=observation, decision=self._deciding.decide(observation))

    def wait(self, *, missed: bool) -> None:
        """Pass over an interval in which a change was carried out or not settled yet.

        Where the change is its own, the interval before is kept and ends with the next that is
        observed, or a policy would never learn what its restarts cost. Else it is forgotten.
        Where it missed the objective, that counts as a cost of the change.
        """
        if self._lesson is not None:
            self._lesson = self._lesson.held_up(missed=missed)

    def skip(self) -> None:
        """Forget the last interval: what follows it was not observed, so nothing is learned."""
        self._lesson = None

    def forget(self) -> None:
        """Start over: neither the belief nor what the policy learned is kept."""
        super().forget()
        self._policy.load_state_dict(self._initial_state)
        self._fallback_policy = self._new_fallback_policy
        self._lesson = None

    def state_dict(self) -> dict[str, Any]:
        """Return everything learned as plain JSON values."""
        state = super().state_dict() | {"policy": dict(self._policy.state_dict())}
        # Only of policies that are trained at all: others have nothing to say of it.
        return (
            state
            if self._new_fallback_policy is None
            else state | {"trained": not self.in_training}
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            StateError: It is of another version, or damaged.
        """
        with refusing_foreign_state():
            super().load_state_dict(state)
            self._policy.load_state_dict(state["policy"])
        self._fallback_policy = None if state.get("trained") else self._new_fallback_policy

    @property
    def _deciding(self) -> OperatorPolicy:
        return self._fallback_policy or self._policy


@contextmanager
def refusing_foreign_state() -> Iterator[None]:
    """Turn what a state of another form leads to into one error.

    Raises:
        StateError: The state is of another form.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"Expected a state that fits the policy, got {type(error).__name__}: {error}"
        ) from error


def _within_splits(model: OperatorModel, deployment: Deployment, splits: float) -> OperatorModel:
    """Return the model in which no pool takes more replicas than the source has splits.

    Pools and not `max_replicas` are limited, which is the size of what policies have learned.
    `cut_to_splits` keeps all pools together within the splits. Splits are dealt as key groups are:
    of 7 over 4 readers, the fullest has 2.
    """
    if math.isnan(splits):
        return model
    held = deployment.per_pool(model.node_types)
    types = tuple(
        replace(
            each,
            pool_limit=min(
                max(int(splits), held.get(each.pool, 0)),
                model.max_replicas if each.pool_limit is None else each.pool_limit,
            ),
        )
        for each in model.node_types
    )
    return replace(model, node_types=types, keyed=True, key_groups=max(int(splits), 1))


def _within_full_pools(
    model: OperatorModel, deployment: Deployment, full: Collection[str]
) -> OperatorModel:
    if not full:
        return model
    held = deployment.per_pool(model.node_types)
    types = tuple(
        replace(each, pool_limit=held.get(each.pool, 0)) if each.pool in full else each
        for each in model.node_types
    )
    return replace(model, node_types=types)


def _within_room(
    model: OperatorModel, whole: OperatorModel, taken: Mapping[str, int]
) -> OperatorModel:
    types = tuple(
        each
        if each.pool_limit is None or limited.pool_limit is None
        else replace(
            each,
            pool_limit=min(each.pool_limit, max(limited.pool_limit - taken.get(each.pool, 0), 0)),
        )
        for each, limited in zip(model.node_types, whole.node_types, strict=True)
    )
    return replace(model, node_types=types)


class Managers(Mapping[str, ObservedOperator], ABC):
    """All operators of a StreamApp by name, the fixed ones included, and what decides for them."""

    def __init__(self, operators: Mapping[str, ObservedOperator]) -> None:
        self._operators = dict(operators)

    def __getitem__(self, name: str) -> ObservedOperator:
        """Return what is known of an operator."""
        return self._operators[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the operators' names."""
        return iter(self._operators)

    def __len__(self) -> int:
        """Return the number of operators."""
        return len(self._operators)

    def note_edges(
        self, topology: Topology, operators: Mapping[str, Operator], *, key_groups: int
    ) -> None:
        """Store how records reach the operators in a run that has just begun."""
        self.wait(missed=False)
        for name, manager in self.items():
            into = [edge for edge in topology.edges if edge.target == name]
            manager.note_edges(
                keyed=any(edge.keyed for edge in into),
                balanced=any(edge.balanced for edge in into),
                sharing=operators[name].sharing,
                key_groups=key_groups,
            )

    @abstractmethod
    def propose(
        self, observations: Mapping[str, Observation], dataflow: Dataflow
    ) -> dict[str, Proposal]:
        """Learn from the last interval, then decide.

        Returns:
            A proposal of each operator that is scaled. Its observation says whether the decision
            counts on a restart that another operator needs.

        Raises:
            TemporaryError: There is no room for a policy's tables, and no fallback policy.
        """

    @abstractmethod
    def imagine(
        self,
        observations: Mapping[str, Observation],
        dataflow: Dataflow,
        *,
        differing: Collection[str],
    ) -> dict[str, Proposal]:
        """Decide on hypothetical observations, without learning or remembering.

        Args:
            observations: Of all operators.
            dataflow: All operators.
            differing: Scaled operators whose observation is another than in the last `propose`.

        Returns:
            A proposal of each operator whose decision may differ from the last one proposed.
        """

    @abstractmethod
    def act(self, granted: Collection[str]) -> None:
        """Note that the last proposals of at least one operator are carried out."""

    @abstractmethod
    def wait(self, *, missed: bool) -> None:
        """Pass over an interval in which a change was carried out or not settled yet."""

    @abstractmethod
    def skip(self) -> None:
        """Forget the last interval: what follows it was not observed, so nothing is learned."""

    @abstractmethod
    def forget(self) -> None:
        """Start over: neither beliefs nor what policies learned is kept."""

    @property
    @abstractmethod
    def neighbourhoods(self) -> Mapping[str, Neighbourhood]:
        """Which targets are proposed, by operator."""

    @abstractmethod
    def uses_fallback_policy(self, name: str) -> bool:
        """Return whether a fallback policy made an operator's last decision."""

    @property
    @abstractmethod
    def in_training(self) -> tuple[str, ...]:
        """Operators for which a fallback policy decides because the policy is not trained yet."""

    @abstractmethod
    def promote(self, trained: Mapping[str, State], application: State | None) -> tuple[str, ...]:
        """Use the policies from now on, with what they have learned in a simulator.

        Returns:
            Operators for which that holds from now on and did not before.

        Raises:
            StateError: A state is another policy's, or of another version.
        """

    @abstractmethod
    def application_state(self) -> dict[str, Any] | None:
        """Return what was learned for all operators at once; `None` where each learns for itself.

        What each operator has learned is in its own `state_dict`.
        """

    @abstractmethod
    def load_application_state(self, state: State) -> None:
        """Restore what `application_state` returned.

        Raises:
            StateError: It is another policy's, or of another version.
        """

    @abstractmethod
    def compile(self) -> None:
        """Compile policies before they are asked, where they are compiled: it may take a minute."""


def count_taken(
    name: str, observations: Mapping[str, Observation], proposals: Mapping[str, Proposal]
) -> dict[str, int]:
    """Return the replicas of each pool that the other operators have, or get if that is more."""
    taken: dict[str, int] = {}
    for other, seen in observations.items():
        if other == name:
            continue
        there = proposals[other].decision.target if other in proposals else seen.deployment
        pairs = zip(seen.model.node_types, seen.deployment, there, strict=True)
        for node_type, now, then in pairs:
            taken[node_type.pool] = taken.get(node_type.pool, 0) + max(now, then)
    return taken


class SeparateManagers(Managers):
    """Each operator's manager decides for itself."""

    def __init__(self, managers: Mapping[str, OperatorManager]) -> None:
        super().__init__(managers)
        self._managers = dict(managers)

    def __getitem__(self, name: str) -> OperatorManager:
        """Return an operator's manager."""
        return self._managers[name]

    def propose(
        self, observations: Mapping[str, Observation], dataflow: Dataflow
    ) -> dict[str, Proposal]:
        """Make every scaled operator's manager learn, then decide.

        Where a decision restarts the job, the other managers decide again, knowing that: one
        restart then serves several operators.
        """
        proposals = {
            name: self._managers[name].propose(seen)
            for name, seen in observations.items()
            if self._managers[name].fixed is None
        }
        restarting = {name for name, each in proposals.items() if each.kind is ChangeKind.RESCALE}
        for name in [each for each in proposals if restarting and each not in restarting]:
            taken = count_taken(name, observations, proposals)
            again = self._managers[name].join_restart(observations[name], taken=taken)
            if again is not None:
                proposals[name] = again
        return proposals

    def imagine(
        self,
        observations: Mapping[str, Observation],
        dataflow: Dataflow,
        *,
        differing: Collection[str],
    ) -> dict[str, Proposal]:
        """Decide again for operators whose own observation differs."""
        return {name: self._managers[name].imagine(observations[name]) for name in differing}

    def act(self, granted: Collection[str]) -> None:
        """Tell the managers whose proposals are carried out."""
        for name in granted:
            self._managers[name].act()

    def wait(self, *, missed: bool) -> None:
        """Make all managers pass over an interval."""
        for manager in self._managers.values():
            manager.wait(missed=missed)

    def skip(self) -> None:
        """Make all managers forget the last interval."""
        for manager in self._managers.values():
            manager.skip()

    def forget(self) -> None:
        """Make all managers start over."""
        for manager in self._managers.values():
            manager.forget()

    @property
    def neighbourhoods(self) -> Mapping[str, Neighbourhood]:
        """Which targets are proposed, by operator."""
        return {name: manager.neighbourhood for name, manager in self._managers.items()}

    def uses_fallback_policy(self, name: str) -> bool:
        """Return whether a fallback policy made an operator's last decision."""
        return self._managers[name].uses_fallback_policy

    @property
    def in_training(self) -> tuple[str, ...]:
        """Operators for which a fallback policy decides because their policy is not trained yet."""
        return tuple(name for name, manager in self._managers.items() if manager.in_training)

    def promote(self, trained: Mapping[str, State], application: State | None) -> tuple[str, ...]:
        """Use the policies of some operators from now on."""
        waiting = [name for name in trained if self._managers[name].in_training]
        for name in waiting:
            self._managers[name].promote(trained[name])
        return tuple(waiting)

    def application_state(self) -> None:
        """Return `None`: each operator learns for itself."""

    def load_application_state(self, state: State) -> None:
        """Leave it: it is of a policy that decided for all operators."""

    def compile(self) -> None:
        """Compile predictions, and the policy of every operator."""
        compile_predictions()
        for manager in self._managers.values():
            manager.compile()


class JointManagers(Managers):
    """One policy decides for all operators that are scaled.

    An interval teaches it only what was observed of all of them. A change is its own, whichever
    operators it was granted for: it learns its result.
    """

    def __init__(
        self,
        operators: Mapping[str, ObservedOperator],
        *,
        policy: ApplicationPolicy,
        neighbourhood: Neighbourhood,
        fallback_policies: Mapping[str, OperatorPolicy] | None = None,
    ) -> None:
        """Begin with nothing learned.

        Args:
            operators: All operators of the StreamApp, the fixed ones included.
            policy: What decides for those that are scaled.
            neighbourhood: Which targets it proposes.
            fallback_policies: Decide for each of them until the policy was trained; `None` where
                none are needed.
        """
        super().__init__(operators)
        self._policy = policy
        self._neighbourhood = neighbourhood
        self._new_fallback_policies = fallback_policies
        self._fallback_policies = fallback_policies
        self._fell_back = False
        self._initial_state = dict(policy.state_dict())
        self._lessons: dict[str, PendingTransition] = {}

    def propose(
        self, observations: Mapping[str, Observation], dataflow: Dataflow
    ) -> dict[str, Proposal]:
        """Make the policy learn, then decide for all scaled operators."""
        scaled = self._leave_out_fixed(dataflow)
        if scaled is None:
            return {}
        seen = {name: observations[name] for name in scaled.operators}
        fallbacks = self._fallback_policies
        self._fell_back = fallbacks is not None
        if fallbacks is None:
            self._policy.learn(self._end_intervals(seen), scaled)
            decisions = dict(self._policy.decide(seen, scaled))
        else:
            for name, transition in self._end_own_intervals(seen).items():
                fallbacks[name].learn(transition)
            decisions = {name: fallbacks[name].decide(each) for name, each in seen.items()}
        self._lessons = {
            name: PendingTransition(before=seen[name], proposed=decision.target)
            for name, decision in decisions.items()
        }
        return pair_with_observations(seen, decisions)

    def imagine(
        self,
        observations: Mapping[str, Observation],
        dataflow: Dataflow,
        *,
        differing: Collection[str],
    ) -> dict[str, Proposal]:
        """Decide again for all operators if one operator's observation differs."""
        scaled = self._leave_out_fixed(dataflow)
        if scaled is None or not differing:
            return {}
        if self._fallback_policies is not None:
            fallbacks = self._fallback_policies
            decisions = {name: fallbacks[name].decide(observations[name]) for name in differing}
            return pair_with_observations(observations, decisions)
        seen = {name: observations[name] for name in scaled.operators}
        return pair_with_observations(seen, self._policy.decide(seen, scaled))

    def act(self, granted: Collection[str]) -> None:
        """Note that the joint decision is carried out, as far as it was granted."""
        acting = granted if self.in_training else self._lessons.keys()
        for name in acting:
            if name in self._lessons:
                self._lessons[name] = self._lessons[name].begin_acting()

    def wait(self, *, missed: bool) -> None:
        """Pass over an interval; what another's change disturbs teaches nothing."""
        held = {name: each.held_up(missed=missed) for name, each in self._lessons.items()}
        self._lessons = {name: each for name, each in held.items() if each is not None}

    def skip(self) -> None:
        """Forget the last interval."""
        self._lessons = {}

    def forget(self) -> None:
        """Start over."""
        for operator in self._operators.values():
            operator.forget()
        self._policy.load_state_dict(self._initial_state)
        self._fallback_policies = self._new_fallback_policies
        self._lessons = {}

    @property
    def neighbourhoods(self) -> Mapping[str, Neighbourhood]:
        """Which targets are proposed: the same for all; fallback policies propose any."""
        neighbourhood = Neighbourhood.ANY if self.in_training else self._neighbourhood
        return dict.fromkeys(self._operators, neighbourhood)

    def uses_fallback_policy(self, name: str) -> bool:
        """Return whether fallback policies made the last decisions."""
        return self._fell_back

    @property
    def in_training(self) -> tuple[str, ...]:
        """All scaled operators while the policy is not trained yet."""
        return () if self._fallback_policies is None else tuple(self._fallback_policies)

    def promote(self, trained: Mapping[str, State], application: State | None) -> tuple[str, ...]:
        """Use the policy from now on."""
        waiting = self.in_training
        if application is None or not waiting:
            return ()
        self._policy.load_state_dict(application)
        self._fallback_policies = None
        self._lessons = {}  # what it did not decide teaches it nothing
        return waiting

    def application_state(self) -> dict[str, Any]:
        """Return what the policy has learned, and whether it was trained."""
        state: dict[str, Any] = {"policy": dict(self._policy.state_dict())}
        # Only of policies that are trained at all: others have nothing to say of it.
        if self._new_fallback_policies is not None:
            state["trained"] = not self.in_training
        return state

    def load_application_state(self, state: State) -> None:
        """Restore what the policy had learned."""
        with refusing_foreign_state():
            self._policy.load_state_dict(state["policy"])
        self._fallback_policies = None if state.get("trained") else self._new_fallback_policies

    def compile(self) -> None:
        """Compile predictions, the policy, and its fallback policies."""
        compile_predictions()
        for policy in (self._policy, *(self._new_fallback_policies or {}).values()):
            if isinstance(policy, Compilable):
                policy.compile()

    def _leave_out_fixed(self, dataflow: Dataflow) -> Dataflow | None:
        names = dataflow.operators
        return dataflow.without([each for each in names if self._operators[each].fixed is not None])

    def _end_intervals(self, seen: Mapping[str, Observation]) -> dict[str, Transition]:
        """Return what the last interval teaches of all operators; empty where of any it does not.

        After a change some operators may be where they were: it was the policy's all the same,
        unless it failed, and all are.
        """
        lessons = self._lessons
        if lessons.keys() != seen.keys() or not any(
            lessons[name].is_of(each) for name, each in seen.items()
        ):
            return {}
        return {name: lessons[name].ended_by(each) for name, each in seen.items()}

    def _end_own_intervals(self, seen: Mapping[str, Observation]) -> dict[str, Transition]:
        """Return what the last interval teaches each operator's fallback policy."""
        return {
            name: lesson.ended_by(seen[name])
            for name, lesson in self._lessons.items()
            if name in seen and lesson.is_of(seen[name])
        }


def pair_with_observations(
    observations: Mapping[str, Observation], decisions: Mapping[str, Decision]
) -> dict[str, Proposal]:
    """Return each operator's decision as a proposal, with the observation that led to it."""
    return {
        name: Proposal(observation=observations[name], decision=decision)
        for name, decision in decisions.items()
    }
