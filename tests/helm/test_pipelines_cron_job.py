"""The CronJob of the pipelines says what the command knows, and executors what Spark needs."""

from __future__ import annotations

import pytest
import yaml

from tests.helm.samples import SAMPLES, of_kind
from weir_cli.main import load_command

WITH_EXECUTORS = "pipelines with executors"
ANOTHER_SERVER = "history of another server"
NAMES = {53, 5353}
API_SERVER = {443, 6443, 8443, 16443}
PROMETHEUS = {9090, 8080, 8428, 8481, 10902}


def pod_of(objects):
    [job] = of_kind(objects, "CronJob")
    return job["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def flags_of(objects):
    [container] = pod_of(objects)["containers"]
    return container["args"]


def test_there_is_none_unless_it_is_asked_for(render):
    assert of_kind(render(SAMPLES["everything"]), "CronJob") == []


@pytest.mark.parametrize(
    "schedule",
    ["20 1 * * *", "*/30 0-5,22 * * *", "05 0/2 *  * *", "59 8-8,20-23/3 * * *", "@daily"],
)
def test_it_runs_on_every_day_whenever_cron_can_say(render, schedule):
    values = SAMPLES["pipelines"]
    values = {**values, "pipelines": {**values["pipelines"], "schedule": schedule}}

    [job] = of_kind(render(values), "CronJob")

    assert job["spec"]["schedule"] == schedule


@pytest.mark.parametrize("sample", ["pipelines", WITH_EXECUTORS, "tenant with a password"])
def test_the_command_knows_every_flag_that_it_is_given(render, sample):
    run = load_command("pipelines").commands["run"]
    known = {option for each in run.params for option in each.opts}

    group, command, *flags = flags_of(render(SAMPLES[sample]))

    assert (group, command) == ("pipelines", "run")
    assert {flag.partition("=")[0] for flag in flags} <= known


def test_a_night_exports_what_the_values_say(render):
    flags = flags_of(render(SAMPLES["pipelines"]))

    assert [each for each in flags if not each.startswith(("--conf", "--master"))][2:] == [
        "--tables=/var/lib/weir-history",
        "--days=2",
        "--keep-days=30",
        "--app=streams/trips",
        "--prometheus=https://prometheus.example:9091/north",
        "--token-file=/etc/weir/token/token",
        "--ca-file=/etc/weir/ca/ca.crt",
        "--match=cluster=north",
    ]


def test_history_comes_from_a_server_of_its_own_with_none_of_the_controllers_settings(render):
    objects = render(SAMPLES[ANOTHER_SERVER])

    flags = flags_of(objects)
    server = [
        each
        for each in flags
        if each.startswith(("--prometheus", "--token", "--basic", "--header", "--match", "--ca"))
    ]
    assert server == [
        "--prometheus=https://mimir.example:8443/prometheus",
        "--basic-auth=/etc/weir/basic-auth",
        "--header=X-Scope-OrgID=team-a",
    ]
    [secret] = [each["secret"] for each in pod_of(objects)["volumes"] if "secret" in each]
    assert secret == {"secretName": "mimir"}
    [deployment] = of_kind(objects, "Deployment")
    [controller] = deployment["spec"]["template"]["spec"]["containers"]
    assert "--prometheus=http://prometheus:9090" in controller["args"]


def test_the_policy_lets_the_pipelines_out_to_their_own_server(render):
    policy = policy_of(render, ANOTHER_SERVER, egress=True)

    ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert ports == NAMES | PROMETHEUS | {8443}


def test_no_samples_go_where_all_are_to_be_kept(render):
    values = SAMPLES["pipelines"]
    everything = {**values, "pipelines": {**values["pipelines"], "keepDays": 0}}

    flags = flags_of(render(everything))

    assert [each for each in flags if each.startswith("--keep-days")] == []


def test_without_executors_the_pod_has_no_right_to_anything(render):
    objects = render(SAMPLES["pipelines"])

    assert pod_of(objects)["automountServiceAccountToken"] is False


def test_without_executors_the_pod_names_an_account_that_every_namespace_has(render):
    objects = render(SAMPLES["pipelines"])

    # Where none is named, an upgrade that takes executors away leaves that of their driver.
    assert pod_of(objects)["serviceAccountName"] == "default"


def test_without_executors_a_node_with_many_cores_does_not_hold_many_days_in_memory(render):
    assert "--master=local[2,4]" in flags_of(render(SAMPLES["pipelines"]))


def test_executors_are_made_as_pods_of_the_chart_are(render):
    objects = render(SAMPLES[WITH_EXECUTORS])
    [template] = [
        yaml.safe_load(each["data"]["pod.yaml"])
        for each in of_kind(objects, "ConfigMap")
        if "pod.yaml" in each["data"]
    ]

    driver, executor = pod_of(objects), template["spec"]
    claims = [
        [each["persistentVolumeClaim"] for each in pod["volumes"] if each["name"] == "tables"]
        for pod in (driver, executor)
    ]
    assert claims[0] == claims[1]
    assert executor["securityContext"] == driver["securityContext"]
    assert executor["nodeSelector"] == {"team": "streams"}
    assert executor["automountServiceAccountToken"] is False


def test_the_driver_may_make_pods_where_it_runs_and_nothing_elsewhere(render):
    objects = render(SAMPLES[WITH_EXECUTORS])
    account = pod_of(objects)["serviceAccountName"]

    [binding] = [
        each
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for each in of_kind(objects, kind)
        if any(subject["name"] == account for subject in each["subjects"])
    ]
    [role] = [
        each
        for each in of_kind(objects, "Role")
        if each["metadata"]["name"] == binding["roleRef"]["name"]
    ]

    assert binding["kind"] == "RoleBinding"
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {"pods"}


def test_the_controller_reads_the_tables_where_it_is_asked_to_and_cannot_write_them(render):
    [deployment] = of_kind(render(SAMPLES[WITH_EXECUTORS]), "Deployment")

    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    [volume] = [each for each in pod["volumes"] if each["name"] == "tables"]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "tables"]
    [claim] = [
        each["persistentVolumeClaim"]["claimName"]
        for each in pod_of(render(SAMPLES[WITH_EXECUTORS]))["volumes"]
        if each["name"] == "tables"
    ]
    assert f"--history={mount['mountPath']}" in container["args"]
    assert mount["readOnly"] is True
    assert volume["persistentVolumeClaim"] == {"claimName": claim, "readOnly": True}


