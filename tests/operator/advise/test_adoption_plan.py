"""What a StreamApp takes over from a FlinkDeployment, in every form that it can have there."""

from typing import Any

import pytest

from tests.operator.advise.test_flink_deployment import REF, a_reference, an_external_job
from tests.operator.streamapp.builders import a_manifest
from weir_operator.advise.adoption_plan import plan_adoption
from weir_operator.advise.flink_deployment import flatten, read_deployment
from weir_operator.advise.reference import pools_of
from weir_operator.cluster.app.preflight import find_refusals
from weir_operator.flink.scripts import PYTHON
from weir_operator.streamapp.loading import parse_manifest

SECRETS = {
    "kubernetes.secrets": "keys:/etc/keys,more:/etc/more",
    "kubernetes.env.secretKeyRef": "env:PASSWORD,secret:keys,key:password;"
    "env:USER,secret:keys,key:user",
    "kubernetes.container.image.pull-secrets": "registry;other",
    "kubernetes.persistent-volume-claims": "state:/state",
    "kubernetes.service-account": "trips",
    "kubernetes.taskmanager.labels": "team:streams",
    "kubernetes.jobmanager.annotations": "a.b/c:'x,y'",
    "containerized.master.env.ENABLE_BUILT_IN_PLUGINS": "flink-s3-fs-presto.jar",
    "containerized.taskmanager.env.ENABLE_BUILT_IN_PLUGINS": "flink-s3-fs-presto.jar",
}
PLACES = {
    "kubernetes.taskmanager.tolerations": "key:dedicated,operator:Equal,value:streams,"
    "effect:NoSchedule;key:spot,operator:Exists",
    "kubernetes.taskmanager.node-selector": "pool:streams",
}
TODAY = {"requests": {"cpu": "4", "memory": "8Gi"}}
SMALL = {"requests": {"cpu": "500m", "memory": "2048m"}}


def a_deployment(configuration=None, slots="2", **spec):
    """Return one without resources, unless `spec` has them."""
    return read_deployment(
        {
            "metadata": {"name": "trips", "namespace": "streams", "resourceVersion": "7"},
            "spec": {
                "image": "example/trips:1.4",
                "flinkConfiguration": {
                    "taskmanager.numberOfTaskSlots": slots,
                    "state.savepoints.dir": "s3://bucket/savepoints",
                    **(configuration or {}),
                },
                "job": {"jarURI": "local:///opt/flink/usrlib/trips.jar", "parallelism": 8},
                **spec,
            },
        }
    )


def adopted(deployment, running=None):
    found = plan_adoption(
        deployment, an_external_job(), version="2.2.0", objective="1s", running=running or {}
    )
    assert found.stops == ()
    app = parse_manifest(found.manifest)
    assert find_refusals(app) == ()
    return app.spec


def sizes_of(spec):
    [pool] = spec.node_pools
    manager = spec.flink.job_manager
    texts = (*pool.sizes, pool.memory, manager.cpu, manager.memory)
    return " ".join(str(each) for each in texts)


@pytest.mark.parametrize(
    ("configuration", "spec", "sizes"),
    [
        ({}, {"taskManager": {"resources": TODAY}}, "2 4096Mi 500m 1Gi"),
        ({}, {"jobManager": {"resources": TODAY}}, "1 2Gi 4 8192Mi"),
        ({}, {"taskManager": {"resources": {"limits": TODAY["requests"]}}}, "2 4096Mi 500m 1Gi"),
        ({}, {"jobManager": {"resources": SMALL}}, "1 2Gi 500m 2048Mi"),
        (
            {},
            {"taskManager": {"resource": {"cpu": 4, "memory": "8g"}, "resources": SMALL}},
            "250m 1024Mi 500m 1Gi",
        ),
        ({}, {"jobManager": {"resource": {"cpu": 2, "memory": "4g"}}}, "1 2Gi 2 4096Mi"),
        (
            {
                "taskmanager.memory.process.size": "8192m",
                "kubernetes.taskmanager.cpu.amount": "4",
                "jobmanager.memory.process.size": "4g",
                "kubernetes.jobmanager.cpu": "2.0",
            },
            {},
            "2 4096Mi 2 4096Mi",
        ),
        ({"taskmanager.heap.size": "8g", "jobmanager.heap.size": "2g"}, {}, "1 4096Mi 500m 2048Mi"),
        # 7 GiB for Flink, 256 MiB of metaspace, a tenth of the whole for the JVM.
        ({"taskmanager.memory.flink.size": "7g"}, {}, "1 4124Mi 500m 1Gi"),
        ({"jobmanager.memory.flink.size": "1g"}, {}, "1 2Gi 500m 1472Mi"),
        # Flink's own default is a core for each slot.
        ({}, {"taskManager": {"resource": {"memory": "4g"}}}, "1 2048Mi 500m 1Gi"),
    ],
    ids=str,
)
def test_cpu_and_memory_are_taken_over_in_every_form(configuration, spec, sizes):
    assert sizes_of(adopted(a_deployment(configuration, **spec))) == sizes


