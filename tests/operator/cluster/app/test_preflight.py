"""What only the controller could refuse is refused before a job is touched."""

from __future__ import annotations

import pytest

from tests.operator.streamapp.builders import a_manifest, a_stream_app
from weir_operator.api import objects
from weir_operator.api.objects import Resource
from weir_operator.cluster.app.preflight import find_refusals, read_app
from weir_operator.errors import InvalidStreamAppError, PermanentError
from weir_policies import registry


def refusals_of(**spec):
    return find_refusals(a_stream_app(**{"flink": {"image": "trips:1"}, **spec}))


def a_policy(name="planner", **settings):
    return {"operatorManager": {"policy": {"name": name, "settings": settings}}}


def a_config(config):
    return {"flink": {"image": "trips:1", "config": config}}


def a_variable(name, container="flink-main-container"):
    given = {
        "name": container,
        "env": [{"name": "TZ", "value": "UTC"}, {"name": name, "value": "x"}],
    }
    return {"flink": {"image": "trips:1", "podTemplate": {"spec": {"containers": [given]}}}}


REFUSED = [
    ("a policy that nobody knows", a_policy("planer"),
     "spec.operatorManager.policy.name: expected a policy of Weir, got 'planer';",
     "did you mean 'planner'?"),
    ("a policy like no other", a_policy("oracle"),
     "spec.operatorManager.policy.name: expected a policy of Weir, got 'oracle';",
     "choose one of "),
    ("a setting that is misspelt", a_policy(catchup=60.0),
     "spec.operatorManager.policy.settings.catchup: expected a setting of planner (catch_up, ",
     "did you mean 'catch_up'?"),
    ("a setting in words", a_policy(catch_up="long"),
     "spec.operatorManager.policy.settings.catch_up: expected a number for catch_up of planner, got"
     " 'long';",
     "see what planner takes in docs/policies.md"),
    ("memory in which no TaskManager runs", {"nodePools": [{"name": "small", "memory": "10Mi"}]},
     'spec.nodePools["small"].memory: expected at least ', "raise it"),
    ("more managed memory than there is",
     {"nodePools": [{"name": "small", "memory": "1Gi"}],
      "operators": [{"name": "match", "managedMemory": "4Gi"}]},
     'spec.nodePools["small"].memory: expected at least ', "or reduce managed memory"),
    ("a duration that Flink does not read",
     a_config({"execution.checkpointing.interval": "3 parsecs"}),
     'spec.flink.config["execution.checkpointing.interval"]: expected a duration as Flink reads it,'
     " got '3 parsecs';", "such as 3 s, 500 ms or 2 min"),
    ("a size in Kubernetes' spelling", a_config({"taskmanager.memory.segment-size": "64Ki"}),
     'spec.flink.config["taskmanager.memory.segment-size"]: expected a size as Flink reads it,'
     " got '64Ki';", "such as 64m or 64 mb"),
    ("two garbage collectors", a_config({"env.java.opts.all": "-XX:+UseSerialGC -XX:+UseG1GC"}),
     'spec.flink.config["env.java.opts.all"]: expected one garbage collector,'
     " got '-XX:+UseSerialGC -XX:+UseG1GC';", "keep one of them"),
    ("keys in a variable of Flink's image", a_variable("FLINK_PROPERTIES"),
     "spec.flink.podTemplate.spec.containers[0].env: expected no variable that Flink itself does"
     " not read, got 'FLINK_PROPERTIES';", "write its keys into spec.flink.config instead"),
    ("options in a variable of Flink's scripts", a_variable("FLINK_ENV_JAVA_OPTS_TM"),
     "spec.flink.podTemplate.spec.containers[0].env: expected no variable that Flink itself does"
     " not read, got 'FLINK_ENV_JAVA_OPTS_TM';", "write env.java.opts.all into spec.flink.config"),
    ("memory in which no JobManager runs",
     {"flink": {"image": "trips:1", "jobManager": {"memory": "64Mi"}}},
     "spec.flink.jobManager.memory: expected at least ", "raise it"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "begin", "end"),
    [each[1:] for each in REFUSED],
    ids=[each[0] for each in REFUSED],
)
def test_a_refusal_is_a_sentence_with_field_value_and_remedy(spec, begin, end):
    [sentence] = refusals_of(**spec)

    assert sentence.startswith(begin)
    assert end in sentence.rpartition("; ")[2]


def test_every_mistaken_setting_is_named():
    found = refusals_of(**a_policy(catchup=60.0, corrects="x"))

    assert [each.split(":")[0] for each in found] == [
        "spec.operatorManager.policy.settings.catchup",
        "spec.operatorManager.policy.settings.corrects",
    ]


@pytest.mark.parametrize("name", registry.names())
def test_every_policy_passes_with_its_own_defaults(name):
    assert refusals_of(**a_policy(name)) == ()


