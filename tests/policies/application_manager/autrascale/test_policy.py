import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.papers.contention import word_count
from weir_policies import registry
from weir_policies.errors import StateError
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import NEEDED
from weir_policies.testing import a_model, a_transition, an_observation

NAMES = ("source", "tokenize", "count", "sink")
ONE_TYPE = (NodeType(name="t", pool="p", speedup=1.0, price=1.0),)
RATE = 350e3
SETTINGS = {"settle": 60.0}


FLOW = Dataflow(
    operators=NAMES, edges=tuple(Edge(source=one, target=other) for one, other in pairwise(NAMES))
)


def a_policy(seed=7, **parameters):
    rng = np.random.default_rng([seed, 0])
    return registry.build_joint("autrascale", rng=rng, parameters=SETTINGS | parameters)


def observe(truth, parallelism, now, *, rate=RATE, lag=0.0, bound=0.18):
    """Return what is seen of the operators of an application under contention."""
    seen = truth.measure(parallelism, rate)
    times = truth.split_latency(parallelism, rate)
    busy = seen.throughput / truth.find_capacities(parallelism)
    return {
        name: an_observation(
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
    }


def learn(policy, before, after):
    """Let the policy learn of an interval of all operators."""
    policy.learn({name: a_transition(before[name], after[name]) for name in NAMES}, FLOW)


def run(policy, ticks, *, start, rate=RATE, lag=0.0, bound=0.18):
    """Let the loop run: learn, decide, apply; return the parallelism of every tick."""
    truth, here, before, path = word_count(), start, None, []
    for tick in range(ticks):
        seen = observe(truth, here, 60.0 * tick, rate=rate, lag=lag, bound=bound)
        if before is not None:
            learn(policy, before, seen)
        decisions = policy.decide(seen, FLOW)
        before = seen
        path.append(here)
        lag = truth.work_off(here, rate, lag, 60.0) if lag else 0.0
        here = tuple(decisions[name].target.size for name in NAMES)
    return path


def test_word_count_is_brought_to_its_rate_in_at_most_four_moves_and_then_in_time():
    path = run(a_policy(), 60, start=(1, 1, 1, 1))

    moves = list(dict.fromkeys(path))
    enough = next(each for each in moves if word_count().find_throughput(each) >= RATE)
    assert enough == (3, 4, 12, 10)
    assert moves.index(enough) <= 4
    assert word_count().find_latency(path[-1], RATE) <= 0.18
    assert sum(path[-1]) < 120


def test_all_operators_move_in_the_same_tick():
    path = run(a_policy(), 8, start=(1, 1, 1, 1))

    assert (1, 1, 1, 1) in path
    assert {each for each in path[:5] if each != (1, 1, 1, 1)} == {(3, 4, 11, 9)}


def test_a_backlog_is_worked_off_by_a_boost_that_ends():
    path = run(
        a_policy(event_time=2.0, catch_up=600.0),
        40,
        start=(8, 10, 25, 22),
        lag=200e6,
        bound=0.3,
    )

    boosts = [each for each in path if sum(each) > sum((8, 10, 25, 22))]
    assert boosts
    assert path[-1] == (8, 10, 25, 22)


def test_what_is_needed_is_urgent_and_what_saves_is_not():
    truth, policy = word_count(), a_policy()
    decisions = {}
    for tick in range(4):
        seen = observe(truth, (1, 1, 1, 1), 60.0 * tick)
        learn(policy, seen, seen)
        decisions = policy.decide(seen, FLOW)

    assert all(decision.urgency >= NEEDED for decision in decisions.values())
    assert "true rates" in decisions["source"].reason


def test_an_interval_with_missing_data_teaches_nothing():
    policy = a_policy()
    seen = observe(word_count(), (1, 1, 1, 1), 0.0)
    seen["count"] = replace(seen["count"], response_time=math.nan)

    learn(policy, seen, seen)

    assert policy.state_dict()["progress"] is None


def test_operators_that_share_a_pool_are_not_sent_beyond_its_limit():
    policy, limited = a_policy(), replace(ONE_TYPE[0], pool_limit=20)
    seen = {}
    for tick in range(4):
        seen = {
            name: replace(each, model=replace(each.model, node_types=(limited,)))
            for name, each in observe(word_count(), (1, 1, 1, 1), 60.0 * tick).items()
        }
        learn(policy, seen, seen)

    decisions = policy.decide(seen, FLOW)

    gained = sum(each.target.size - 1 for each in decisions.values())
    assert 0 < gained <= 20


def test_a_search_goes_on_from_its_stored_state():
    taught, restored = a_policy(), a_policy(seed=99)
    run(taught, 12, start=(1, 1, 1, 1))

    restored.load_state_dict(json.loads(json.dumps(taught.state_dict(), allow_nan=False)))

    again = observe(word_count(), (3, 4, 12, 10), 60.0 * 12)
    learn(taught, again, again)
    learn(restored, again, again)
    assert json.dumps(taught.state_dict()) == json.dumps(restored.state_dict())


def test_state_of_another_version_is_refused():
    with pytest.raises(StateError, match="version 1, got 0"):
        a_policy().load_state_dict({"version": 0})


def test_a_target_that_is_never_reached_is_given_up():
    truth, policy = word_count(), a_policy()
    for tick in range(20):
        seen = observe(truth, (1, 1, 1, 1), 60.0 * tick)
        learn(policy, seen, seen)

    found_at = policy.state_dict()["progress"]["found_at"]

    assert found_at >= 60.0 * 10


def test_from_too_many_replicas_it_runs_the_fewest_that_carry_the_rate_before_it_judges_them():
    path = run(a_policy(), 60, start=(36, 32, 24, 20), bound=0.1)

    moves = list(dict.fromkeys(path))
    assert (3, 4, 13, 11) in moves[1:5]
    assert all(word_count().find_throughput(each) >= RATE for each in moves)
