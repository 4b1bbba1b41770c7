"""What every policy promises, as tests: for the tests of a package that brings its own.

    from weir_policies.testing.contract import PolicyContract

    class TestSingle(PolicyContract):
        name = "single"

Run by pytest, it checks the policy that is registered, or declared by an installed package, under
this name: no clock, randomness only from the given generator, missing data means "do nothing" with
a reason, equal inputs give equal decisions, no target out of bounds, and a state that survives a
round trip. `ApplicationPolicyContract` checks the same of one that decides for all operators of an
application. Needs pytest and hypothesis.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.deployments import within_reach
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import (
    ApplicationPolicy,
    Decision,
    Neighbourhood,
    Observation,
    OperatorPolicy,
    Sharing,
)
from weir_policies.testing import a_model, a_transition, an_observation

_CLOCKS = [name for name in dir(time) if name.removesuffix("_ns") in {
    "time", "monotonic", "perf_counter", "process_time", "thread_time"
}]  # fmt: skip
_GLOBAL_DRAWS = ["random", "rand", "randn", "randint", "normal", "uniform", "choice", "default_rng"]

_MISSING: dict[str, dict[str, Any]] = {
    "rate": {"rate": math.nan},
    "utilisation": {"utilisation": (0.5, math.nan)},
    "everything": {
        **dict.fromkeys(("rate", "processed", "response_time", "backlog", "budget"), math.nan),
        "utilisation": (math.nan, math.nan),
    },
}


def learn_a_day(policy: OperatorPolicy, seed: int = 3) -> list[Decision]:
    """Teach a policy a day whose rate rises and falls; return what it decided on the way."""
    rng = np.random.default_rng(seed)
    deployment = Deployment((0, 2, 0))
    observation = an_observation(deployment=deployment)
    decisions: list[Decision] = []
    for step in range(40):
        decision = policy.decide(observation)
        decisions.append(decision)
        rate = float(150 + 140 * np.sin(step / 6) + rng.normal(0, 5))
        following = an_observation(
            deployment=decision.target, rate=rate, time=60.0 * step, backlog=float(step % 7)
        )
        policy.learn(a_transition(observation, following))
        observation = following
    return decisions


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    """Draw an observation: any rate and deployment, of some node types in two pools."""
    count = draw(st.integers(1, 4))
    limits = draw(st.lists(st.one_of(st.none(), st.integers(1, 5)), min_size=2, max_size=2))
    node_types = tuple(
        NodeType(
            name=f"type-{place}",
            pool=f"pool-{place % 2}",
            speedup=draw(st.floats(0.2, 4)),
            price=draw(st.floats(0.01, 1)),
            pool_limit=limits[place % 2],
        )
        for place in range(count)
    )
    max_replicas = draw(st.integers(1, 8))
    model = a_model(
        node_types=node_types,
        max_replicas=max_replicas,
        sharing=draw(st.sampled_from(Sharing)),
        keyed=draw(st.booleans()),
    )
    counts = [0] * count
    for place in draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=max_replicas)):
        pool = place % 2
        held = sum(counts[pool::2])
        if (limit := limits[pool]) is None or held < limit:
            counts[place] += 1
    deployment = Deployment(tuple(counts))
    share = st.floats(0, 1)
    return an_observation(
        model=model,
        deployment=deployment,
        rate=draw(st.floats(0, 3000)),
        processed=draw(st.floats(0, 3000)),
        backlog=draw(st.floats(0, 1e6)),
        budget=draw(st.floats(0.001, 1)),
        utilisation=tuple(draw(share) for _ in range(deployment.size)),
    )


def _learn_three_intervals(policy: OperatorPolicy) -> list[Decision]:
    rates = (100.0, 900.0, 10.0)
    seen = [an_observation(rate=rate) for rate in rates]
    decisions = []
    for observation, following in zip(seen, [*seen[1:], seen[0]], strict=True):
        decisions.append(policy.decide(observation))
        policy.learn(a_transition(observation, following))
    return decisions


_FOR_EACH = settings(deadline=None, suppress_health_check=[HealthCheck.differing_executors])
"""The same test is run by each subclass: that is the point of it. A first call may compile."""


@contextmanager
def _no_world_outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse every clock and every draw but from a given generator."""

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a policy asked the world outside")

    before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    for clock in _CLOCKS:
        monkeypatch.setattr(time, clock, refuse)
    for draw in _GLOBAL_DRAWS:
        monkeypatch.setattr(np.random, draw, refuse)
    monkeypatch.setattr(random, "random", refuse)
    yield
    monkeypatch.undo()
    assert (random.getstate(), repr(np.random.get_state())) == before  # noqa: NPY002


