"""The objects of a StreamApp's Flink cluster, as values."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from weir_operator.errors import InvalidStreamAppError, PermanentError
from weir_operator.runtime.pods import configuration, job_manager, manifests, pod_spec
from weir_operator.runtime.pods.configuration import (
    config_map,
    job_manager_files,
    task_manager_files,
)
from weir_operator.runtime.pods.pod_spec import AGENT_JAR, CONTAINER, merge
from weir_operator.runtime.pods.pods import FlinkPods, fitting
from weir_operator.runtime.revision import AgentImage, Revision
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.wiring import assembly


def manifest(**flink):
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "trips", "namespace": "streams"},
        "spec": {
            "flink": {"image": "example/trips:1", "storage": {"claim": "state"}, **flink},
            "objective": {"responseTime": "200ms"},
            "nodePools": [
                {
                    "name": "small",
                    "nodeSelector": {"weir.dev/pool": "small"},
                    "tolerations": [{"key": "dedicated", "value": "streams"}],
                    "sizes": ["250m", "500m"],
                    "memory": "1Gi",
                    "price": "0.04",
                },
                {"name": "large", "sizes": ["1", "2"], "memory": "2Gi", "price": "0.05"},
            ],
            "operators": [
                {"name": "match", "maxReplicas": 4, "managedMemory": "128Mi"},
                {"name": "sink", "maxReplicas": 1},
            ],
        },
    }


def pods_for(app):
    return FlinkPods.of(app, uid="uid-1", controller_namespace="weir-system")


def pods_of(**flink):
    return pods_for(parse_manifest(manifest(**flink)))


def replica_set(pods, pool="small", size="250m"):
    return manifests.task_managers(
        pods, "match", pool, size=size, replicas=2, config_map="match-config"
    )


def main_container(workload):
    return workload["spec"]["template"]["spec"]["containers"][0]


def security_of(template):
    pod = manifests.job_manager(pods_of(podTemplate=template), "x")["spec"]["template"]["spec"]
    return {
        "pod": pod["securityContext"],
        "container": next(each for each in pod["containers"] if each["name"] == CONTAINER)[
            "securityContext"
        ],
    }


NOTHING = security_of({})
OWN = ("runAsUser", "runAsGroup", "fsGroup")


def main(context):
    return {"spec": {"containers": [{"name": CONTAINER, "securityContext": context}]}}


@pytest.mark.parametrize(
    "template",
    [
        *(
            {"spec": {"securityContext": {name: None}}}
            for name in NOTHING["pod"]
            if name not in OWN
        ),
        *(main({name: None}) for name in NOTHING["container"]),
        {"spec": {"securityContext": {"seccompProfile": {"type": None}}}},
        {"spec": {"securityContext": None}},
        {"spec": {"securityContext": dict.fromkeys((*NOTHING["pod"], "sysctls"))}},
        main({"capabilities": {"drop": None}}),
        main(None),
    ],
    ids=str,
)
def test_a_null_takes_none_of_weirs_protection_away(template):
    kept = security_of(template)

    for part, fields in NOTHING.items():
        for name, value in fields.items():
            assert kept[part][name] == value or name in OWN, name


@pytest.mark.parametrize("name", OWN)
def test_a_user_that_the_platform_chooses_may_be_null(name):
    assert security_of({"spec": {"securityContext": {name: None}}})["pod"][name] is None


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ({"spec": {"securityContext": []}}, "runAsNonRoot"),
        ({"spec": {"securityContext": {"seccompProfile": []}}}, "seccompProfile"),
        ({"spec": {"securityContext": {"runAsNonRoot": "false"}}}, "runAsNonRoot"),
        (main([]), "allowPrivilegeEscalation"),
        (main({"allowPrivilegeEscalation": 1}), "allowPrivilegeEscalation"),
        (main({"capabilities": {"drop": "NONE"}}), "drop"),
    ],
    ids=str,
)
def test_what_the_merge_made_is_judged_and_not_the_template(template, sentence):
    with pytest.raises(PermanentError, match=sentence):
        security_of(template)


PROBES = [("livenessProbe",), ("readinessProbe",), ("startupProbe",)]
HOOKS = [("lifecycle", "postStart"), ("lifecycle", "preStop")]


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
@pytest.mark.parametrize("path", [*PROBES, *HOOKS], ids=lambda path: path[-1])
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
def test_no_probe_or_hook_has_the_node_ask_another_host(containers, path, kind):
    def asking(host):
        handler = {kind: {"port": 80, "host": host}}
        for name in reversed(path):
            handler = {name: handler}
        return {"spec": {containers: [{"name": "beside", "image": "beside:1", **handler}]}}

    with pytest.raises(InvalidStreamAppError, match=rf"{kind}\.host: expected nothing beyond"):
        pods_of(podTemplate=asking("169.254.169.254"))
    assert pods_of(podTemplate=asking(""))


@pytest.mark.parametrize(
    "spec",
    [
        {"securityContext": {"windowsOptions": {"hostProcess": True}}},
        {
            "containers": [
                {"name": "x", "securityContext": {"windowsOptions": {"hostProcess": True}}}
            ]
        },
    ],
    ids=["pod", "container"],
)
def test_no_process_of_the_node_is_asked_for(spec):
    with pytest.raises(InvalidStreamAppError, match="hostProcess: expected nothing beyond"):
        pods_of(podTemplate={"spec": spec})


def test_a_resize_of_cpu_restarts_nothing():
    policies = main_container(replica_set(pods_of()))["resizePolicy"]

    assert {"resourceName": "cpu", "restartPolicy": "NotRequired"} in policies


def test_pods_run_on_the_nodes_of_their_pool():
    spec = replica_set(pods_of())["spec"]["template"]["spec"]

    assert spec["nodeSelector"] == {"weir.dev/pool": "small"}
    assert {"key": "dedicated", "operator": "Equal", "value": "streams"} in spec["tolerations"]


def test_replicas_of_an_operator_avoid_each_others_nodes():
    (spread,) = replica_set(pods_of())["spec"]["template"]["spec"]["topologySpreadConstraints"]

    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    assert spread["labelSelector"]["matchLabels"]["weir.dev/operator"] == "match"


NOT_N2 = {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}


def node_terms(pods, avoid):
    workload = manifests.task_managers(
        pods, "match", "small", size="250m", replicas=2, config_map="c", avoid=avoid
    )
    spec = workload["spec"]["template"]["spec"]
    return spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]


def test_a_replica_that_must_avoid_a_node_is_kept_off_it_by_its_name():
    assert node_terms(pods_of(), ("n2",)) == {"nodeSelectorTerms": [{"matchFields": [NOT_N2]}]}
    assert "affinity" not in replica_set(pods_of())["spec"]["template"]["spec"]


def test_a_node_is_avoided_beside_whatever_the_users_affinity_allows():
    either = {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}, {"matchFields": [NOT_N2]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": either}
    pods = pods_of(podTemplate={"spec": {"affinity": {"nodeAffinity": required}}})

    first, second = node_terms(pods, ("n3",))["nodeSelectorTerms"]

    n3 = NOT_N2 | {"values": ["n3"]}
    assert first == {"matchExpressions": [ZONE], "matchFields": [n3]}
    assert second == {"matchFields": [NOT_N2, n3]}


def test_the_users_template_is_merged_but_what_weir_owns_stands():
    template = {
        "metadata": {"labels": {"team": "rides", "weir.dev/app": "other"}},
        "spec": {
            "serviceAccountName": "rides",
            "volumes": [{"name": "secrets", "secret": {"secretName": "s3"}}],
            "containers": [
                {"name": "sidecar", "image": "example/sidecar:1"},
                {
                    "name": CONTAINER,
                    "image": "example/ignored:1",
                    "env": [{"name": "TOKEN", "value": "x"}],
                    "volumeMounts": [{"name": "secrets", "mountPath": "/secrets"}],
                    "resources": {"limits": {"cpu": "8", "ephemeral-storage": "1Gi"}},
                },
            ],
        },
    }
    pods = pods_of(podTemplate=template)

    workload = replica_set(pods)

    spec, labels = workload["spec"]["template"]["spec"], workload["spec"]["template"]["metadata"]
    container = main_container(workload)
    assert labels["labels"]["team"] == "rides"
    assert labels["labels"]["weir.dev/app"] == "trips"
    assert spec["serviceAccountName"] == "rides"
    bindings = [each for each in manifests.accounts(pods) if each["kind"] == "RoleBinding"]
    assert [each["subjects"][0]["name"] for each in bindings] == ["rides", "rides"]
    assert "automountServiceAccountToken" not in spec
    assert [each["name"] for each in spec["containers"]] == [CONTAINER, "sidecar"]
    assert {"secrets", "weir-config"} <= {each["name"] for each in spec["volumes"]}
    assert container["image"] == "example/trips:1"
    assert {"name": "TOKEN", "value": "x"} in container["env"]
    assert "/secrets" in {each["mountPath"] for each in container["volumeMounts"]}
    assert container["resources"]["limits"] == {
        "cpu": "250m",
        "memory": "1024Mi",
        "ephemeral-storage": "1Gi",
    }


def test_named_things_are_merged_by_their_name_and_others_joined():
    below = {"env": [{"name": "A", "value": "1"}], "tolerations": [{"key": "a"}], "command": ["x"]}
    above = {"env": [{"name": "A", "value": "2"}], "tolerations": [{"key": "b"}], "command": ["y"]}

    assert merge(below, above) == {
        "env": [{"name": "A", "value": "2"}],
        "tolerations": [{"key": "a"}, {"key": "b"}],
        "command": ["y"],
    }


def test_of_fields_of_which_kubernetes_takes_one_the_last_stands():
    secret = {"secretKeyRef": {"name": "s3", "key": "token"}}
    below = {
        "livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 5},
        "env": [{"name": "A", "valueFrom": secret}, {"name": "B", "value": "2"}],
    }
    above = {
        "livenessProbe": {"tcpSocket": {"port": 6122}},
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": secret}],
    }

    assert merge(below, above) == {
        "livenessProbe": {"tcpSocket": {"port": 6122}, "periodSeconds": 5},
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": secret}],
    }


def test_only_weir_and_flinks_own_pods_reach_the_rest_interface():
    rules = manifests.network_policy(pods_of())["spec"]["ingress"]

    (rest,) = [rule for rule in rules if {"port": 8081} in rule["ports"]]
    own, controller = rest["from"]
    assert own == {"podSelector": {"matchLabels": {"weir.dev/app": "trips"}}}
    assert controller["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "weir-system"
    }
    assert controller["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "weir"}


def account_of(workload):
    spec = workload["spec"]["template"]["spec"]
    return spec["serviceAccountName"], spec["automountServiceAccountToken"]


def test_where_nobody_is_elected_no_pod_has_a_token_or_a_right():
    pods = pods_of(storage=None)

    roles = [each for each in manifests.accounts(pods) if each["kind"] == "Role"]

    assert [role["rules"] for role in roles] == [[], []]
    for workload in (replica_set(pods), manifests.job_manager(pods, "x")):
        assert account_of(workload)[1] is False


def test_a_jobmanager_with_storage_recovers_its_job_by_itself():
    files = job_manager_files(pods_of())

    config = yaml.safe_load(files["config.yaml"])
    assert config["high-availability.type"] == "kubernetes"
    assert config["high-availability.storageDir"] == "file:///flink-data/streams.trips/recovery"
    assert config["kubernetes.cluster-id"] == "weir-trips-uid-1"
    assert "jobmanager.rpc.address=$POD_IP" in files["start.sh"]


def test_a_jobmanager_without_storage_does_not_pretend_to():
    pods = pods_of(storage=None)

    config = yaml.safe_load(job_manager_files(pods)["config.yaml"])

    assert "high-availability.type" not in config
    assert config["jobmanager.rpc.address"] == "trips-jobmanager.streams"


def test_a_storage_uri_is_used_as_it_is():
    pods = pods_of(storage={"uri": "s3://bucket/trips/"})

    config = yaml.safe_load(task_manager_files(pods, "match", "large")["config.yaml"])

    assert config["execution.checkpointing.dir"] == "s3://bucket/trips/checkpoints"
    volumes = replica_set(pods)["spec"]["template"]["spec"]["volumes"]
    assert "weir-state" not in {each["name"] for each in volumes}


def test_a_taskmanager_is_pinned_to_its_operator_and_has_its_pools_memory():
    config = yaml.safe_load(task_manager_files(pods_of(), "match", "large")["config.yaml"])

    assert config["external-resources"] == "op-match"
    assert config["taskmanager.memory.process.size"] == "2048m"
    assert config["taskmanager.memory.managed.size"] == str(128 * 2**20) + "b"
    assert "taskmanager.resource-id" not in config


def test_the_jar_is_quoted_where_it_is_named():
    files = job_manager_files(pods_of(job={"jar": "/opt/my jobs/a'b.jar"}))

    assert """set -- '/opt/my jobs/a'"'"'b.jar'""" in files["start.sh"]


def test_a_script_is_run_by_weirs_jar_out_of_the_job_managers_config_map(tmp_path, monkeypatch):
    (tmp_path / "weir-programs.jar").write_bytes(b"its classes")
    monkeypatch.setattr(configuration, "find_own_jar", lambda name: tmp_path / "weir-programs.jar")
    app = parse_manifest(manifest(job={"sql": {"script": "INSERT INTO b SELECT x FROM a"}}))
    pods = pods_of(job={"sql": {"script": "INSERT INTO b SELECT x FROM a"}})

    job = assembly.job_spec(app, beside=Path("/nonexistent"))
    files = job_manager.make_files(pods)

    assert job.entry_class == "dev.weir.RunScript"
    assert job.arguments == ("script", "INSERT INTO b SELECT x FROM a")
    assert base64.b64decode(files["binaryData"]["weir-programs.jar"]) == b"its classes"
    assert "set -- /etc/weir/flink/weir-programs.jar\n" in files["data"]["start.sh"]


def test_a_script_in_the_image_is_read_there_and_never_here(tmp_path):
    (tmp_path / "q.sql").write_text("the controller's own")
    app = parse_manifest(manifest(job={"sql": {"file": str(tmp_path / "q.sql")}}))

    job = assembly.job_spec(app, beside=tmp_path)

    assert job.arguments == (str(tmp_path / "q.sql"),)


def test_a_changed_script_is_an_upgrade():
    def revision(script):
        app = parse_manifest(manifest(job={"sql": {"script": script}}))
        return assembly.revision_of(app, assembly.job_spec(app, beside=Path("/nonexistent")))

    assert revision("INSERT INTO b SELECT x FROM a").id != revision("INSERT INTO b SELECT 1").id
    [pods] = {
        pods_of().with_revision(revision(script)).make.jar
        for script in ("INSERT INTO b SELECT x FROM a", "INSERT INTO b SELECT 1")
    }
    assert pods == "/etc/weir/flink/weir-programs.jar"


def test_a_pyflink_program_is_run_by_the_jar_in_flinks_image():
    python = {"python": {"file": "/opt/flink/usrlib/job.py"}, "args": ["--window", "5m"]}
    app = parse_manifest(manifest(job=python))

    job = assembly.job_spec(app, beside=Path("/nonexistent"))
    files = job_manager.make_files(pods_of(job=python))

    assert job.entry_class == "org.apache.flink.client.python.PythonDriver"
    assert job.arguments == ("--python", "/opt/flink/usrlib/job.py", "--window", "5m")
    assert "set -- /opt/flink/opt/flink-python-*.jar\n" in files["data"]["start.sh"]
    assert 'python="${PYFLINK_CLIENT_EXECUTABLE:-python}"\n' in files["data"]["start.sh"]
    assert "pyflink" not in job_manager.make_files(pods_of())["data"]["start.sh"]
    assert "binaryData" not in files


def test_equal_content_is_the_same_config_map_and_other_content_another():
    pods = pods_of()

    names = [
        config_map(pods, "files", {}, data)["metadata"]["name"]
        for data in ({"a": "1"}, {"a": "1"}, {"a": "2"})
    ]

    assert names[0] == names[1] != names[2]


def test_names_that_could_be_mistaken_for_each_other_differ():
    pods = pods_of()

    assert pods.workload("a-b", "c") != pods.workload("a", "b-c")


def test_a_long_name_is_cut_and_stays_its_own():
    name, other = "a" * 80, "a" * 79 + "b"

    assert len(fitting(name)) == 63
    assert fitting(name) != fitting(other)
    assert fitting("short") == "short"


def test_a_size_is_told_as_the_pool_writes_it():
    pods = pods_of()

    assert pods.size_of("large", "1000m") == "1"
    assert pods.size_of("small", "0.5") == "500m"
    assert pods.size_of("small", "3") == "3"


def test_an_upgrade_shows_in_the_labels_of_new_pods_only():
    pods = replace(pods_of(), revision="r2")

    workload = replica_set(pods)

    assert workload["spec"]["template"]["metadata"]["labels"]["weir.dev/revision"] == "r2"
    assert "weir.dev/revision" not in workload["spec"]["selector"]["matchLabels"]


def test_a_job_without_an_image_is_refused_with_the_remedy():
    with pytest.raises(PermanentError, match=r"spec\.flink\.image: "):
        pods_of(image=None, job={"jar": "trips.jar"})


def test_an_unknown_pool_is_named():
    with pytest.raises(PermanentError, match="'huge'"):
        replica_set(pods_of(), pool="huge")


def with_agent(digest):
    return replace(pods_of(), agent=AgentImage(image="example/weir:1", digest=digest))


def run_script(script, tmp_path):
    """Run an init container's script with folders of this machine; return what it has said."""
    source = tmp_path / AGENT_JAR
    source.write_text("the agent")
    mount = tmp_path / "mount"
    mount.mkdir()
    script = script.replace(pod_spec.AGENT_IN_IMAGE, str(source))
    script = script.replace(pod_spec.AGENT_MOUNT, str(mount))
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stderr


