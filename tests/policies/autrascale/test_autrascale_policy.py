"""`autrascale` as an operator's loop sees it: several operators, one policy."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import StateError
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import NEEDED
from weir_policies.testing import a_model, a_transition, an_observation
from weir_simulator.contention import word_count

NAMES = ("source", "tokenize", "count", "sink")
ONE_TYPE = (NodeType(name="t", pool="p", speedup=1.0, price=1.0),)
RATE = 350e3
SETTINGS = {"settle": 60.0}


def adapters(seed=7, **parameters):
    rngs = [np.random.default_rng([seed, row]) for row in range(len(NAMES))]
    return registry.build_all("autrascale", rngs=rngs, parameters=SETTINGS | parameters)


def observe(truth, parallelism, now, *, rate=RATE, lag=0.0, bound=0.18):
    """Return what each operator's manager sees of an application under contention."""
    seen = truth.measure(parallelism, rate)
    times = truth.split_latency(parallelism, rate)
    busy = seen.throughput / truth.find_capacities(parallelism)
    return [
        an_observation(
            time=now,
            model=a_model(
                name=name,
                node_types=ONE_TYPE,
                max_replicas=truth.most,
                service_mean=1 / seen.true_rates[row],
            ),
            deployment=Deployment((parallelism[row],)),
            rate=rate,
            processed=min(seen.throughput, rate) if lag <= 0 else seen.throughput,
            response_time=float(times[row]),
            utilisation=(min(float(busy[row]), 1.0),) * parallelism[row],
            backlog=lag if row == 0 else 0.0,
            budget=bound / len(NAMES),
        )
        for row, name in enumerate(NAMES)
    ]


def run(policies, ticks, *, start, rate=RATE, lag=0.0, bound=0.18):
    """Let the loop run: learn, decide, apply; return the parallelism of every tick."""
    truth, here, before, path = word_count(), start, None, []
    for tick in range(ticks):
        seen = observe(truth, here, 60.0 * tick, rate=rate, lag=lag, bound=bound)
        decisions = []
        for row, policy in enumerate(policies):
            if before is not None:
                policy.learn(a_transition(before[row], seen[row]))
            decisions.append(policy.decide(seen[row]))
        before = seen
        path.append(here)
        lag = truth.work_off(here, rate, lag, 60.0) if lag else 0.0
        here = tuple(decision.target.size for decision in decisions)
    return path


def test_word_count_is_brought_to_its_rate_in_at_most_four_moves_and_then_in_time():
    path = run(adapters(), 60, start=(1, 1, 1, 1))

    moves = list(dict.fromkeys(path))
    enough = next(each for each in moves if word_count().find_throughput(each) >= RATE)
    assert enough == (3, 4, 12, 10)
    assert moves.index(enough) <= 4
    assert word_count().find_latency(path[-1], RATE) <= 0.18
    assert sum(path[-1]) < 120


def test_all_operators_move_in_the_same_tick():
    path = run(adapters(), 8, start=(1, 1, 1, 1))

    assert (1, 1, 1, 1) in path
    assert {each for each in path[:5] if each != (1, 1, 1, 1)} == {(3, 4, 11, 9)}


def test_a_backlog_is_worked_off_by_a_boost_that_ends():
    path = run(
        adapters(event_time=2.0, catch_up=600.0),
        40,
        start=(8, 10, 25, 22),
        lag=200e6,
        bound=0.3,
    )

    boosts = [each for each in path if sum(each) > sum((8, 10, 25, 22))]
    assert boosts
    assert path[-1] == (8, 10, 25, 22)


def test_what_is_needed_is_urgent_and_what_saves_is_not():
    truth, policies = word_count(), adapters()
    decisions = []
    for tick in range(4):
        seen = observe(truth, (1, 1, 1, 1), 60.0 * tick)
        for row, policy in enumerate(policies):
            policy.learn(a_transition(seen[row], seen[row]))
        decisions = [policy.decide(each) for policy, each in zip(policies, seen, strict=True)]

    assert all(decision.urgency >= NEEDED for decision in decisions)
    assert "true rates" in decisions[0].reason


def test_an_interval_that_not_all_operators_observed_teaches_nothing():
    policies = adapters()
    seen = observe(word_count(), (1, 1, 1, 1), 0.0)
    later = observe(word_count(), (1, 1, 1, 1), 60.0)

    for row in (0, 1, 2):
        policies[row].learn(a_transition(seen[row], seen[row]))
    policies[3].learn(a_transition(later[3], later[3]))

    assert policies[0].state_dict()["application"]["progress"] is None


def test_an_interval_with_missing_data_teaches_nothing():
    policies = adapters()
    seen = observe(word_count(), (1, 1, 1, 1), 0.0)
    seen[2] = replace(seen[2], response_time=math.nan)

    for row, policy in enumerate(policies):
        policy.learn(a_transition(seen[row], seen[row]))

    assert policies[0].state_dict()["application"]["progress"] is None


def test_a_search_goes_on_from_its_stored_state():
    taught, restored = adapters(), adapters(seed=99)
    run(taught, 12, start=(1, 1, 1, 1))

    for one, other in zip(taught, restored, strict=True):
        other.load_state_dict(json.loads(json.dumps(one.state_dict(), allow_nan=False)))

    again = observe(word_count(), (3, 4, 12, 10), 60.0 * 12)
    for pair in zip(taught, restored, again, strict=True):
        pair[0].learn(a_transition(pair[2], pair[2]))
        pair[1].learn(a_transition(pair[2], pair[2]))
    assert json.dumps(taught[0].state_dict()) == json.dumps(restored[0].state_dict())


def test_state_of_another_operator_or_version_is_refused():
    policies = adapters()

    with pytest.raises(StateError, match="Expected state of operator 1, got 2"):
        policies[1].load_state_dict({"seat": 2})
    with pytest.raises(StateError, match="version 1, got 0"):
        policies[0].load_state_dict({"seat": 0, "application": {"version": 0}})


def test_a_target_that_is_never_reached_is_given_up():
    truth, policies = word_count(), adapters()
    for tick in range(20):
        seen = observe(truth, (1, 1, 1, 1), 60.0 * tick)
        for row, policy in enumerate(policies):
            policy.learn(a_transition(seen[row], seen[row]))

    found_at = policies[0].state_dict()["application"]["progress"]["found_at"]

    assert found_at >= 60.0 * 10