def _check_bounds(
    decision: Decision, observation: Observation, neighbourhood: Neighbourhood
) -> None:
    model, here = observation.model, observation.deployment
    assert 1 <= decision.target.size <= model.max_replicas
    held = decision.target.per_pool(model.node_types)
    for node_type in model.node_types:
        if node_type.pool_limit is not None:
            assert held.get(node_type.pool, 0) <= node_type.pool_limit
    if neighbourhood is Neighbourhood.ONE:
        assert decision.target in within_reach(here, k_max=model.max_replicas)


def _check_explanation(decision: Decision, observation: Observation) -> None:
    chosen, *rejected = decision.candidates
    assert chosen.deployment == decision.target
    assert chosen.expectation == decision.expectation
    assert all(other.deployment != decision.target for other in rejected)
    assert all(chosen.score <= other.score for other in rejected)
    assert [other.score for other in rejected] == sorted(other.score for other in rejected)
    assert len(decision.candidates) <= 12
    assert all(
        candidate.verdict and "None" not in candidate.verdict for candidate in decision.candidates
    )
    assert decision.reason
    assert 0 <= decision.urgency <= 1
    assert (decision.urgency == 0) == (decision.target == observation.deployment)
    assert decision.expectation.cost_per_hour == pytest.approx(
        sum(
            count * node_type.price
            for count, node_type in zip(
                decision.target.counts, observation.model.node_types, strict=True
            )
        )
    )


