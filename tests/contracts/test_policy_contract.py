"""What `weir_policies.policy` promises, for every policy that is registered."""

from __future__ import annotations

import json
import math
import random
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_policies import registry
from weir_policies.errors import ParameterError, UnknownPolicyError
from weir_policies.model.deployments import within_reach
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import Neighbourhood, OperatorPolicy, Sharing
from weir_policies.testing import a_model, a_transition, an_observation

CLOCKS = [name for name in dir(time) if name.removesuffix("_ns") in {
    "time", "monotonic", "perf_counter", "process_time", "thread_time"
}]  # fmt: skip
GLOBAL_DRAWS = ["random", "rand", "randn", "randint", "normal", "uniform", "choice", "default_rng"]

MISSING: dict[str, dict[str, Any]] = {
    "rate": {"rate": math.nan},
    "utilisation": {"utilisation": (0.5, math.nan)},
    "everything": {
        **dict.fromkeys(("rate", "processed", "response_time", "backlog", "budget"), math.nan),
        "utilisation": (math.nan, math.nan),
    },
}


def build(name):
    return registry.build(name, rng=np.random.default_rng(7))


@pytest.fixture(params=registry.names())  # a new policy brings its tests by being registered
def name(request):
    return request.param


@pytest.fixture
def policy(name):
    return build(name)


def learn_a_day(policy, seed=3):
    """Feed a policy a day whose rate rises and falls, following what it decides."""
    rng = np.random.default_rng(seed)
    deployment = Deployment((0, 2, 0))
    observation = an_observation(deployment=deployment)
    decisions = []
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
def observations(draw):
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
        if limits[pool] is None or held < limits[pool]:
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


def test_it_is_an_operator_policy(policy):
    assert isinstance(policy, OperatorPolicy)


@pytest.mark.parametrize("gone", MISSING.values(), ids=MISSING.keys())
def test_missing_data_means_do_nothing_and_says_why(policy, gone):
    learn_a_day(policy)
    deployment = Deployment((0, 2, 0))
    seen: dict[str, Any] = {"deployment": deployment, "rate": 900.0, **gone}
    unknown = an_observation(**seen)

    decision = policy.decide(unknown)

    assert decision.target == deployment
    assert decision.urgency == 0
    assert "not known" in decision.reason


def test_it_reads_no_clock_and_draws_only_from_its_generator(policy, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("a policy asked the world outside")

    before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    for clock in CLOCKS:
        monkeypatch.setattr(time, clock, refuse)
    for draw in GLOBAL_DRAWS:
        monkeypatch.setattr(np.random, draw, refuse)
    monkeypatch.setattr(random, "random", refuse)

    decisions = learn_without_generator(policy)

    monkeypatch.undo()
    assert len(decisions) == 3
    assert (random.getstate(), repr(np.random.get_state())) == before  # noqa: NPY002


def learn_without_generator(policy):
    rates = (100.0, 900.0, 10.0)
    seen = [an_observation(rate=rate) for rate in rates]
    decisions = []
    for observation, following in zip(seen, [*seen[1:], seen[0]], strict=True):
        decisions.append(policy.decide(observation))
        policy.learn(a_transition(observation, following))
    return decisions


def test_deciding_changes_nothing_and_equal_inputs_give_equal_decisions(policy):
    learn_a_day(policy)
    state = json.dumps(policy.state_dict())
    observation = an_observation(rate=700.0)

    first, again = policy.decide(observation), policy.decide(observation)

    assert first == again
    assert json.dumps(policy.state_dict()) == state


def test_the_same_seed_and_day_give_the_same_decisions(name):
    assert learn_a_day(build(name)) == learn_a_day(build(name))


def test_learned_state_survives_a_round_trip_bit_for_bit(name):
    taught, restored = build(name), build(name)
    learn_a_day(taught)
    stored = json.dumps(taught.state_dict(), allow_nan=False)

    restored.load_state_dict(json.loads(stored))

    assert json.dumps(restored.state_dict(), allow_nan=False) == stored
    assert learn_a_day(restored, seed=4) == learn_a_day(taught, seed=4)


def test_stored_state_is_no_window_into_the_policy(policy):
    learn_a_day(policy)
    stored = policy.state_dict()
    before = json.dumps(stored)

    learn_a_day(policy, seed=9)

    assert json.dumps(stored) == before


@pytest.mark.parametrize("each", registry.names())
@given(observation=observations(), previous=observations())
def test_no_target_leaves_the_bounds_or_the_neighbourhood(each, observation, previous):
    policy = build(each)
    model, here = observation.model, observation.deployment
    for _ in range(3):
        policy.learn(a_transition(replace(previous, deployment=here, model=model), observation))

    decision = policy.decide(observation)

    assert 1 <= decision.target.size <= model.max_replicas
    held = decision.target.per_pool(model.node_types)
    for node_type in model.node_types:
        if node_type.pool_limit is not None:
            assert held.get(node_type.pool, 0) <= node_type.pool_limit
    if registry.neighbourhood(each) is Neighbourhood.ONE:
        assert decision.target in within_reach(here, k_max=model.max_replicas)


@pytest.mark.parametrize("each", registry.names())
@given(observation=observations())
def test_a_decision_carries_its_candidates_and_what_it_expects(each, observation):
    decision = build(each).decide(observation)

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


def test_a_parameter_that_does_not_exist_is_refused_by_name(name):
    with pytest.raises(ParameterError, match=f"parameter of {name} out of .*'haste' = 3"):
        registry.build(name, rng=np.random.default_rng(7), parameters={"haste": 3})


def test_a_policy_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(UnknownPolicyError, match=r"queueing.*got 'oracle'"):
        registry.build("oracle", rng=np.random.default_rng(7))