def test_pods_copy_the_agent_from_weirs_image_and_use_it_where_it_is():
    pods = with_agent("0" * 64)

    for workload in (replica_set(pods), manifests.job_manager(pods, "jm-config")):
        spec = workload["spec"]["template"]["spec"]
        [init] = spec["initContainers"]
        assert init["image"] == "example/weir:1"
        assert {"name": "weir-agent", "emptyDir": {}} in spec["volumes"]
        assert "weir-agent" in [each["name"] for each in main_container(workload)["volumeMounts"]]
    for files in (job_manager_files(pods), task_manager_files(pods, "match", "small")):
        assert f"agent=-javaagent:{pod_spec.AGENT_MOUNT}/{AGENT_JAR}" in files["start.sh"]
        assert " $agent " in files["start.sh"]


def test_pods_of_a_revision_copy_the_agent_of_its_image():
    ran = AgentImage(image="example/weir:0", digest="1" * 64)
    revision = Revision(processes={"image": "trips:1.4"}, agent=ran)

    [init] = replica_set(with_agent("0" * 64).with_revision(revision))["spec"]["template"]["spec"][
        "initContainers"
    ]

    assert init["image"] == "example/weir:0"


@pytest.mark.parametrize("agent", [True, False])
def test_every_container_has_the_limits_that_a_quota_and_the_class_guaranteed_ask_for(agent):
    pods = with_agent("0" * 64) if agent else pods_of()

    trial = manifests.trial(pods)[1]
    for workload in (replica_set(pods), manifests.job_manager(pods, "jm-config"), trial):
        spec = workload["spec"]["template"]["spec"]
        for each in (*spec.get("initContainers", ()), *spec["containers"]):
            limits, requests = (each["resources"][kind] for kind in ("limits", "requests"))
            assert limits.keys() >= {"cpu", "memory"}, each["name"]
            assert limits.keys() == requests.keys(), each["name"]
            # One that is tried beside the job's takes what CPU is left.
            assert limits == requests or workload is trial, each["name"]