def remarks_of(deployment):
    found = plan_adoption(deployment, an_external_job(), version="2.2.0", objective="1s")
    assert found.stops == ()
    return " ".join(found.remarks)


def test_memory_below_what_processes_need_is_raised_and_told():
    little = {"requests": {"cpu": "1", "memory": "1Gi"}}
    sizes = {"taskManager": {"resources": little}, "jobManager": {"resource": {"memory": "500m"}}}
    deployment = a_deployment(**sizes)

    _, memory, _, manager = sizes_of(adopted(deployment)).split()
    told = remarks_of(deployment)

    assert f"A TaskManager gets {memory} instead of 512Mi per slot" in told
    assert f"The JobManager gets {manager} instead of 500Mi" in told
    assert "Amounts of memory are those of one slot" in told


@pytest.mark.parametrize(
    ("configuration", "spec"),
    [
        ({}, {"taskManager": {"resources": {**TODAY, "limits": {"cpu": "8"}}}}),
        (
            {"kubernetes.taskmanager.cpu.limit-factor": "2.0"},
            {"taskManager": {"resource": {"cpu": 4}}},
        ),
    ],
)
def test_cpu_that_a_task_manager_has_beyond_what_it_asks_for_is_told(configuration, spec):
    told = remarks_of(a_deployment(configuration, **spec))

    assert "A TaskManager may use 8 cores today (its limit)" in told
    assert "only what it requests, 4 cores for all slots together" in told


def test_no_limit_is_told_where_it_is_what_a_task_manager_asks_for():
    assert "limit" not in remarks_of(a_deployment(taskManager={"resources": TODAY}))


def test_numbers_that_cannot_be_read_are_as_if_not_there():
    unreadable = {
        "kubernetes.taskmanager.cpu": "two", "taskmanager.memory.flink.size": "1g",
        "taskmanager.memory.jvm-overhead.fraction": "a tenth",
    }  # fmt: skip
    deployment = a_deployment(unreadable)

    assert deployment.cores == 2
    assert deployment.memory == (1024 + 256 + 192) * 2**20


@pytest.mark.parametrize(
    "key", ["state.savepoints.dir", "savepoints.state.backend.fs.dir", "state.checkpoints.dir"]
)
def test_the_storage_may_have_any_of_its_names(key):
    deployment = a_deployment({"state.savepoints.dir": "", key: "s3://bucket/a"})

    found = plan_adoption(deployment, an_external_job(), version="2.2.0", objective="1s")

    assert found.manifest["spec"]["flink"]["storage"] == {"uri": "s3://bucket/a"}


@pytest.mark.parametrize("uri", ["local:///opt/a.jar", "local:/opt/a.jar"])
def test_a_jar_in_the_image_is_taken_over(uri):
    job = adopted(a_deployment(job={"jarURI": uri})).flink.job

    assert job is not None
    assert job.jar == "/opt/a.jar"


