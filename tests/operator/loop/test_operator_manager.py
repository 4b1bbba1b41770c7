"""What an Operator Manager believes, what it shows its policy, and what the policy learns from."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.operator.metrics.builders import Load, a_layout_of, a_replica, a_window, changed
from weir_operator.loop.decide import OperatorManager
from weir_operator.metrics import names
from weir_operator.metrics.measurement import measure
from weir_policies import registry
from weir_policies.errors import StateError
from weir_policies.model.keys import KeyShares
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Sharing
from weir_policies.testing import SMALL, WIDE, a_decision, a_model

MIXED = Deployment((1, 1, 0))
MONDAY = 1_767_571_200.0  # 2026-01-05, 00:00 UTC


class Student:
    """A policy that stays where it is and keeps every lesson."""

    def __init__(self):
        self.lessons = []

    def decide(self, observation):
        return a_decision(observation.deployment)

    def learn(self, transition):
        self.lessons.append(transition)

    def state_dict(self):
        return {"lessons": len(self.lessons)}

    def load_state_dict(self, state):
        self.lessons = [None] * state["lessons"]


def a_manager(policy=None):
    unmeasured = a_model(service_mean=math.nan)
    return OperatorManager(
        model=unmeasured,
        given=[each.name for each in unmeasured.node_types],
        policy=policy or Student(),
        fixed=None,
    )


def measure_app(**load):
    """Measure `match` on one small/1 and one small/500m replica, in this order."""
    layout = a_layout_of(
        a_replica("s", "source", WIDE.name),
        a_replica("a", "match", WIDE.name),
        a_replica("b", "match", SMALL.name),
        fed={"match": "source"},
    )
    given = {"rate": 40.0, "busy": 0.3, "service_mean": 0.01, **load}
    window = a_window(layout, {"source": Load(rate=given["rate"]), "match": Load(**given)})
    return measure(window, layout)


def a_measurement(**load):
    return measure_app(**load).operators["match"]


REPLICAS = (
    a_replica("a", "match", "small/1", started=900.0),
    a_replica("b", "match", "small/500m", started=1000.0),
)


def observed(
    manager,
    measurement,
    *,
    replicas=REPLICAS,
    deployment=MIXED,
    first=False,
    now=1060.0,
    source_backlog=math.nan,
    keys=None,
):
    measured = measure_app()
    app = replace(
        measured,
        start=now - 60.0,
        end=now,
        operators={**measured.operators, manager.name: measurement},
        backlog=source_backlog,
    )
    return manager.observe(
        app,
        replicas,
        deployment=deployment,
        budget=0.1,
        first=first,
        keys=keys,
    )


def test_the_service_time_is_brought_to_a_core_of_speed_one():
    manager = a_manager()

    observation = observed(manager, a_measurement(service_mean=0.01))

    # Equal times on both node types, half and full speed, the same number of records each.
    assert observation.model.service_mean == pytest.approx((0.01 * 0.5 + 0.01 * 1.0) / 2)
    assert observation.model == manager.model


def test_an_interval_in_which_no_replica_was_measured_is_observed():
    observation = observed(a_manager(), replace(a_measurement(), replicas=()))

    assert observation.model.network_time == 0


def test_replicas_are_shown_by_node_type_then_by_id():
    measurement = a_measurement()
    busy = {"a": 0.9, "b": 0.2}
    measurement = replace(
        measurement,
        replicas=tuple(
            replace(each, utilisation=busy[each.tm_id]) for each in measurement.replicas
        ),
    )

    observation = observed(a_manager(), measurement)

    assert observation.utilisation == (0.2, 0.9)  # small/500m is the first node type
    assert observation.replica_ages == (60.0, 160.0)


def test_a_replica_that_was_not_measured_is_unknown_and_not_idle():
    late = (*REPLICAS, a_replica("c", "match", "small/1", started=1050.0))

    observation = observed(
        a_manager(), a_measurement(), replicas=late, deployment=Deployment((1, 2, 0))
    )

    assert math.isnan(observation.utilisation[2])
    assert observation.replica_ages[2] == 10.0


def test_what_waits_at_the_source_waits_for_the_first_operator_alone():
    measurement = a_measurement()

    fed_by_source = observed(a_manager(), measurement, first=True, source_backlog=500.0)
    further_down = observed(a_manager(), measurement, source_backlog=500.0)

    assert fed_by_source.backlog == 500.0
    assert further_down.backlog == pytest.approx(measurement.queue_records)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(MONDAY, 0.0, id="the week begins on Monday at midnight UTC"),
        pytest.param(MONDAY + 3.5 * 86_400, 0.5, id="its middle is Thursday noon"),
        pytest.param(MONDAY - 86_400, 6 / 7, id="Sunday is the last day"),
    ],
)
def test_the_time_of_week_is_a_part_of_the_week(now, expected):
    assert observed(a_manager(), a_measurement(), now=now).time_of_week == pytest.approx(expected)


@pytest.mark.parametrize(
    ("edges", "sharing", "key_groups"),
    [
        pytest.param(
            {"keyed": False, "balanced": True, "sharing": None}, Sharing.BY_LOAD, None, id="by turn"
        ),
        pytest.param(
            {"keyed": True, "balanced": False, "sharing": None}, Sharing.EQUAL, 720, id="by key"
        ),
        pytest.param(
            {"keyed": False, "balanced": False, "sharing": None},
            Sharing.EQUAL,
            None,
            id="one to one",
        ),
        pytest.param(
            {"keyed": False, "balanced": True, "sharing": Sharing.PROPORTIONAL},
            Sharing.PROPORTIONAL,
            None,
            id="what the manifest says wins",
        ),
    ],
)
def test_the_sharing_rule_follows_the_edges(edges, sharing, key_groups):
    manager = a_manager()

    manager.note_edges(**edges, key_groups=720)

    assert manager.model.sharing is sharing
    assert manager.model.key_groups == key_groups


def test_a_hot_key_is_believed_and_the_policy_adds_what_helps_until_no_replica_does():
    """A key brings 40 % of the records, and its replica alone is saturated."""
    pool = replace(WIDE, pool_limit=7)
    model = replace(a_model(node_types=(pool,), max_replicas=8), service_mean=math.nan)
    manager = OperatorManager(
        model=model,
        given=[pool.name],
        policy=registry.build("queueing", rng=np.random.default_rng(0)),
        fixed=None,
    )
    manager.note_edges(keyed=True, balanced=False, sharing=None, key_groups=128)

    def decided(rate, shares):
        layout = a_layout_of(
            a_replica("s", "source", pool.name),
            *(a_replica(f"m{i}", "match", pool.name) for i in range(len(shares))),
            fed={"match": "source"},
        )
        load = Load(rate=rate, busy=0.9, service_mean=0.0035, service_scv=0.1)

        def reshare(series):
            share = shares[int(series.labels["tm_id"].removeprefix("m"))] * len(shares)
            counted = (names.RECORDS_IN, names.SERVICE_N, names.SERVICE_US, names.SERVICE_US2)
            times = share if series.name in counted else 1.0
            return replace(series, values=tuple(value * times for value in series.values))

        window = changed(
            a_window(layout, {"source": Load(rate=rate, back_pressure=0.35), "match": load}),
            reshare,
            where=lambda each: each.labels.get("weir_operator") == "match",
        )
        observation = observed(
            manager,
            measure(window, layout).operators["match"],
            replicas=layout.replicas["match"],
            deployment=Deployment((len(shares),)),
        )
        return manager.propose(observation).decision

    more = decided(390, [0.7, 0.3])
    most = decided(590, [0.49, *[0.51 / 6] * 6])

    assert more.target.size > 2
    assert most.target.size <= 7
    assert "no deployment carries" in most.reason


def test_the_policy_learns_what_was_enacted_beside_what_was_proposed():
    student = Student()
    manager = a_manager(student)
    measurement = a_measurement()

    manager.propose(observed(manager, measurement))
    granted_more = Deployment((1, 2, 0))
    manager.propose(observed(manager, measurement, deployment=granted_more, now=1120.0))

    (lesson,) = student.lessons
    assert lesson.proposed == MIXED
    assert lesson.enacted == granted_more
    assert lesson.cost.reconfiguration == 1.0
    assert lesson.next_observation.time == 1120.0


def test_an_interval_over_the_budget_is_a_violation():
    student = Student()
    manager = a_manager(student)
    measurement = a_measurement()

    manager.propose(observed(manager, measurement))
    manager.propose(observed(manager, replace(measurement, response_time=0.2)))
    manager.propose(observed(manager, replace(measurement, response_time=0.05)))

    assert [lesson.cost.violation for lesson in student.lessons] == [1.0, 0.0]


def test_nothing_is_learned_across_an_interval_that_was_not_observed():
    student = Student()
    manager = a_manager(student)

    manager.propose(observed(manager, a_measurement()))
    manager.skip()
    manager.propose(observed(manager, a_measurement(), now=1180.0))

    assert student.lessons == []


MORE = Deployment((1, 2, 0))


def lessons_of_a_change(*, missed=False, response_time=0.05, enacted=MORE, then=None):
    """Return what is learned where a change is carried out while one interval passes."""
    student = Student()
    manager = a_manager(student)
    measurement = a_measurement()
    manager.propose(observed(manager, measurement))
    manager.act()
    manager.wait(missed=missed)
    if then is not None:
        then(manager)
    after = replace(measurement, response_time=response_time)
    manager.propose(observed(manager, after, deployment=enacted, now=1180.0))
    return student.lessons


def test_a_change_of_its_own_is_learned_from_the_next_interval_that_is_observed():
    (lesson,) = lessons_of_a_change()

    assert (lesson.observation.time, lesson.next_observation.time) == (1060.0, 1180.0)
    assert lesson.enacted == MORE
    assert lesson.cost.reconfiguration == 1.0
    assert lesson.cost.violation == 0.0


@pytest.mark.parametrize("response_time", [0.05, math.nan])
def test_an_objective_that_was_missed_during_a_change_is_a_cost_of_it(response_time):
    (lesson,) = lessons_of_a_change(missed=True, response_time=response_time)

    assert lesson.cost.violation == 1.0


def test_a_change_that_came_to_nothing_teaches_nothing():
    assert lessons_of_a_change(missed=True, enacted=MIXED) == []


def test_a_pause_after_a_change_ends_what_is_put_down_to_it():
    assert lessons_of_a_change(then=lambda manager: manager.skip()) == []


def test_another_ones_change_teaches_nothing():
    student = Student()
    manager = a_manager(student)

    manager.propose(observed(manager, a_measurement()))
    manager.wait(missed=True)
    manager.propose(observed(manager, a_measurement(), now=1180.0))

    assert student.lessons == []


def test_a_change_is_learned_once():
    student = Student()
    manager = a_manager(student)
    calm = replace(a_measurement(), response_time=0.05)
    manager.propose(observed(manager, calm))
    manager.act()
    manager.wait(missed=True)
    manager.propose(observed(manager, calm, deployment=MORE, now=1180.0))

    manager.propose(observed(manager, calm, deployment=MORE, now=1240.0))
    manager.wait(missed=True)
    manager.propose(observed(manager, calm, deployment=MORE, now=1360.0))

    assert [lesson.cost.violation for lesson in student.lessons] == [1.0, 0.0]


def test_learned_state_of_another_version_is_refused():
    state = a_manager().state_dict()
    state["belief"]["version"] = 99

    with pytest.raises(StateError, match="version 1, got 99"):
        a_manager().load_state_dict(state)


def test_an_operator_behind_the_first_knows_what_waits_at_the_sources_and_will_arrive():
    measurement = replace(a_measurement(), arrival_rate=20.0, upstream_backlog=1500.0)

    observation = observed(a_manager(), measurement, source_backlog=3000.0)

    assert observation.offered_rate == 20.0
    assert observation.upstream_backlog == 1500.0


def test_nothing_waits_upstream_of_the_first_operator():
    measurement = replace(a_measurement(), upstream_backlog=3000.0)

    observation = observed(a_manager(), measurement, first=True, source_backlog=3000.0)

    assert observation.upstream_backlog == 0.0
    assert observation.backlog >= 3000.0


def test_counts_of_keys_tell_the_policy_what_the_fullest_replica_gets():
    manager = a_manager()
    manager.note_edges(keyed=True, balanced=False, sharing=None, key_groups=4)
    keys = KeyShares(by_group=(0.7, 0.1, 0.1, 0.1), counted=10_000)

    seen = observed(manager, a_measurement(), keys=keys)

    assert seen.model.fullest[:4] == pytest.approx((1.0, 0.8, 0.7, 0.7), abs=0.11)
    unknown = observed(manager, a_measurement())
    assert unknown.model.fullest == seen.model.fullest


def test_the_time_of_key_groups_counts_where_all_nodes_are_of_one_type():
    keys = KeyShares(by_group=(0.25,) * 4, counted=10_000, work=(0.7, 0.1, 0.1, 0.1))

    fullest = []
    for deployment in (Deployment((0, 2, 0)), MIXED):
        manager = a_manager()
        manager.note_edges(keyed=True, balanced=False, sharing=None, key_groups=4)
        seen = observed(manager, a_measurement(), keys=keys, deployment=deployment)
        fullest.append(seen.model.fullest)

    assert fullest[0][:2] == pytest.approx((1.0, 0.8))
    assert fullest[1] == ()


def test_a_job_that_has_no_keys_has_no_fullest_replica():
    manager = a_manager()

    seen = observed(manager, a_measurement(), keys=KeyShares(by_group=(0.7, 0.3), counted=10_000))

    assert not seen.model.is_skewed