def test_the_controller_mounts_no_tables_unless_it_is_asked_to(render):
    [deployment] = of_kind(render(SAMPLES["pipelines"]), "Deployment")

    pod = deployment["spec"]["template"]["spec"]
    assert [each for each in pod["volumes"] if each["name"] == "tables"] == []
    assert not any(each.startswith("--history") for each in pod["containers"][0]["args"])


def policy_of(render, sample, *, egress):
    objects = render({**SAMPLES[sample], "networkPolicy": {"egress": {"enabled": egress}}})
    [policy] = [
        each
        for each in of_kind(objects, "NetworkPolicy")
        if each["metadata"]["name"].endswith("-pipelines")
    ]
    return policy["spec"]


def test_driver_and_executors_are_reached_by_each_other_alone(render):
    objects = render(SAMPLES[WITH_EXECUTORS])
    [job] = of_kind(objects, "CronJob")
    [template] = [
        yaml.safe_load(each["data"]["pod.yaml"])
        for each in of_kind(objects, "ConfigMap")
        if "pod.yaml" in each["data"]
    ]
    [deployment] = of_kind(objects, "Deployment")
    controller = deployment["spec"]["template"]["metadata"]["labels"]

    policy = policy_of(render, WITH_EXECUTORS, egress=False)

    labels = policy["podSelector"]["matchLabels"]
    for pod in (job["spec"]["jobTemplate"]["spec"]["template"], template):
        assert labels.items() <= pod["metadata"]["labels"].items()
    assert not labels.items() <= controller.items()
    assert policy["ingress"] == [{"from": [{"podSelector": {"matchLabels": labels}}]}]
    assert policy["policyTypes"] == ["Ingress"]


def test_nobody_reaches_the_pipelines_where_one_pod_does_it_all(render):
    assert policy_of(render, "pipelines", egress=False)["ingress"] == []


@pytest.mark.parametrize(
    ("sample", "ports"),
    [
        ("pipelines", NAMES | {9091} | PROMETHEUS),
        (WITH_EXECUTORS, NAMES | {9090} | PROMETHEUS | API_SERVER),
    ],
)
def test_the_pipelines_reach_only_what_they_need_where_egress_is_bounded(render, sample, ports):
    policy = policy_of(render, sample, egress=True)

    rules = policy["egress"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert {port["port"] for rule in rules for port in rule.get("ports", [])} == ports
    peers = [{"podSelector": policy["podSelector"]}] if sample == WITH_EXECUTORS else []
    assert [each for rule in rules if "ports" not in rule for each in rule["to"]] == peers


def test_the_pipelines_have_no_policy_where_policies_are_switched_off(render):
    objects = render({**SAMPLES["pipelines"], "networkPolicy": {"enabled": False}})

    assert of_kind(objects, "NetworkPolicy") == []
