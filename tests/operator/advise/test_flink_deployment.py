"""What Weir reads of a FlinkDeployment, what it refuses, and the StreamApp that replaces it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.operator.advise.fakes import FakeCluster
from tests.operator.flink.builders import a_job
from tests.operator.streamapp.builders import a_manifest, a_stream_app
from weir_operator.advise.adoption_plan import (
    describe_move,
    plan_adoption,
)
from weir_operator.advise.flink_deployment import (
    OVERRIDES,
    describe_overrides,
    explain_wait,
    find_autoscaler,
    read_deployment,
    read_memory,
    refusals,
    refuse_flink,
    rescales_at_checkpoints,
)
from weir_operator.advise.reference import Reference, pools_of
from weir_operator.advise.view import join_forward, view_job
from weir_operator.cluster.app.preflight import find_refusals
from weir_operator.cluster.status.view import first_facts
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.pools import NodePool

REF = {"ref": {"kind": "FlinkDeployment", "name": "trips"}}


def a_deployment(configuration=None, **spec):
    return read_deployment(
        {
            "metadata": {"name": "trips", "namespace": "streams", "resourceVersion": "7"},
            "spec": {
                "image": "example/trips:1.4",
                "flinkVersion": "v2_0",
                "flinkConfiguration": {
                    "jobmanager.scheduler": "adaptive",
                    "taskmanager.numberOfTaskSlots": "2",
                    "execution.checkpointing.savepoint-dir": "s3://bucket/trips",
                    "restart-strategy.type": "fixed-delay",
                    **(configuration or {}),
                },
                "jobManager": {"resource": {"cpu": 0.5, "memory": "1024m"}},
                "taskManager": {"resource": {"cpu": 1, "memory": "3072m"}},
                "job": {
                    "jarURI": "local:///opt/flink/usrlib/trips.jar",
                    "entryClass": "example.Trips",
                    "args": ["--window", "5m"],
                    "upgradeMode": "savepoint",
                },
                **spec,
            },
        }
    )


def test_a_deployment_with_the_adaptive_scheduler_can_be_scaled():
    deployment = a_deployment()

    assert refusals(deployment) == ()
    assert refuse_flink("1.20.5", deployment.configuration) == ""
    assert (deployment.cores, deployment.memory, deployment.slots) == (1.0, 3 * 2**30, 2)


@pytest.mark.parametrize(
    ("configuration", "spec", "sentence"),
    [
        ({}, {"job": None}, "is a session cluster"),
        ({}, {"mode": "standalone"}, "expected native, got standalone"),
        ({"job.autoscaler.enabled": "true"}, {}, "got job.autoscaler.enabled: true"),
        ({"scheduler-mode": "REACTIVE"}, {}, "expected no scheduler-mode"),
        (
            {"kubernetes.operator.job.upgrade.inplace-scaling.enabled": "false"},
            {},
            "the operator would restart the job for every change",
        ),
        ({}, {"job": {"upgradeMode": "stateless"}}, "expected last-state or savepoint"),
        ({"pipeline": {"jobvertex-parallelism-overrides": "a:1"}}, {}, "expected the flat key"),
    ],
)
def test_what_cannot_be_scaled_is_refused_with_the_field(configuration, spec, sentence):
    (refusal,) = refusals(a_deployment(configuration, **spec))

    assert sentence in refusal


def test_a_part_of_a_blue_green_deployment_is_neither_scaled_nor_moved():
    owner = {"kind": "FlinkBlueGreenDeployment", "name": "trips"}
    child = replace(
        a_deployment(),
        parent=read_deployment(
            {"metadata": {"name": "trips-blue", "ownerReferences": [owner]}}
        ).parent,
    )

    [refusal] = refusals(child)
    [stop] = plan_adoption(child, an_external_job(), version="2.0.0", objective="1s").stops

    for sentence in (refusal, stop):
        assert "is a part of FlinkBlueGreenDeployment trips," in sentence
    assert "write mode: Advise" in refusal
    assert "initialSavepoint" in stop


def test_another_scheduler_and_an_old_flink_are_refused():
    assert "expected Adaptive, got Default" in refuse_flink("2.0.1", {})
    assert "expected 1.18 or newer, got 1.17.2" in refuse_flink("1.17.2", {})
    assert not rescales_at_checkpoints("1.20.5")
    assert rescales_at_checkpoints("2.0.0")


@pytest.mark.parametrize(
    ("state", "forward", "back"),
    [
        ("RUNNING", True, True),
        ("RESTARTING", False, True),
        ("CREATED", False, True),
        ("RECONCILING", False, False),
        ("FAILED", False, False),
        (None, False, False),
    ],
)
def test_the_key_is_written_only_where_the_operator_scales_the_job(state, forward, back):
    deployment = read_deployment(
        {"metadata": {"name": "trips"}, "status": {"jobStatus": {"state": state}}}
    )

    assert (explain_wait(deployment) == "") is forward
    assert (explain_wait(deployment, is_back=True) == "") is back


NOW = 1_764_000_000.0


def an_autoscaler_state(age):
    """Return the ConfigMap of the operator's autoscaler, written that many seconds ago."""
    written = datetime.fromtimestamp(NOW - age, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields = [{"manager": "fabric8", "time": "2020-01-01T00:00:00Z"}, {"time": written}]
    meta = {"name": "autoscaler-trips", "managedFields": fields}
    return {"/api/v1/namespaces/streams/configmaps/autoscaler-trips": {"metadata": meta}}


@pytest.mark.parametrize(
    ("objects", "configuration", "works"),
    [
        pytest.param({}, {}, False, id="it never was"),
        pytest.param(an_autoscaler_state(60.0), {}, True, id="it has just written"),
        pytest.param(an_autoscaler_state(3600.0), {}, False, id="it wrote long ago"),
        pytest.param(
            an_autoscaler_state(60.0), {"job.autoscaler.enabled": "false"}, False, id="just ended"
        ),
    ],
)
async def test_the_autoscaler_of_the_operators_defaults_is_seen_by_what_it_writes(
    objects, configuration, works
):
    found = await find_autoscaler(FakeCluster(objects), a_deployment(configuration), now=NOW)

    assert ("autoscaler-trips" in found) is works


def test_overrides_are_read_as_they_are_written():
    written = describe_overrides({"b" * 32: 2, "a" * 32: 1})

    assert written == f"{'a' * 32}:1,{'b' * 32}:2"
    assert a_deployment({OVERRIDES: written}).overrides == {"b" * 32: 2, "a" * 32: 1}


@pytest.mark.parametrize(
    ("text", "size"), [("2048m", 2**31), ("2g", 2**31), ("1.5Gi", 3 * 2**29), ("much", None)]
)
def test_memory_is_read_as_the_operator_does(text, size):
    assert read_memory(text) == size


def test_vertices_that_one_to_one_edges_join_are_one_operator():
    job = a_job("abcd", [("a", "b", "HASH"), ("b", "c", "FORWARD"), ("c", "d", "FORWARD")])
    separate = a_job("abcd", [("a", "b", "HASH"), ("b", "c", "REBALANCE"), ("c", "d", "RESCALE")])
    named = {each: each for each in "abcd"}

    assert join_forward(job, named) == {"a": "a", "b": "b", "c": "b", "d": "b"}
    assert join_forward(separate, named) == named


def test_groups_that_a_later_edge_joins_become_one_operator():
    job = a_job("abcd", [("a", "c", "FORWARD"), ("b", "d", "FORWARD"), ("c", "d", "FORWARD")])

    assert set(join_forward(job, {each: each for each in "abcd"}).values()) == {"a"}


def a_reference(deployment):
    return Reference(
        name="trips", namespace="streams", rest_url="", job_manager_labels="", deployment=deployment
    )


def test_a_streamapp_without_pools_has_the_one_kind_of_task_manager():
    manifest = a_manifest(flink=REF, operators=[{"name": "score", "maxReplicas": 3}])
    del manifest["spec"]["nodePools"]
    app = parse_manifest(manifest)
    reference = a_reference(a_deployment())

    (pool,) = pools_of(app, reference)
    priced = a_stream_app(flink=REF, nodePools=[{"name": "fast", "price": "0.04", "sizes": ["4"]}])
    (own,) = pools_of(priced, reference)

    assert (pool.name, [str(size) for size in pool.sizes]) == ("taskmanagers", ["1"])
    assert pool.memory.bytes == 3 * 2**30
    assert (own.name, own.price, [str(size) for size in own.sizes]) == ("fast", 0.04, ["1"])
    assert find_refusals(app) == ()
    assert first_facts(1, app).prices == {}


def test_the_streamapp_that_replaces_a_deployment_is_right_and_has_the_same_job():
    deployment = a_deployment({"kubernetes.jobmanager.replicas": "2"}, podTemplate={"spec": {}})

    found = plan_adoption(deployment, None, version="2.0.1", objective="500ms")

    app = parse_manifest(found.manifest)
    assert find_refusals(app) == ()
    job = app.spec.flink.job
    assert job is not None
    assert (job.jar, job.entry_class, job.args) == (
        "/opt/flink/usrlib/trips.jar",
        "example.Trips",
        ("--window", "5m"),
    )
    assert app.spec.flink.config == {"restart-strategy.type": "fixed-delay"}
    assert app.spec.flink.storage is not None
    assert app.spec.flink.storage.uri == "s3://bucket/trips"
    (pool,) = app.spec.node_pools
    assert ([str(size) for size in pool.sizes], str(pool.memory)) == (["500m"], "1536Mi")
    assert any("jobmanager.scheduler" in sentence for sentence in found.remarks)
    # The max parallelism is the job's own, which only a running job shows.
    assert len(found.stops) == 1
    assert "does not run, or cannot be reached" in found.stops[0]


@pytest.mark.parametrize(
    ("configuration", "spec", "version", "sentence"),
    [
        ({}, {}, "1.19.3", "expected 1.20 or newer, got 1.19.3"),
        ({}, {"job": {"jarURI": "https://example.com/a.jar"}}, "2.0.0", "put the jar into"),
        ({}, {"job": {"state": "suspended"}}, "2.0.0", "expected running, got suspended"),
        ({"job.autoscaler.enabled": "true"}, {}, "2.0.0", "expected no other autoscaler"),
        (
            {"execution.checkpointing.savepoint-dir": "file:///state"},
            {},
            "2.0.0",
            "spec.flink.storage.claim",
        ),
    ],
)
def test_what_stops_the_move_is_said(configuration, spec, version, sentence):
    deployment = a_deployment(configuration, **spec)

    found = plan_adoption(deployment, None, version=version, objective="1s")

    assert any(sentence in each for each in found.stops)


def test_a_job_on_flink_1_20_can_be_moved():
    found = plan_adoption(a_deployment(), an_external_job(), version="1.20.0", objective="1s")

    assert found.stops == ()


def test_the_reason_why_a_job_cannot_be_read_is_said():
    found = plan_adoption(
        a_deployment(), None, version="", objective="1s", cause="there is no trips-rest"
    )

    (sentence,) = found.stops
    assert "does not run, or cannot be reached" in sentence
    assert "there is no trips-rest" in sentence


def an_external_job():
    return view_job(
        a_job("abcd"), dict.fromkeys("abcd", ()), {}, pools=(NodePool(name="taskmanagers"),), url=""
    )


def test_a_manifest_of_the_user_must_have_the_jobs_max_parallelism():
    external = an_external_job()
    job = {"jar": "/opt/flink/usrlib/trips.jar"}
    right, wrong = (
        a_manifest(flink={"job": job, "maxParallelism": maximum}) for maximum in (128, 720)
    )

    assert plan(external, right).stops == ()
    assert plan(external, right).manifest == right
    (sentence,) = plan(external, wrong).stops
    assert "expected 128, the job's, got 720" in sentence


def plan(job, given):
    deployment = a_deployment({"execution.checkpointing.savepoint-dir": "file:///state"})
    return plan_adoption(deployment, job, version="2.0.0", objective="1s", given=given)


def test_the_way_back_deploys_again_and_sets_the_upgrade_mode_as_it_was():
    job = {"savepointRedeployNonce": 4, "upgradeMode": "last-state"}
    *_, deploy, _, _, _, mode = describe_move(
        a_deployment(job=job), a_manifest(), "rides.yaml"
    ).splitlines()

    assert '"savepointRedeployNonce": 5' in deploy
    assert '{"spec": {"job": {"upgradeMode": "last-state"}}}' in mode


@pytest.mark.parametrize(
    "status",
    [
        {"upgradeSavepointPath": "s3://bucket/1"},
        {"savepointInfo": {"lastSavepoint": {"location": "s3://bucket/1"}}},
    ],
)
def test_a_savepoint_of_an_earlier_stop_is_not_taken_for_that_of_the_move(status):
    deployment = read_deployment(
        {"metadata": {"name": "trips"}, "spec": {"job": {}}, "status": {"jobStatus": status}}
    )

    page = describe_move(deployment, a_manifest(), "trips.yaml")

    assert "or an older one (s3://bucket/1), Flink took none" in page


def test_an_upgrade_mode_that_was_not_set_is_removed():
    page = describe_move(a_deployment(job={}), a_manifest(), "rides.yaml")

    assert '{"spec": {"job": {"upgradeMode": null}}}' in page.splitlines()[-1]