MANY = [{"name": name, "maxReplicas": 20} for name in ("parse", "match", "count")]


@pytest.mark.parametrize(
    ("name", "settings", "remedy"),
    [
        (
            "mdp",
            {"levels": 30, "max_rate": 500},
            "give centralised = 0, fewer operators, a smaller",
        ),
        ("mdp", {"levels": 2, "node_type": 9}, "the index of the type that it adds, from 0"),
        ("mdp-rl", {"levels": 2}, "give the records/s that the levels are to cover"),
    ],
)
def test_operators_that_a_policy_cannot_plan_for_together_are_refused(name, settings, remedy):
    operators = MANY if "max_rate" in settings else [each | {"maxReplicas": 3} for each in MANY]
    settings = {"centralised": 1} | settings

    [sentence] = refusals_of(**a_policy(name, **settings), operators=operators)

    begin = f"spec.operatorManager.policy.settings: expected settings with which {name} can decide "
    assert sentence.startswith(begin + 'for all operators together, got {"centralised": 1')
    assert remedy in sentence


def test_fixed_operators_are_no_part_of_a_joint_plan():
    [pool] = a_stream_app().spec.node_pools[:1]
    one = {f"{pool.name}/{pool.sizes[0]}": 1}
    fixed = [{"name": each["name"], "fixed": one} for each in MANY[:2]]
    policy = a_policy("mdp", centralised=1, levels=30, max_rate=500)

    assert refusals_of(**policy, operators=[*fixed, MANY[2]]) == ()


def test_memory_is_judged_where_the_job_runs_on_one_machine_too():
    [sentence] = find_refusals(a_stream_app(nodePools=[{"name": "small", "memory": "64Mi"}]))

    assert sentence.startswith('spec.nodePools["small"].memory:')


def test_of_pods_that_somebody_else_makes_nothing_is_said():
    advised = {"mode": "Advise", "flink": {"ref": {"kind": "FlinkDeployment", "name": "trips"}}}

    assert refusals_of(**advised, nodePools=[{"name": "small", "memory": "64Mi"}]) == ()


def a_resource(**spec):
    manifest = a_manifest(**spec)
    manifest["metadata"] |= {"namespace": "streams", "uid": "u1"}
    return Resource.of(manifest)


def test_an_object_is_read_where_it_can_be_run():
    assert read_app(a_resource()).metadata.name == "trips"


def test_an_object_over_which_weir_fails_is_refused_by_kind_and_place(monkeypatch):
    def fail(app):
        raise ZeroDivisionError("the secret 271828")

    monkeypatch.setattr("weir_operator.wiring.assembly.loop_settings", fail)

    with pytest.raises(InvalidStreamAppError, match="ZeroDivisionError") as refusal:
        read_app(a_resource())

    assert "271828" not in str(refusal.value)


@pytest.mark.parametrize(
    "step",
    [
        "registry.refuse_parameters",
        "assembly.refuse_operators",
        "assembly.job_spec",
        "assembly.application_manager",
        "assembly.tuning_settings",
        "find_refused_values",
        "split_job_manager",
        "size_memory",
        "job_manager_files",
    ],
)
def test_what_any_step_refuses_is_told_as_it_says_it_and_never_called_a_defect(step, monkeypatch):
    def refuse(*_, **__):
        raise PermanentError("spec.nodePools: expected another size; change it")

    monkeypatch.setattr(f"weir_operator.cluster.app.preflight.{step}", refuse)
    with pytest.raises(InvalidStreamAppError) as refusal:
        read_app(a_resource(**a_policy(catch_up=60.0), flink={"image": "trips:1"}))

    assert str(refusal.value) == "spec.nodePools: expected another size; change it"


@pytest.mark.parametrize(
    "fields",
    [
        {"podTemplate": {"spec": {"x": [{"a": {}} for _ in range(100_000)]}}},
        {"podTemplate": {"metadata": {"labels": {f"l{n}": "v" for n in range(90_000)}}}},
        {"podTemplate": {"spec": {f"k{n}": n for n in range(90_000)}}},
    ],
    ids=["objects", "labels", "fields"],
)
def test_a_spec_of_very_many_values_is_refused_before_it_is_copied(fields, monkeypatch):
    manifest = a_manifest(flink={"image": "trips:1", **fields})
    manifest["metadata"] |= {"namespace": "streams", "uid": "u"}
    shown = Resource.of(manifest)
    copy, copied = objects._plain, []

    def note(value):
        copied.append(value)
        return copy(value)

    monkeypatch.setattr(objects, "_plain", note)

    kept = shown.detached()
    with pytest.raises(InvalidStreamAppError, match="at most 10000 values"):
        read_app(kept)

    assert all(each is not shown.spec for each in copied)


def test_a_container_beside_flink_may_have_any_variable():
    assert refusals_of(**a_variable("FLINK_PROPERTIES", container="logs")) == ()