def test_pods_without_the_agent_know_nothing_of_it():
    spec = replica_set(pods_of())["spec"]["template"]["spec"]

    assert "initContainers" not in spec
    assert "agent" not in task_manager_files(pods_of(), "match", "small")["start.sh"]


def test_the_agent_of_the_digest_is_provided(tmp_path):
    digest = hashlib.sha256(b"the agent").hexdigest()
    [init] = replica_set(with_agent(digest))["spec"]["template"]["spec"]["initContainers"]

    run_script(init["command"][-1], tmp_path)

    assert [each.name for each in (tmp_path / "mount").glob("*.jar")] == [AGENT_JAR]


def test_another_agent_is_left_out_and_flink_starts_all_the_same(tmp_path):
    [init] = replica_set(with_agent("0" * 64))["spec"]["template"]["spec"]["initContainers"]

    said = run_script(init["command"][-1], tmp_path)

    assert list((tmp_path / "mount").glob("*.jar")) == []
    assert "Flink starts without it" in said


def test_the_budget_counts_what_replica_sets_of_task_managers_do():
    pods = pods_of()
    selector = manifests.disruption_budget(pods)["spec"]["selector"]
    replica = replica_set(pods)["spec"]["template"]["metadata"]["labels"]
    job_manager = manifests.job_manager(pods, "x")["spec"]["template"]["metadata"]["labels"]

    assert selector.keys() == {"matchLabels"}
    assert selector["matchLabels"].items() <= replica.items()
    assert not selector["matchLabels"].items() <= job_manager.items()


def test_an_evicted_task_manager_has_time_to_be_moved():
    budget = manifests.disruption_budget(pods_of())
    workload, job_manager = replica_set(pods_of()), manifests.job_manager(pods_of(), "x")
    command = main_container(workload)["lifecycle"]["preStop"]["exec"]["command"]

    assert budget["spec"]["maxUnavailable"] == 1
    assert command == ["bash", "/etc/weir/flink/hold.sh"]
    assert "hold.sh" in task_manager_files(pods_of(), "match", "small")
    assert workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 330
    assert job_manager["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 30
    assert "lifecycle" not in main_container(job_manager)
