"""One policy for all operators of a StreamApp: in the loop, and as in the simulator."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.operator.loop.conftest import ONE
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.loop.decide import (
    JointManagers,
    ObservedOperator,
    OperatorManager,
    SeparateManagers,
)
from weir_operator.wiring import assembly
from weir_operator.wiring.assembly import policy_settings
from weir_policies import registry
from weir_policies.kernels.application_policy import KernelApplicationPolicy
from weir_policies.kernels.staying import stay
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Neighbourhood
from weir_policies.testing import a_model, an_observation
from weir_simulator import plain_loop
from weir_simulator.experiment import Experiment
from weir_simulator.policies import Policies, build_policies, settings_of
from weir_simulator.result import new_outcome

OPERATORS = [
    {"name": "source", "fixed": {"small/1": 1}},
    {"name": "tokenize", "maxReplicas": 4},
    {"name": "count", "maxReplicas": 4},
]
PLANNED = {"centralised": 1, "levels": 5, "max_rate": 200, "node_type": 1, "first_solve": 2}
JOINT = [
    ("drs-cheapest", {}),
    ("lohrmann-cheapest", {}),
    ("mdp", PLANNED),
]


def an_app(**objective):
    return a_stream_app(
        nodePools=[{"name": "small", "sizes": ["1"]}],
        operators=OPERATORS,
        objective={"responseTime": "200ms"} | objective,
    )


def by(name, settings):
    """Return what a stage is to be given for a policy, and operators that do not keep up."""
    return {
        "operatorManager": {"interval": "5s", "policy": {"name": name, "settings": settings}},
        "operators": [
            {"name": "gen", "fixed": ONE},
            {"name": "match", "maxReplicas": 6, "initial": {"small/1": 3}},
            {"name": "count", "maxReplicas": 6, "initial": ONE},
            {"name": "out", "fixed": ONE},
        ],
    }


# -- in the loop ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "settings"), JOINT)
async def test_a_joint_decision_rescales_two_operators_in_one_restart(
    stage_of, monkeypatch, name, settings
):
    asked = []
    decide = KernelApplicationPolicy.decide

    def record(self, observations, dataflow):
        decisions = decide(self, observations, dataflow)
        asked.append((dataflow, decisions))
        return decisions

    monkeypatch.setattr(KernelApplicationPolicy, "decide", record)
    stage = await stage_of(**by(name, settings)).started()
    stage.put_under(150, busy=1.0, latency=2.0)

    ticks = await stage.ticks(6)

    granting = next(tick for tick in ticks if tick.restarts)
    change = stage.ends("Rescale")[0]
    changed = {each for each in change.source if change.source[each] != change.target[each]}
    assert changed == {"match", "count"}
    assert granting.verdicts.keys() == changed
    flow, decisions = asked[ticks.index(granting)]
    assert flow == Dataflow(
        operators=("match", "count"), edges=(Edge(source="match", target="count"),)
    )
    assert {each: granting.proposals[each].decision for each in changed} == decisions
    assert sum(change.target["match"].values()) > 3


async def test_what_was_learned_together_is_kept_once_and_restored(stage_of):
    stage = await stage_of(**by("mdp", PLANNED)).started()
    await stage.ticks(5)
    stage.memory.save(stage.clock.now())
    kept = json.loads((stage.folder / "learned.json").read_text())
    fresh = assembly.operator_managers(stage.app)

    stage.learned.restore(fresh)

    assert "memory" in kept["application"]["policy"]
    assert all(each.keys() == {"belief"} for each in kept["operators"].values())
    assert fresh.application_state() == stage.managers.application_state()
    assert fresh["match"].model.service_mean == pytest.approx(0.02)


async def test_state_of_another_version_begins_again_and_keeps_what_is_believed(stage_of):
    stage = await stage_of(**by("mdp", PLANNED)).started()
    await stage.ticks(5)
    stage.memory.save(stage.clock.now())
    path = stage.folder / "learned.json"
    kept = json.loads(path.read_text())
    kept["application"]["policy"]["version"] = 99
    path.write_text(json.dumps(kept))
    fresh = assembly.operator_managers(stage.app)

    stage.learned.restore(fresh)

    assert fresh.application_state() == assembly.operator_managers(stage.app).application_state()
    assert fresh["match"].model.service_mean == pytest.approx(0.02)
    assert json.loads((stage.folder / "learned.unreadable").read_text()) == kept


async def test_a_reset_forgets_what_was_learned_together(stage_of):
    stage = await stage_of(**by("mdp", PLANNED)).started()
    untaught = assembly.operator_managers(stage.app).application_state()
    await stage.ticks(5)
    assert stage.managers.application_state() != untaught

    await stage.memory.forget(1)

    assert stage.managers.application_state() == untaught


async def test_following_advice_in_thought_decides_for_all_operators_again(stage_of):
    stage = await stage_of(mode="Advise", **by("drs-cheapest", {})).started()
    stage.put_under(150, busy=1.0, latency=2.0)

    ticks = await stage.ticks(3)

    assert ticks[-1].bill.restarts == 1
    assert stage.ends("Rescale") == []


# -- the managers by themselves -------------------------------------------------------------------


PAIR = Dataflow(operators=("a", "b"), edges=(Edge(source="a", target="b"),))


class Pupil:
    """A policy that stays, and keeps what it was to learn."""

    def __init__(self):
        self.lessons = []

    def decide(self, observations, dataflow):
        return {name: stay(each, "Stays") for name, each in observations.items()}

    def learn(self, transitions, dataflow):
        if transitions:
            self.lessons.append(transitions)

    def state_dict(self):
        return {"lessons": len(self.lessons)}

    def load_state_dict(self, state):
        self.loaded = dict(state)


def a_pair(policy, **others):
    operators = {
        name: ObservedOperator(model=a_model(name=name), given=[], fixed=None)
        for name in PAIR.operators
    }
    return JointManagers(operators, policy=policy, neighbourhood=Neighbourhood.ANY, **others)


def observe_pair(time, **replicas):
    return {
        name: an_observation(
            model=a_model(name=name),
            time=time,
            deployment=Deployment((0, replicas.get(name, 1), 0)),
        )
        for name in PAIR.operators
    }


def test_an_interval_teaches_what_came_of_all_operators():
    policy = Pupil()
    managers = a_pair(policy)
    managers.propose(observe_pair(0.0), PAIR)

    managers.propose(observe_pair(60.0), PAIR)

    [lesson] = policy.lessons
    assert lesson.keys() == {"a", "b"}
    assert {each.next_observation.time for each in lesson.values()} == {60.0}


def test_a_change_of_some_operators_is_learned_from_as_one_of_all():
    policy = Pupil()
    managers = a_pair(policy)
    managers.propose(observe_pair(0.0), PAIR)
    managers.act(["a"])
    managers.wait(missed=True)

    managers.propose(observe_pair(120.0, a=3), PAIR)

    [lesson] = policy.lessons
    assert lesson["a"].cost.reconfiguration == 1.0
    assert lesson["b"].cost.reconfiguration == 0.0
    assert {each.cost.violation for each in lesson.values()} == {1.0}


@pytest.mark.parametrize("acting", [[], ["a"]], ids=["another's change", "a change that failed"])
def test_what_the_policy_did_not_bring_about_teaches_nothing(acting):
    policy = Pupil()
    managers = a_pair(policy)
    managers.propose(observe_pair(0.0), PAIR)
    if acting:
        managers.act(acting)
    managers.wait(missed=False)

    managers.propose(observe_pair(120.0, a=1 if acting else 3), PAIR)

    assert policy.lessons == []


def test_stand_ins_decide_until_the_policy_is_trained():
    policy = Pupil()
    stand_ins = {
        name: registry.build("queueing", rng=np.random.default_rng(1)) for name in PAIR.operators
    }
    managers = a_pair(policy, fallback_policies=stand_ins)
    decided = managers.propose(observe_pair(0.0), PAIR)
    assert decided["a"].decision.reason != "Stays"
    assert managers.uses_fallback_policy("a")
    assert managers.application_state()["trained"] is False

    promoted = managers.promote({}, {"lessons": 9})

    assert promoted == ("a", "b")
    assert policy.loaded == {"lessons": 9}
    assert managers.propose(observe_pair(60.0), PAIR)["a"].decision.reason == "Stays"
    assert managers.application_state()["trained"] is True


def test_an_application_of_fixed_operators_alone_is_not_decided_for():
    fixed = Deployment((0, 1, 0))
    operators = {
        name: ObservedOperator(model=a_model(name=name), given=[], fixed=fixed)
        for name in PAIR.operators
    }
    managers = JointManagers(operators, policy=Pupil(), neighbourhood=Neighbourhood.ANY)

    assert managers.propose(observe_pair(0.0), PAIR) == {}


# -- as in the simulator --------------------------------------------------------------------------


class Recorder:
    """A policy of the simulator, and what it was shown and answered."""

    def __init__(self, policy):
        self.policy, self.ticks, self.begun = policy, [], None

    def decide(self, observations, dataflow):
        if self.begun is None:
            self.begun = json.loads(json.dumps(self.policy.state_dict()))
        decisions = self.policy.decide(observations, dataflow)
        self.ticks.append((observations, dataflow, decisions))
        return decisions

    def learn(self, transitions, dataflow):
        self.policy.learn(transitions, dataflow)

    def __getattr__(self, name):
        return getattr(self.policy, name)


SLOTS = 60
EXPERIMENT = {
    "operators": [
        {"name": "a", "serviceRate": 400, "scv": 0.5, "maxReplicas": 3},
        {"name": "b", "serviceRate": 220, "scv": 1.0, "maxReplicas": 3, "keyed": False},
        {"name": "c", "serviceRate": 300, "scv": 0.1, "maxReplicas": 3},
    ],
    "edges": [
        {"from": "a", "to": "b", "selectivity": 0.8},
        {"from": "b", "to": "c", "selectivity": 1.5},
    ],
    "nodeTypes": [
        {"name": "t1", "speedup": 1.0, "price": 1.0},
        {"name": "t2", "speedup": 0.7, "price": 0.7},
    ],
    "objective": {"responseTime": "50ms"},
    "rate": {"levels": 5, "max": 650},
    "trace": {"kind": "taxi", "slots": SLOTS, "seed": 2},
    "training": {"kind": "taxi", "slots": 400, "seed": 4},
}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        *((each, {}) for each in registry.names() if registry.is_joint(each)),
        ("mdp", {"centralised": 1}),
        ("mdp-rl", {"centralised": 1}),
        ("mdp-rl", {"centralised": 1, "known": 1}),
    ],
)
def test_the_live_managers_decide_as_the_simulator_on_the_same_observations(
    name, parameters, monkeypatch
):
    recorders = []

    def build(*args, **kwargs):
        recorders.append(Recorder(build_policies(*args, **kwargs).application))
        return Policies({}, recorders[0])

    monkeypatch.setattr(plain_loop, "build_policies", build)
    monkeypatch.setattr(plain_loop, "KernelApplicationPolicy", Recorder)
    experiment = Experiment.model_validate_json(json.dumps(EXPERIMENT))
    settings = settings_of(experiment, parameters)
    trace = 250 + 220 * np.sin(np.arange(SLOTS) / 6)
    outcome = new_outcome(SLOTS, 2, history=False)
    plain_loop.run_policies(experiment, trace, name, settings, outcome, seed=3)
    [recorder] = recorders
    live = JointManagers(
        {
            each: ObservedOperator(model=seen.model, given=[], fixed=None)
            for each, seen in recorder.ticks[0][0].items()
        },
        policy=registry.build_joint(name, rng=np.random.default_rng(9), parameters=settings),
        neighbourhood=registry.find(name).neighbourhood,
    )
    live.load_application_state({"policy": recorder.begun})

    decided = [
        {each: proposal.decision for each, proposal in live.propose(seen, flow).items()}
        for seen, flow, _ in recorder.ticks
    ]

    simulated = [dict(decisions) for _, _, decisions in recorder.ticks]
    assert repr(decided) == repr(simulated)  # NaN is not equal to itself
    assert any(
        decision.target != seen[each].deployment
        for seen, _, decisions in recorder.ticks
        for each, decision in decisions.items()
    )


# -- put together from a StreamApp ----------------------------------------------------------------


def test_the_objectives_age_and_catch_up_time_reach_the_policy():
    settings = policy_settings(an_app(eventTime="5s", catchUp="2m"), policy="autrascale")

    assert settings == {"event_time": 5.0, "catch_up": 120.0}


def test_without_a_bound_on_the_age_none_is_passed():
    assert policy_settings(an_app(), policy="autrascale") == {"catch_up": 300.0}


def test_a_policy_that_takes_nothing_of_the_objective_is_given_nothing():
    assert policy_settings(an_app(eventTime="5s"), policy="drs-first") == {}


class Joins:
    """Scales out if the rate exceeds a limit, or if the job is restarted anyway."""

    joins_restarts = True

    def __init__(self, limit):
        self.limit = limit
        self.asked = []

    def decide(self, observation):
        self.asked.append(observation.restarts_anyway)
        if observation.rate <= self.limit and not observation.restarts_anyway:
            return stay(observation, "there is no need")
        more = Deployment((observation.deployment.counts[0] + 1,))
        return replace(stay(observation, "there is need"), target=more)

    def learn(self, transition):
        pass

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def propose_for(policies, *, model, rate):
    """Let the policies decide, each for an operator that has one replica; `match` feeds `count`."""
    managers = SeparateManagers(
        {
            name: OperatorManager(
                model=replace(model, name=name), given=(), policy=policy, fixed=None
            )
            for name, policy in policies.items()
        }
    )
    seen = {
        name: an_observation(
            model=replace(model, name=name),
            deployment=Deployment((1,)),
            rate=rate,
            utilisation=(0.5,),
            replica_ages=(60.0,),
        )
        for name in policies
    }
    edges = (Edge(source="match", target="count"),)
    return managers.propose(seen, Dataflow(operators=tuple(policies), edges=edges))


@pytest.mark.parametrize(("rate", "asked"), [(150.0, [False, True]), (50.0, [False])])
def test_a_restart_that_one_operator_needs_serves_the_others(rate, asked):
    model = a_model(node_types=an_observation().model.node_types[:1], max_replicas=4)
    policies = {"match": Joins(100.0), "count": Joins(1000.0)}

    proposals = propose_for(policies, model=model, rate=rate)

    more = Deployment((1 + len(asked) - 1,))
    targets = {name: each.decision.target for name, each in proposals.items()}
    assert targets == dict.fromkeys(policies, more)
    assert policies["count"].asked == asked
    joined = {name for name, each in proposals.items() if each.observation.restarts_anyway}
    assert joined == ({"count"} if True in asked else set())
    assert policies["match"].asked == [False]


def test_who_joins_a_restart_is_told_the_room_that_the_others_leave():
    node_type = replace(an_observation().model.node_types[0], pool_limit=4)
    policies = {"match": Joins(100.0), "count": Joins(1000.0), "sum": Joins(1000.0)}

    proposals = propose_for(
        policies, model=a_model(node_types=(node_type,), max_replicas=4), rate=150.0
    )

    room = {
        name: each.observation.model.node_types[0].pool_limit for name, each in proposals.items()
    }
    # `match` gets two, and `sum` has one; then `count` takes two, whatever it was told.
    assert room == {"match": 4, "count": 1, "sum": 0}