@pytest.mark.parametrize(
    ("args", "rest", "config"),
    [
        (["-py", "/opt/flink/usrlib/job.py"], [], {}),
        (
            ["-pyclientexec", "/venv/bin/python", "-pyexec", "python3", "-pyfs", "/a,/b",
             "--python", "file:///opt/flink/usrlib/job.py", "--rate", "5"],
            ["--rate", "5"],
            {"python.client.executable": "/venv/bin/python", "python.executable": "python3",
             "python.files": "/a,/b"},
        ),
        # Flink's options end at the first argument that is none; the rest is the program's.
        (
            ["-py", "/opt/flink/usrlib/job.py", "--pyFiles=/a", "--rate", "5", "--python", "3"],
            ["--rate", "5", "--python", "3"],
            {"python.files": "/a"},
        ),
        (["-py", "/opt/flink/usrlib/job.py", "--", "-pyfs", "/a"], ["-pyfs", "/a"], {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("uri", ["local:///opt/flink/opt/flink-python-2.2.0.jar", None])
def test_a_python_program_of_flinks_driver_becomes_one_of_weirs(uri, args, rest, config):
    spec = adopted(a_deployment(job={"jarURI": uri, "entryClass": PYTHON, "args": args}))

    job = spec.flink.job
    assert job is not None
    assert job.python is not None
    assert job.python.file == "/opt/flink/usrlib/job.py"
    assert (job.jar, job.entry_class) == (None, None)
    assert list(job.args) == rest
    assert {key: (spec.flink.config or {}).get(key) for key in config} == config


def test_the_image_may_be_a_key_and_must_be_somewhere():
    key = {"kubernetes.container.image.ref": "example/trips:2"}

    assert adopted(a_deployment(key, image=None)).flink.image == "example/trips:2"
    assert adopted(a_deployment(image=None), running=key).flink.image == "example/trips:2"


def test_fields_without_a_counterpart_are_told():
    ingress = {"template": "{{name}}.example.org"}

    told = remarks_of(
        a_deployment(ingress=ingress, jobManager={"replicas": 2}, executionRoleArn="arn:aws:iam")
    )

    assert "(spec.ingress) has no counterpart" in told
    assert "(spec.executionRoleArn) has no counterpart" in told
    assert "one JobManager instead of 2 (spec.jobManager.replicas)" in told


def test_nested_keys_are_flattened_and_lists_joined_as_the_operator_does():
    lists = {"pipeline": {"classpaths": ["file:///a.jar", "file:///b.jar"]}, "x": [True, 1]}

    assert flatten(lists) == {"pipeline.classpaths": "file:///a.jar;file:///b.jar", "x": "true;1"}


def test_the_operators_defaults_are_taken_over():
    running = {
        "taskmanager.memory.process.size": "8192m",
        "kubernetes.taskmanager.cpu.amount": "4.0",
        "kubernetes.secrets": "keys:/etc/keys",
        "kubernetes.pod-template-file.taskmanager": "/tmp/generated",
        "$internal.application.main": "example.Trips",
        "execution.target": "kubernetes-application",
        "jobmanager.memory.heap.size": "400m",
        "parallelism.default": "8",
        "state.backend.type": "rocksdb",
        "s3.endpoint": "http://storage",
    }

    spec = adopted(a_deployment(), running)

    assert sizes_of(spec).startswith("2 4096Mi")
    assert spec.flink.config == {"state.backend.type": "rocksdb", "s3.endpoint": "http://storage"}
    assert "keys" in str(spec.flink.pod_template)


def test_the_jobs_own_keys_win_over_the_operators_defaults():
    spec = adopted(a_deployment({"s3.endpoint": "http://a"}), {"s3.endpoint": "http://b"})

    assert spec.flink.config == {"s3.endpoint": "http://a"}


def template_of(deployment) -> Any:
    return adopted(deployment).flink.pod_template


def test_keys_of_pods_become_the_pod_template():
    template = template_of(a_deployment(SECRETS))

    [container] = template["spec"].pop("containers")
    assert template["metadata"] == {
        "labels": {"team": "streams"},
        "annotations": {"a.b/c": "x,y"},
    }
    assert template["spec"] == {
        "serviceAccountName": "trips",
        "imagePullSecrets": [{"name": "registry"}, {"name": "other"}],
        "volumes": [
            {"name": "secret-keys", "secret": {"secretName": "keys"}},
            {"name": "secret-more", "secret": {"secretName": "more"}},
            {"name": "claim-state", "persistentVolumeClaim": {"claimName": "state"}},
        ],
    }
    assert [each["mountPath"] for each in container["volumeMounts"]] == [
        *("/etc/keys", "/etc/more", "/state"),
    ]
    assert container["env"][0] == {
        "name": "PASSWORD",
        "valueFrom": {"secretKeyRef": {"name": "keys", "key": "password"}},
    }
    assert container["env"][2:] == [
        {"name": "ENABLE_BUILT_IN_PLUGINS", "value": "flink-s3-fs-presto.jar"}
    ]


def test_fields_of_pods_join_the_pod_template():
    deployment = a_deployment(
        SECRETS,
        serviceAccount="flink",
        imagePullPolicy="Always",
        podTemplate={
            "spec": {"containers": [{"name": "flink-main-container", "env": [{"name": "A"}]}]}
        },
    )

    template = template_of(deployment)

    [container] = template["spec"]["containers"]
    assert template["spec"]["serviceAccountName"] == "flink"
    assert container["imagePullPolicy"] == "Always"
    assert [each["name"] for each in container["env"]] == [
        *("A", "PASSWORD", "USER", "ENABLE_BUILT_IN_PLUGINS"),
    ]


def test_places_of_task_managers_become_the_pools():
    [pool] = adopted(a_deployment(PLACES)).node_pools

    assert pool.node_selector == {"pool": "streams"}
    assert [(each.key, each.operator, each.effect) for each in pool.tolerations] == [
        ("dedicated", "Equal", "NoSchedule"),
        ("spot", "Exists", None),
    ]


def test_amounts_of_memory_become_those_of_a_slot():
    spec = adopted(
        a_deployment({"taskmanager.memory.managed.size": "4g"}, taskManager={"resources": TODAY})
    )

    assert spec.flink.config == {"taskmanager.memory.managed.size": f"{2 * 2**30}b"}


def test_a_reporter_on_the_port_of_weirs_is_left_out():
    reporter = {
        "metrics.reporter.mine.factory.class":
        "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
        "metrics.reporter.mine.filterLabelValueCharacters": "false",
        "metrics.reporters": "mine",
    }  # fmt: skip

    assert adopted(a_deployment(reporter)).flink.config is None


@pytest.mark.parametrize(
    ("configuration", "spec", "running", "sentence"),
    [
        ({"kubernetes.hadoop.conf.config-map.name": "hadoop"}, {}, {}, "no kubernetes.hadoop"),
        ({"kubernetes.secrets": "no path"}, {}, {}, "expected no kubernetes.secrets"),
        ({"kubernetes.env.secretKeyRef": "env:A,secret:b"}, {}, {}, "expected no kubernetes.env"),
        ({"kubernetes.taskmanager.tolerations": "x"}, {}, {}, "expected no kubernetes.taskm"),
        ({"kubernetes.jobmanager.tolerations": "key:a"}, {}, {}, "expected no kubernetes.jobm"),
        ({"kubernetes.something.new": "1"}, {}, {}, "expected no kubernetes.something.new"),
        (
            {"containerized.master.env.A": "1", "containerized.taskmanager.env.A": "2"}, {}, {},
            "expected no containerized.taskmanager.env.A",
        ),
        (
            {"user.artifacts.artifact-list": "s3://b/a.jar"}, {}, {},
            "expected no user.artifacts.artifact-list, got 's3://b/a.jar'",
        ),
        (
            {}, {"taskManager": {"resources": {"limits": {"nvidia.com/gpu": "1"}}}}, {},
            "spec.taskManager.resources of FlinkDeployment trips: expected cpu and memory, got nv",
        ),
        (
            {}, {"jobManager": {"resource": {"cpu": 1, "ephemeralStorage": "2G"}}}, {},
            "spec.jobManager.resources of FlinkDeployment trips: expected cpu and memory, got eph",
        ),
        ({}, {"taskManager": {"podTemplate": {"spec": {}}}}, {}, "one template for all pods"),
        ({}, {}, {"s3.secret-key": "******"}, "defaults have s3.secret-key"),
        ({}, {"image": None}, {}, "expected the image of the job"),
        (
            {}, {"job": {"entryClass": PYTHON, "args": ["-pym", "trips"]}}, {},
            "expected the PyFlink program as -py PATH",
        ),
        (
            {"taskmanager.memory.task.heap.size": "1g", "taskmanager.memory.managed.size": "1g"},
            {}, {}, "expected the memory of a whole TaskManager",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_taken_over_stops_the_move(configuration, spec, running, sentence):
    found = plan_adoption(
        a_deployment(configuration, **spec), an_external_job(), version="2.2.0",
        objective="1s", running=running,
    )  # fmt: skip

    [stop] = found.stops
    assert sentence in stop


def test_mode_auto_reads_the_resources_of_today():
    manifest = a_manifest(flink=REF, mode="Auto", nodePools=[{"name": "all"}])
    reference = a_reference(a_deployment(taskManager={"resources": SMALL}))

    [pool] = pools_of(parse_manifest(manifest), reference)

    assert ([str(each) for each in pool.sizes], str(pool.memory)) == (["500m"], "2048Mi")
