"""EDF's world: response times, suspension and the bucket; what its managers ask for and learn."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.edf import (
    MOST,
    OPERATORS,
    RESOURCES,
    QLearningManagers,
    Seen,
    respond,
    run_world,
    use_thresholds,
    work_off,
)
from weir_policies.application_manager.edf import step_of

CALM = np.full(200, 150.0)


def see(slot=0, replicas=1, rate=100.0, busy=0.0, violated=0.0):
    return Seen(
        slot=slot,
        replicas=np.full(len(OPERATORS), replicas),
        rates=np.full(len(OPERATORS), rate),
        busy=np.full(len(OPERATORS), busy),
        violated=np.full(len(OPERATORS), violated),
    )


class Restless:
    """Managers of which one asks for a change whenever it is asked."""

    def __init__(self):
        self.asked_at = []

    def step(self, seen):
        self.asked_at.append(seen.slot)
        change = 1 if seen.replicas[-1] < MOST[-1] else -1
        return [step_of("partialRank", change, 1.0)]


def test_response_times_are_those_that_were_calibrated():
    times, busy = respond(np.array([100.0, 100.0, 100.0, 100.0, 160.0]))

    assert times[0] == pytest.approx(0.5 / 0.95)
    assert times[-1] == pytest.approx(1.06 * 160 / (1 - 0.00253 * 160))
    assert busy[-1] == pytest.approx(0.00253 * 160)


def test_an_operator_beyond_its_capacity_is_slow_and_not_infinite():
    times, busy = respond(np.array([100.0, 100.0, 100.0, 100.0, 500.0]))

    assert 5000 < times[-1] < np.inf
    assert busy[-1] == 1.0


def test_after_a_round_managers_are_suspended_for_two_slots():
    managers = Restless()

    outcome = run_world(managers, CALM, bucket=False, seed=1)

    assert managers.asked_at[:4] == [0, 3, 6, 9]
    assert outcome.rounds == len(managers.asked_at)
    assert outcome.downtime == pytest.approx(100 * outcome.rounds * 10 / (200 * 30))


def test_the_bucket_grants_fewer_requests_and_says_how_many():
    free = run_world(Restless(), CALM, bucket=False, seed=1)
    bound = run_world(Restless(), CALM, bucket=True, seed=1)

    assert free.accepted == 100
    assert bound.rounds < free.rounds
    assert bound.accepted < 100


def test_the_same_seed_gives_the_same_run():
    first, again, other = (
        run_world(use_thresholds(0.5), CALM * 2, bucket=False, seed=seed) for seed in (1, 1, 2)
    )

    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("replicas", "busy", "change", "score"),
    [(1, 0.8, 1, 0.5), (2, 0.1, -1, (0.45 - 0.2) / 0.45)],
    ids=["above: the excess", "below: what would be left"],
)
def test_thresholds_ask_with_a_score(replicas, busy, change, score):
    requests = use_thresholds(0.6).step(see(replicas=replicas, busy=busy))

    assert [request.operator for request in requests] == list(OPERATORS)
    assert {request.change for request in requests} == {change}
    assert requests[0].score == pytest.approx(score)


@pytest.mark.parametrize(("learns_denied", "tried"), [(True, 1), (False, 0)])
def test_a_denied_change_is_learned_as_proposed_or_as_to_stay(learns_denied, tried):
    managers = QLearningManagers(RESOURCES, learns_denied=learns_denied, seed=4)
    asked: set[str] = set()
    for slot in range(400):
        asked = {request.operator for request in managers.step(see(slot=slot))}
        if asked:
            break
    name = next(iter(asked))
    before = managers.values_of(name, replicas=1, rate=100.0)

    managers.step(see(violated=1.0))

    after = managers.values_of(name, replicas=1, rate=100.0)
    changed = [change for change in before if after[change] != before[change]]
    assert changed == [tried]


def test_what_arrives_while_the_job_stands_still_is_worked_off_at_what_is_left_of_the_capacity():
    replicas = np.full(len(OPERATORS), 2)  # partialRank: 790 records/s
    capacity = 2 / 0.00253

    after, late = work_off(0.0, 300.0, replicas, 10.0)

    emptied = 3000 / (capacity - 300)
    assert after == 0.0
    assert late == pytest.approx((10 * 3000 / 2 + emptied * 3000 / 2) / 9000)


def test_beyond_the_capacity_the_backlog_grows_and_no_record_is_lost():
    replicas = np.ones(len(OPERATORS), dtype=np.int64)

    after, _ = work_off(500.0, 500.0, replicas, 0.0)

    assert after == pytest.approx(500 + 30 * (500 - 1 / 0.00253))


def test_with_a_backlog_reconfigurations_cost_response_time():
    free = run_world(Restless(), CALM, bucket=False, seed=1)
    queued = run_world(Restless(), CALM, bucket=False, seed=1, backlog=True)

    assert queued.rounds == free.rounds
    assert queued.unfiltered.mean > 2 * free.unfiltered.mean
