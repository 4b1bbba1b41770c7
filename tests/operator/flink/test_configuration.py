from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weir_operator.flink.commands import (
    Installation,
    java_options,
)
from weir_operator.flink.configuration import (
    RECOMMENDED,
    ClusterAddress,
    Storage,
    TaskManagerIdentity,
    TaskManagerMemory,
    high_availability,
    job_manager_configuration,
    render_yaml,
    task_manager_configuration,
)
from weir_operator.flink_keys import OTHER_NAMES, remedy_for_owned

ADDRESS = ClusterAddress(host="127.0.0.1", rpc_port=6123, rest_port=8081)
STORAGE = Storage(checkpoints="file:///c", savepoints="file:///s")


def job_manager(user=None, place=None):
    return job_manager_configuration(
        app="streams.trips",
        address=ADDRESS,
        storage=STORAGE,
        metrics_ports=(9249, 9250),
        max_parallelism=720,
        user=user or {},
        place=place or {},
    )


def task_manager(user=None, memory=None, app="streams.trips", place=None):
    return task_manager_configuration(
        identity=TaskManagerIdentity(
            app=app, id="tm-match-small-3", operator="match", pool="small"
        ),
        address=ADDRESS,
        storage=STORAGE,
        memory=memory or TaskManagerMemory(),
        metrics_ports=(9249,),
        user=user or {},
        place=place or {},
    )


def test_a_task_manager_is_pinned_to_its_operator_by_an_external_resource():
    configuration = task_manager()

    assert configuration["taskmanager.resource-id"] == "tm-match-small-3"
    assert configuration["taskmanager.numberOfTaskSlots"] == "1"
    assert configuration["external-resources"] == "op-match"
    assert configuration["external-resource.op-match.amount"] == "1"


@pytest.mark.parametrize(
    ("app", "label"), [("streams.trips", "streams.trips"), ("a,b:c", "a_b_c")], ids=str
)
def test_every_series_of_a_task_manager_says_what_it_is_in_a_list_that_no_name_breaks(app, label):
    labels = task_manager(app=app)["metrics.reporter.prom.scope.variables.additional"]

    assert labels == f"weir_app:{label},weir_operator:match,weir_pool:small"


@pytest.mark.parametrize(
    ("other", "own"),
    [
        (other, own)
        for own in sorted(RECOMMENDED.keys() & OTHER_NAMES.keys())
        for other in OTHER_NAMES[own]
    ],
)
def test_the_users_keys_win_over_recommendations_under_every_name(other, own):
    for configuration in job_manager({other: "mine"}), task_manager({other: "mine"}):
        assert configuration[own] == "mine"
        assert configuration[other] == "mine"


def test_options_of_all_jvms_have_an_older_name():
    assert java_options({"env.java.opts": "-Dx=1"}, "jobmanager") == ("-Dx=1",)
    assert java_options(
        {"env.java.opts": "-Dx=1", "env.java.opts.all": "-Dx=2"}, "taskmanager"
    ) == ("-Dx=2",)


@pytest.mark.parametrize(
    "key",
    [
        "taskmanager.numberOfTaskSlots",
        "external-resources",
        "taskmanager.resource-id",
        "jobmanager.rpc.port",
        "execution.checkpointing.dir",
        "metrics.reporter.prom.port",
        "taskmanager.memory.process.size",
    ],
)
def test_weirs_own_keys_win_over_the_users(key):
    assert task_manager({key: "mine"})[key] != "mine"


def test_what_overrides_the_user_is_refused_by_the_manifest_already():
    user = dict.fromkeys({**job_manager(), **task_manager()}, "mine")

    overridden = {
        key
        for configuration in (job_manager(user), task_manager(user))
        for key, value in configuration.items()
        if value != "mine"
    }

    # What the user says of managed memory is what operators get that ask for none in particular.
    managed = {"taskmanager.memory.managed.size"}
    assert {key for key in overridden if remedy_for_owned(key) is None} == managed


def test_a_long_collection_of_garbage_is_no_lost_task_manager():
    announced = high_availability(cluster="a", namespace="b", storage="file:///c")

    # Flink's own 50 s, but where TaskManagers would take as long to find a new JobManager.
    assert "heartbeat.timeout" not in job_manager(place=announced)
    assert "heartbeat.timeout" not in task_manager(place=announced)
    assert job_manager()["heartbeat.timeout"] == task_manager()["heartbeat.timeout"] == "20000"


def test_the_place_wins_over_all():
    assert job_manager(place={"rest.port": "1"})["rest.port"] == "1"


def test_a_jobs_own_parallelism_limit_can_be_left_to_it():
    configuration = job_manager_configuration(
        app="a",
        address=ADDRESS,
        storage=STORAGE,
        metrics_ports=(1,),
        max_parallelism=None,
        user={},
        place={},
    )

    assert "pipeline.max-parallelism" not in configuration
    assert job_manager()["pipeline.max-parallelism"] == "720"


def test_yaml_keeps_every_value_as_text():
    tricky = {"a": "0123", "b": "no", "c": "x: y # z", "d": 'say "hi"\\', "e": "1.10"}

    assert yaml.safe_load(render_yaml(tricky)) == tricky
    assert len(render_yaml(tricky).splitlines()) == len(tricky)


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,80}", fullmatch=True),
        st.text(max_size=200),
        max_size=5,
    )
)
def test_yaml_is_the_same_with_and_without_libyaml(configuration):
    """ConfigMaps are named by their content: another text would restart Flink."""
    plain = yaml.safe_dump(configuration, sort_keys=True, default_style='"', width=10_000)

    assert render_yaml(configuration) == plain


@pytest.fixture
def installation(tmp_path):
    (tmp_path / "lib").mkdir()
    for name in ("b.jar", "a.jar", "readme.txt"):
        (tmp_path / "lib" / name).touch()
    return Installation(java=Path("/jdk/bin/java"), flink_home=tmp_path)


def test_the_class_path_is_flinks_jars_in_a_fixed_order(installation):
    lib = installation.flink_home / "lib"

    assert installation.class_path() == f"{lib / 'a.jar'}:{lib / 'b.jar'}"


def test_the_users_options_for_the_jvm_are_honoured_without_flinks_scripts():
    configuration = {
        "env.java.opts.all": "-Da=1",
        "env.java.opts.taskmanager": '-Db="x y" -Dc',
        "env.java.opts.jobmanager": "-Dd",
    }

    assert java_options(configuration, "taskmanager") == ("-Da=1", "-Db=x y", "-Dc")
