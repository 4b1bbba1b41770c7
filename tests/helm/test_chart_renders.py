"""What the chart makes of values that people set."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.cluster.prometheus_on_kubernetes import scrape_configuration
from tests.helm.program import CHART, KUBERNETES
from tests.helm.samples import DIGEST, SAMPLES, container, of_kind, rules
from tests.operator.runtime.pods.controller_rules import CLUSTER_RULES, CONTROLLER_RULES
from weir_cli.main import load_command
from weir_operator.metrics import names
from weir_operator.runtime.pods.pods import CONTROLLER_LABELS
from weir_operator.streamapp.crd import crd
from weir_operator.tuning.job import read_job
from weir_pipelines.metrics import METRICS

CLUSTER_SCOPED = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}


@pytest.mark.parametrize("sample", SAMPLES)
def test_helm_finds_nothing_to_complain_of(helm, tmp_path, sample):
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(SAMPLES[sample]))

    linted = helm("lint", "--strict", CHART, "--values", values, "--kube-version", KUBERNETES)

    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_controller_knows_every_flag_that_it_is_given(render, sample):
    known = {
        option
        for each in load_command("controller").params
        for option in (*each.opts, *each.secondary_opts)
    }

    command, *flags = container(render(SAMPLES[sample]))["args"]

    assert command == "controller"
    assert {flag.partition("=")[0] for flag in flags} <= known


def test_flink_gets_the_agent_from_the_controllers_own_image(render):
    objects = render(SAMPLES["image by digest"])

    image = container(objects)["image"]
    assert f"--agent-image={image}" in container(objects)["args"]
    without = render({"agent": {"enabled": False}})
    assert not [each for each in container(without)["args"] if "agent" in each]


def test_prometheus_is_reached_as_the_values_say(render):
    objects = render(SAMPLES["everything"])

    assert [flag for flag in container(objects)["args"] if "prometheus" in flag] == [
        "--prometheus=https://prometheus.example:9091/north",
        "--prometheus-token-file=/etc/weir/token/token",
        "--prometheus-ca=/etc/weir/ca/ca.crt",
        "--prometheus-label=cluster=north",
    ]
    mounted = {each["mountPath"] for each in container(objects)["volumeMounts"]}
    assert {"/etc/weir/token", "/etc/weir/ca"} <= mounted


def test_a_tenant_with_a_password_is_handed_to_controller_and_pipelines(render):
    objects = render(SAMPLES["tenant with a password"])

    [job] = of_kind(objects, "CronJob")
    pods = {
        "--prometheus-": container(objects),
        "--": job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0],
    }
    for begin, each in pods.items():
        flags = {f"{begin}basic-auth=/etc/weir/basic-auth", f"{begin}header=X-Scope-OrgID=team-a"}
        assert flags <= set(each["args"])
        assert "/etc/weir/basic-auth" in {mount["mountPath"] for mount in each["volumeMounts"]}


def test_a_tuning_is_a_job_that_the_controller_can_read_and_that_has_no_rights(render, tmp_path):
    objects = render(SAMPLES["tunings"])
    [config] = [each for each in of_kind(objects, "ConfigMap") if "job.yaml" in each["data"]]
    (tmp_path / "job.yaml").write_text(config["data"]["job.yaml"])

    pod = read_job(tmp_path / "job.yaml")["spec"]["template"]["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["image"] == "example/weir-tuner:1.2.3"
    assert pod["nodeSelector"] == {"weir.dev/pool": "large"}
    assert "--tuner-job=/etc/weir/tuner/job.yaml" in container(objects)["args"]


def test_without_tunings_the_controller_may_make_no_jobs(render):
    objects = render(SAMPLES["defaults"])

    assert not any("jobs" in rule["resources"] for rule in rules(objects))
    assert not any("tuner" in flag for flag in container(objects)["args"])


def test_a_digest_decides_over_the_tag(render):
    by_digest = container(render(SAMPLES["image by digest"]))["image"]
    by_default = container(render())["image"]

    assert by_digest == f"example/weir:1.2.3@{DIGEST}"
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert by_default == f"weir:{version}"


def test_one_controller_is_replaced_and_several_roll(render):
    [one] = of_kind(render(), "Deployment")
    [three] = of_kind(render(SAMPLES["three controllers"]), "Deployment")

    assert one["spec"]["strategy"] == {"type": "Recreate"}
    assert three["spec"]["strategy"]["type"] == "RollingUpdate"


def test_the_controllers_get_their_lease_by_name_and_no_other_lease(render):
    objects = render()

    [leader] = [
        each for each in of_kind(objects, "Role") if each["metadata"]["name"].endswith("-leader")
    ]
    unnamed, named = leader["rules"]
    assert unnamed["verbs"] == ["create"]
    assert {*named["verbs"]} == {"get", "update"}
    assert named["resourceNames"] == ["weir-controller"]


def test_a_drain_is_never_blocked(render):
    [budget] = of_kind(render(), "PodDisruptionBudget")

    assert budget["spec"]["maxUnavailable"] == 1
    assert "minAvailable" not in budget["spec"]


@pytest.mark.parametrize("sample", SAMPLES)
def test_flink_lets_these_pods_in_and_only_they_are_served(render, sample):
    objects = render(SAMPLES[sample])

    [deployment] = of_kind(objects, "Deployment")
    [service] = of_kind(objects, "Service")
    pod = deployment["spec"]["template"]["metadata"]["labels"]
    [test_pod] = of_kind(objects, "Pod")
    assert CONTROLLER_LABELS.items() <= pod.items()
    assert service["spec"]["selector"].items() <= pod.items()
    assert not service["spec"]["selector"].items() <= test_pod["metadata"]["labels"].items()


@pytest.mark.parametrize("sample", ["defaults", "two namespaces", "all namespaces"])
def test_the_controller_gets_the_rights_that_its_runtime_needs(render, sample):
    granted = {
        (group, resource, verb)
        for rule in rules(render(SAMPLES[sample]))
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    needed = {
        (group, resource, verb)
        for rule in (*CONTROLLER_RULES, *CLUSTER_RULES)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert needed - granted == set()


@pytest.mark.parametrize("sample", SAMPLES)
def test_no_role_names_secrets_or_everything(render, sample):
    found = [
        rule
        for each in render(SAMPLES[sample])
        if each["kind"] in ("Role", "ClusterRole")
        for rule in each["rules"]
    ]

    for rule in found:
        named = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert not named & {"*", "secrets", "escalate", "bind", "impersonate"}, rule


def test_a_controller_of_named_namespaces_has_roles_there_alone(render):
    objects = render(SAMPLES["two namespaces"])

    places = {each["metadata"]["namespace"] for each in of_kind(objects, "RoleBinding")}
    bound = {each["roleRef"]["name"] for each in of_kind(objects, "ClusterRoleBinding")}
    assert places == {"streams", "rides", "weir"}  # in its own: the Lease
    assert bound == {"weir-release-weir-nodes", "weir-release-weir-finalizers"}
    assert [arg for arg in container(objects)["args"] if "namespace" in arg] == [
        "--namespace=streams",
        "--namespace=rides",
    ]


def test_it_installs_without_any_right_beyond_a_namespace(render):
    objects = render(SAMPLES["no right beyond a namespace"])

    assert {each["kind"] for each in objects} & CLUSTER_SCOPED == set()


def test_people_get_their_share_through_the_roles_they_have(render):
    shares = {
        each["metadata"]["name"].rpartition("-")[2]: each
        for each in of_kind(render(), "ClusterRole")
        if any("aggregate-to" in label for label in each["metadata"]["labels"])
    }

    assert set(shares) == {"view", "edit"}
    reading, writing = shares["view"], shares["edit"]
    assert reading["rules"][0]["verbs"] == ["get", "list", "watch"]
    assert "rbac.authorization.k8s.io/aggregate-to-view" not in writing["metadata"]["labels"]
    for share in shares.values():
        assert share["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"] == "true"


def test_the_crd_is_the_one_of_the_models_and_stays(render):
    [kept] = of_kind(render(), "CustomResourceDefinition")
    [not_kept] = of_kind(render({"crds": {"keep": False}}), "CustomResourceDefinition")

    assert kept["spec"] == crd()["spec"]
    assert kept["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in not_kept["metadata"]


def test_flinks_pods_are_scraped_where_weir_looks_after_them(render):
    monitoring = {"monitoring": {"flinkPodMonitor": {"enabled": True}}}

    [everywhere] = of_kind(render({**monitoring, "watchNamespaces": ["*"]}), "PodMonitor")
    [there] = of_kind(render({**monitoring, "watchNamespaces": ["streams"]}), "PodMonitor")

    assert everywhere["spec"]["namespaceSelector"] == {"any": True}
    assert there["spec"]["namespaceSelector"] == {"matchNames": ["streams"]}
    [endpoint] = there["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] == "metrics"


def test_whose_a_series_is_says_the_pod_as_the_page_has_it_and_not_the_series(render):
    [monitor] = of_kind(
        render({"monitoring": {"flinkPodMonitor": {"enabled": True}}}), "PodMonitor"
    )
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    shown = scrape_configuration()["scrape_configs"][0]

    assert endpoint["honorLabels"] is False
    assert "honor_labels" not in shown
    [rule] = endpoint["relabelings"]
    assert {
        "source_labels": rule["sourceLabels"],
        "separator": rule["separator"],
        "target_label": rule["targetLabel"],
    } in shown["relabel_configs"]


def test_who_is_let_in_is_who_was_named_and_the_test_pod(render):
    objects = render(SAMPLES["everything"])

    [policy] = of_kind(objects, "NetworkPolicy")
    [test_pod] = of_kind(objects, "Pod")
    [rule] = policy["spec"]["ingress"]
    named, of_test = rule["from"]
    assert named == SAMPLES["everything"]["networkPolicy"]["from"][0]
    selected = of_test["podSelector"]["matchLabels"]
    assert selected.items() <= test_pod["metadata"]["labels"].items()


def test_everybody_is_let_in_where_nobody_is_named(render):
    [policy] = of_kind(render(), "NetworkPolicy")

    assert policy["spec"]["ingress"] == [{"ports": [{"port": "http"}]}]


def test_prometheus_is_let_out_to_by_the_port_of_its_pods(render):
    egress = {"prometheusPorts": [9091, 10902]}
    values = {
        "prometheus": {"url": "http://prometheus.monitoring:80"},
        "networkPolicy": {"egress": egress},
    }

    [policy] = of_kind(render(values), "NetworkPolicy")
    [without] = of_kind(render({"networkPolicy": {"egress": egress}}), "NetworkPolicy")

    asked = [{"port": 9091}, {"port": 10902}]
    assert asked in [rule["ports"] for rule in policy["spec"]["egress"]]
    assert asked not in [rule["ports"] for rule in without["spec"]["egress"]]


def test_alerts_ask_for_metrics_that_exist_and_carry_the_labels_asked_for(render):
    documented = set(
        re.findall(r"`(weir_\w+)`", (CHART.parents[1] / "docs/metrics.md").read_text())
    )

    [rule] = of_kind(render(SAMPLES["everything"]), "PrometheusRule")

    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    assert alerts
    for alert in alerts:
        asked = set(re.findall(r"weir_\w+", alert["expr"]))
        assert asked <= documented
        assert alert["labels"]["team"] == "streams"
        assert alert["labels"]["severity"] in ("warning", "critical")


def test_each_dashboard_file_becomes_a_config_map_that_grafana_finds(render, tmp_path):
    chart = Path(shutil.copytree(CHART, tmp_path / "weir"))
    page = {"title": "Jobs", "panels": [{"expr": "{{ not a template }}"}]}
    (chart / "files/dashboards").mkdir(exist_ok=True)
    (chart / "files/dashboards/jobs.json").write_text(json.dumps(page))

    objects = render(SAMPLES["everything"], chart=chart)

    shown = {each["metadata"]["name"]: each for each in of_kind(objects, "ConfigMap")}
    config_map = shown["scaler-jobs"]
    assert json.loads(config_map["data"]["jobs.json"]) == page
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config_map["metadata"]["annotations"] == {"grafana_folder": "Streams"}


def test_the_charts_own_dashboards_are_installed_whole(render):
    files = {path.name: path for path in (CHART / "files/dashboards").glob("*.json")}

    shown = of_kind(render({"monitoring": {"dashboards": {"enabled": True}}}), "ConfigMap")
    not_shown = of_kind(render(), "ConfigMap")

    held = {name: text for each in shown for name, text in each["data"].items()}
    assert {name: json.loads(text) for name, text in held.items()} == {
        name: json.loads(path.read_text()) for name, path in files.items()
    }
    assert len(held) == 4
    assert not_shown == []


def test_the_server_may_keep_only_what_weir_reads(render):
    monitoring = {"flinkPodMonitor": {"enabled": True, "allMetrics": False}}
    [monitor] = of_kind(render({"monitoring": monitoring}), "PodMonitor")
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    [rule] = endpoint["metricRelabelings"]
    shown = scrape_configuration()["scrape_configs"][0]

    nested = f"{names.OPERATOR}DynamicKafkaSource_kafkaCluster_pendingRecords"
    read = {*names.NAMES, *METRICS.values(), nested}
    assert {each for each in read if not re.fullmatch(rule["regex"], each)} == set()
    assert not re.fullmatch(rule["regex"], "flink_taskmanager_job_task_numBytesIn")
    assert not re.fullmatch(rule["regex"], "flink_taskmanager_job_task_operator_numRecordsOut")
    assert shown["metric_relabel_configs"][0]["regex"] == rule["regex"]


def test_the_server_keeps_all_metrics_unless_it_is_told_otherwise(render):
    [monitor] = of_kind(
        render({"monitoring": {"flinkPodMonitor": {"enabled": True}}}), "PodMonitor"
    )

    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert "metricRelabelings" not in endpoint


@pytest.mark.parametrize("sample", SAMPLES)
def test_whatever_ends_by_itself_passes_a_quota_of_limits(render, sample):
    objects = render(SAMPLES[sample])

    templates = [
        *of_kind(objects, "Pod"),
        *(each["spec"]["jobTemplate"]["spec"]["template"] for each in of_kind(objects, "CronJob")),
        *(
            yaml.safe_load(each["data"]["job.yaml"])["spec"]["template"]
            for each in of_kind(objects, "ConfigMap")
            if "job.yaml" in each["data"]
        ),
    ]
    assert templates
    for template in templates:
        spec = template["spec"]
        for each in (*spec.get("initContainers", ()), *spec["containers"]):
            assert each["resources"]["limits"].keys() >= {"cpu", "memory"}, each["name"]


def test_an_executor_has_a_limit_of_its_cores(render):
    objects = render(SAMPLES["pipelines with executors"])

    [job] = of_kind(objects, "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert "--conf=spark.kubernetes.executor.limit.cores=2" in json.dumps(pod)


@pytest.mark.parametrize("release", ["my.release.v1", "weir.v1"])
def test_a_release_may_have_dots_in_its_name(render, release):
    for each in render({"pipelines": {"enabled": True}, "prometheus": {"url": "http://p"}},
                       release=release):  # fmt: skip
        name = each["metadata"]["name"]
        if each["kind"] != "CustomResourceDefinition":
            assert re.fullmatch("[a-z0-9]([a-z0-9-]*[a-z0-9])?", name), f"{each['kind']} {name}"
