"""The managers of one StreamApp, and how they decide.

Each operator's manager decides for itself (`SeparateManagers`), or one policy decides for all
scaled operators (`JointManagers`). The manifest's policy declares which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from weir_operator.loop.operator_manager import (
    ObservedOperator,
    OperatorManager,
    PendingTransition,
    refusing_foreign_state,
)
from weir_operator.loop.proposals import Proposal
from weir_policies.kernels.expectation import compile_predictions
from weir_policies.kernels.table_storage import TableStorage
from weir_policies.model.dataflow import Dataflow
from weir_policies.policy import (
    ApplicationPolicy,
    ChangeKind,
    Compilable,
    Decision,
    Neighbourhood,
    Observation,
    OperatorPolicy,
    Transition,
)

State = Mapping[str, Any]
"""Plain JSON values."""


class Managers(Mapping[str, ObservedOperator], ABC):
    """All operators of a StreamApp by name, the fixed ones included, and what decides for them."""

    def __init__(self, operators: Mapping[str, ObservedOperator]) -> None:
        """Create managers for the operators."""
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
        """Pass over an interval in which a change was carried out or not settled yet.

        Args:
            missed: Whether the objective was, which counts as a cost of the change.
        """

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
        """Return whether not the policy but one in its place made an operator's last decision."""

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

    def fetch_tables(self) -> None:
        """Begin to bring policies' tables into memory, because `propose` comes next."""

    @abstractmethod
    def store_tables(self, storage: TableStorage) -> None:
        """Store large tables of policies in `storage`."""


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
        """Create it for the managers of all operators, fixed ones included."""
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
        """Return whether not the policy but one in its place made an operator's last decision."""
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

    def fetch_tables(self) -> None:
        """Begin to bring the tables of all managers into memory."""
        for manager in self._managers.values():
            manager.fetch_tables()

    def store_tables(self, storage: TableStorage) -> None:
        """Store large tables of every operator's policy in `storage`."""
        for manager in self._managers.values():
            manager.store_tables(storage)


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
        """Which targets are proposed: the same for all; a stand-in proposes any."""
        neighbourhood = Neighbourhood.ANY if self.in_training else self._neighbourhood
        return dict.fromkeys(self._operators, neighbourhood)

    def uses_fallback_policy(self, name: str) -> bool:
        """Return whether stand-ins made the last decisions."""
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
        """Compile predictions, the policy, and those that stand in for it."""
        compile_predictions()
        for policy in (self._policy, *(self._new_fallback_policies or {}).values()):
            if isinstance(policy, Compilable):
                policy.compile()

    def store_tables(self, storage: TableStorage) -> None:
        """Keep them in memory: there is one policy for all operators, so they are few."""

    def _leave_out_fixed(self, dataflow: Dataflow) -> Dataflow | None:
        """Return the dataflow of the operators that are scaled; `None` where none is."""
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
        """Return what the last interval teaches each operator's stand-in."""
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