class PolicyContract:
    """The contract of one policy; a subclass names it."""

    name: str

    def build(self) -> OperatorPolicy:
        """Return a new policy of that name."""
        return registry.build(self.name, rng=np.random.default_rng(7))

    def test_it_is_an_operator_policy(self) -> None:
        """It has all methods of an operator policy."""
        policy = self.build()
        assert isinstance(policy, OperatorPolicy)

    @pytest.mark.parametrize("gone", _MISSING.values(), ids=_MISSING.keys())
    def test_missing_data_means_do_nothing_and_says_why(self, gone: dict[str, Any]) -> None:
        """It stays where data is missing."""
        policy = self.build()
        learn_a_day(policy)
        deployment = Deployment((0, 2, 0))
        seen: dict[str, Any] = {"deployment": deployment, "rate": 900.0, **gone}
        unknown = an_observation(**seen)

        decision = policy.decide(unknown)

        assert decision.target == deployment
        assert decision.urgency == 0
        assert "not known" in decision.reason

    def test_it_reads_no_clock_and_draws_only_from_its_generator(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It asks nothing of the world outside."""
        policy = self.build()

        with _no_world_outside(monkeypatch):
            decisions = _learn_three_intervals(policy)

        assert len(decisions) == 3

    def test_deciding_changes_nothing_and_equal_inputs_give_equal_decisions(self) -> None:
        """To decide leaves no trace."""
        policy = self.build()
        learn_a_day(policy)
        state = json.dumps(policy.state_dict())
        observation = an_observation(rate=700.0)

        first, again = policy.decide(observation), policy.decide(observation)

        # As text: NaN, which stands for what is unknown, is not equal to itself.
        assert repr(first) == repr(again)
        assert json.dumps(policy.state_dict()) == state

    def test_the_same_seed_and_day_give_the_same_decisions(self) -> None:
        """Only the seed decides what is random."""
        assert repr(learn_a_day(self.build())) == repr(learn_a_day(self.build()))

    def test_learned_state_survives_a_round_trip_bit_for_bit(self) -> None:
        """What it has learned can be stored and restored."""
        taught, restored = self.build(), self.build()
        learn_a_day(taught)
        stored = json.dumps(taught.state_dict(), allow_nan=False)

        restored.load_state_dict(json.loads(stored))

        assert json.dumps(restored.state_dict(), allow_nan=False) == stored
        assert repr(learn_a_day(restored, seed=4)) == repr(learn_a_day(taught, seed=4))

    def test_stored_state_is_no_window_into_the_policy(self) -> None:
        """Stored state does not change later."""
        policy = self.build()
        learn_a_day(policy)
        stored = policy.state_dict()
        before = json.dumps(stored)

        learn_a_day(policy, seed=9)

        assert json.dumps(stored) == before

    @_FOR_EACH
    @given(observation=observations(), previous=observations())
    def test_no_target_leaves_the_bounds_or_the_neighbourhood(
        self, observation: Observation, previous: Observation
    ) -> None:
        """Limits of replicas and pools hold."""
        policy = self.build()
        model, here = observation.model, observation.deployment
        for _ in range(3):
            policy.learn(a_transition(replace(previous, deployment=here, model=model), observation))

        _check_bounds(
            policy.decide(observation), observation, registry.find(self.name).neighbourhood
        )

    @_FOR_EACH
    @given(observation=observations())
    def test_a_decision_carries_its_candidates_and_what_it_expects(
        self, observation: Observation
    ) -> None:
        """A decision can be explained."""
        decision = self.build().decide(observation)

        _check_explanation(decision, observation)

    def test_a_parameter_that_does_not_exist_is_refused_by_name(self) -> None:
        """A misspelt parameter is an error."""
        with pytest.raises(ParameterError, match=f"setting 'haste' of {self.name}"):
            registry.build(self.name, rng=np.random.default_rng(7), parameters={"haste": 3})


CHAIN = Dataflow(
    operators=("first", "middle", "last"),
    edges=(
        Edge(source="first", target="middle", selectivity=0.5),
        Edge(source="middle", target="last", selectivity=2.0),
    ),
)
"""What an `ApplicationPolicy` decides for where its promise is checked."""
_OWN_TYPES = {"first": (0, 1), "middle": (0, 1, 2), "last": (2,)}
"""Node types of each of its operators, by their place among all."""


def observe_chain(rate: float, *, time: float = 0.0, **counts: int) -> dict[str, Observation]:
    """Return observations of the operators of `CHAIN`, each with its own node types.

    Args:
        rate: Records/s at the source.
        time: Seconds.
        counts: Replicas by operator, all on its first node type; two where not given.
    """
    every = a_model().node_types
    seen = {}
    for name, arriving in CHAIN.spread_rates({"first": rate}).items():
        types = tuple(every[place] for place in _OWN_TYPES[name])
        replicas = counts.get(name, 2)
        seen[name] = an_observation(
            model=a_model(name=name, node_types=types, max_replicas=4),
            deployment=Deployment((replicas, *(0 for _ in types[1:]))),
            rate=arriving,
            processed=arriving,
            time=time,
            utilisation=(0.5,) * replicas,
            replica_ages=(600.0,) * replicas,
        )
    return seen


def learn_a_day_together(policy: ApplicationPolicy, seed: int = 3) -> list[Mapping[str, Decision]]:
    """Teach a policy a day of `CHAIN` whose rate rises and falls; return what it decided."""
    rng = np.random.default_rng(seed)
    seen = observe_chain(100.0)
    decisions: list[Mapping[str, Decision]] = []
    for step in range(30):
        decided = policy.decide(seen, CHAIN)
        decisions.append(decided)
        rate = max(float(120 + 110 * np.sin(step / 6) + rng.normal(0, 5)), 1.0)
        following = {
            name: _go_to(each, decided[name].target)
            for name, each in observe_chain(rate, time=60.0 * (step + 1)).items()
        }
        policy.learn({name: a_transition(seen[name], following[name]) for name in seen}, CHAIN)
        seen = following
    return decisions


def _go_to(observation: Observation, target: Deployment) -> Observation:
    replicas = target.size
    return replace(
        observation,
        deployment=target,
        utilisation=(0.5,) * replicas,
        replica_ages=(600.0,) * replicas,
    )


class ApplicationPolicyContract:
    """The contract of one policy that decides for a whole application; a subclass names it."""

    name: str
    parameters: Mapping[str, Any] = {}
    """With which it decides for all operators."""

    def build(self) -> ApplicationPolicy:
        """Return a new policy of that name."""
        rng = np.random.default_rng(7)
        return registry.build_joint(self.name, rng=rng, parameters=self.parameters)

    def test_it_is_an_application_policy_and_says_so(self) -> None:
        """It declares that it decides for all operators, and cannot be built for one."""
        assert isinstance(self.build(), ApplicationPolicy)
        assert registry.is_joint(self.name, self.parameters)
        with pytest.raises(ParameterError, match="decides for all"):
            registry.build(self.name, rng=np.random.default_rng(7), parameters=self.parameters)

    @pytest.mark.parametrize("gone", ["rate", "utilisation", "budget"])
    def test_missing_data_means_do_nothing_and_says_why(self, gone: str) -> None:
        """The operator of which something is not known stays."""
        policy = self.build()
        learn_a_day_together(policy)
        seen = observe_chain(900.0, time=3600.0)
        missing: dict[str, Any] = {gone: (math.nan,) * 2 if gone == "utilisation" else math.nan}
        seen["middle"] = replace(seen["middle"], **missing)

        decisions = policy.decide(seen, CHAIN)

        assert decisions.keys() == seen.keys()
        assert decisions["middle"].target == seen["middle"].deployment
        assert decisions["middle"].urgency == 0
        assert "not known" in decisions["middle"].reason

    def test_operators_that_were_not_observed_get_no_decision(self) -> None:
        """It decides for those that were observed, or holds them."""
        policy = self.build()
        seen = observe_chain(900.0)
        del seen["middle"]

        decisions = policy.decide(seen, CHAIN)

        assert decisions.keys() == {"first", "last"}
        assert all(decision.reason for decision in decisions.values())

    def test_an_interval_that_lacks_an_operator_teaches_nothing(self) -> None:
        """It learns of all operators or of none."""
        policy = self.build()
        learn_a_day_together(policy)
        state = json.dumps(policy.state_dict())
        seen, following = observe_chain(100.0, time=0.0), observe_chain(300.0, time=60.0)

        policy.learn(
            {name: a_transition(seen[name], following[name]) for name in ("first", "last")}, CHAIN
        )

        assert json.dumps(policy.state_dict()) == state

    def test_it_reads_no_clock_and_draws_only_from_its_generator(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It asks nothing of the world outside."""
        policy = self.build()
        seen, following = observe_chain(100.0, time=0.0), observe_chain(300.0, time=60.0)

        with _no_world_outside(monkeypatch):
            policy.learn({name: a_transition(seen[name], following[name]) for name in seen}, CHAIN)
            decisions = policy.decide(following, CHAIN)

        assert decisions.keys() == seen.keys()

    def test_deciding_changes_nothing_and_equal_inputs_give_equal_decisions(self) -> None:
        """To decide leaves no trace."""
        policy = self.build()
        learn_a_day_together(policy)
        state = json.dumps(policy.state_dict())
        seen = observe_chain(250.0, time=3600.0)

        first, again = policy.decide(seen, CHAIN), policy.decide(seen, CHAIN)

        assert repr(first) == repr(again)
        assert json.dumps(policy.state_dict()) == state

    def test_the_same_seed_and_day_give_the_same_decisions(self) -> None:
        """Chance comes from the seed alone."""
        assert repr(learn_a_day_together(self.build())) == repr(learn_a_day_together(self.build()))

    def test_learned_state_survives_a_round_trip_bit_for_bit(self) -> None:
        """What it has learned can be stored and restored."""
        taught, restored = self.build(), self.build()
        learn_a_day_together(taught)
        stored = json.dumps(taught.state_dict(), allow_nan=False)

        restored.load_state_dict(json.loads(stored))

        assert json.dumps(restored.state_dict(), allow_nan=False) == stored
        assert repr(learn_a_day_together(restored, seed=4)) == repr(
            learn_a_day_together(taught, seed=4)
        )

    def test_stored_state_is_no_window_into_the_policy(self) -> None:
        """Stored state does not change later."""
        policy = self.build()
        learn_a_day_together(policy)
        stored = policy.state_dict()
        before = json.dumps(stored)

        learn_a_day_together(policy, seed=9)

        assert json.dumps(stored) == before

    @_FOR_EACH
    @given(
        rates=st.lists(st.floats(1.0, 2000.0), min_size=4, max_size=4),
        counts=st.fixed_dictionaries({name: st.integers(1, 4) for name in CHAIN.operators}),
    )
    def test_no_target_leaves_the_bounds_and_each_is_explained(
        self, rates: list[float], counts: dict[str, int]
    ) -> None:
        """Limits of replicas and pools hold for every operator, on node types of its own."""
        policy = self.build()
        days = [observe_chain(rate, time=60.0 * step, **counts) for step, rate in enumerate(rates)]
        for before, after in pairwise(days):
            policy.learn({name: a_transition(before[name], after[name]) for name in after}, CHAIN)

        decisions = policy.decide(days[-1], CHAIN)

        assert decisions.keys() == days[-1].keys()
        for name, decision in decisions.items():
            _check_bounds(decision, days[-1][name], registry.find(self.name).neighbourhood)
            _check_explanation(decision, days[-1][name])

    def test_a_parameter_that_does_not_exist_is_refused_by_name(self) -> None:
        """A misspelt parameter is an error."""
        with pytest.raises(ParameterError, match=f"setting 'haste' of {self.name}"):
            registry.refuse_parameters(self.name, {"haste": 3})
