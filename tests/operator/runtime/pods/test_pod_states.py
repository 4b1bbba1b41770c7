"""What a pod's status is taken to say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.operator.runtime.pods.test_manifests import pods_of
from weir_operator.runtime.pods.pod_spec import CONTAINER
from weir_operator.runtime.pods.pod_states import (
    cpu_of,
    is_alive,
    is_held,
    node_is_going,
    replica,
    waiting_for,
)

NOW = 1767323045.0 + 300
FULL = "0/3 nodes are available: 3 Insufficient cpu."


def pod(*, status=None, cpu="250m", **metadata):
    return {
        "metadata": {
            "name": "trips-match-small-1",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {
                "weir.dev/operator": "match",
                "weir.dev/pool": "small",
                "weir.dev/revision": "r1",
            },
            **metadata,
        },
        "spec": {"containers": [{"name": CONTAINER, "resources": {"limits": {"cpu": cpu}}}]},
        "status": status or {},
    }


def container(**status):
    return {"containerStatuses": [{"name": CONTAINER, **status}]}


def condition(kind, status="True", **more):
    return {"conditions": [{"type": kind, "status": status, **more}]}


def test_a_running_pod_is_a_replica_with_its_reporters_address():
    found = replica(pod(status={"podIP": "10.1.2.3"}), pods_of(), terminating="", now=NOW)

    assert (found.id, found.node_type) == ("trips-match-small-1", "small/250m")
    assert found.metrics_url == "http://10.1.2.3:9249/metrics"
    assert found.started == 1767323045.0
    assert found.node == ""
    assert (found.pending, found.terminating, found.revision) == ("", "", "r1")


def test_a_replica_tells_which_node_it_runs_on():
    bound = pod()
    bound["spec"]["nodeName"] = "n2"

    assert replica(bound, pods_of(), terminating="", now=NOW).node == "n2"


def test_an_address_of_ipv6_stands_in_brackets():
    found = replica(pod(status={"podIP": "fd00::1"}), pods_of(), terminating="", now=NOW)

    assert found.metrics_url == "http://[fd00::1]:9249/metrics"


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_pod_that_is_to_run_is_alive(phase):
    assert is_alive(pod(status={"phase": phase}))


def test_a_pod_that_ended_or_was_told_to_is_not():
    assert not is_alive(pod(status={"phase": "Failed"}))
    assert not is_alive(pod(deletionTimestamp="2026-01-02T03:04:06Z"))


def test_a_pod_that_no_node_takes_says_why():
    status = condition("PodScheduled", "False", reason="Unschedulable", message=FULL)

    assert waiting_for(pod(status=status), NOW) == f"Unschedulable: {FULL}"


def test_a_container_that_is_just_being_made_waits_for_nothing():
    assert (
        waiting_for(pod(status=container(state={"waiting": {"reason": "ContainerCreating"}})), NOW)
        == ""
    )


def test_an_image_that_cannot_be_had_is_told():
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}

    assert waiting_for(pod(status=container(state={"waiting": waiting})), NOW) == (
        "ImagePullBackOff: Back-off pulling image"
    )


def test_a_container_that_ends_again_and_again_gives_its_last_words():
    status = container(
        state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        lastState={"terminated": {"message": "starting\nNo such jar\n"}},
    )

    assert waiting_for(pod(status=status), NOW) == "CrashLoopBackOff: No such jar"


INITIALISING = container(state={"waiting": {"reason": "PodInitializing"}})


@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses"])
def test_any_container_that_cannot_start_is_named_with_its_reason(kind):
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "x" not found'}
    beside = {"name": "side", "state": {"waiting": waiting}}
    status = {**INITIALISING, kind: [*INITIALISING.get(kind, ()), beside]}

    told = waiting_for(pod(status=status), NOW)

    assert told == 'Container side: CreateContainerConfigError: secret "x" not found'
    assert replica(pod(status=status), pods_of(), terminating="", now=NOW).pending == told


def test_what_fails_beside_flink_does_not_take_its_place_away():
    beside = {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    status = container(state={"running": {}})
    status["containerStatuses"].append(beside)

    assert waiting_for(pod(status=status), NOW) == "Container side: ImagePullBackOff"
    assert replica(pod(status=status), pods_of(), terminating="", now=NOW).pending == ""


@pytest.mark.parametrize(
    ("volume", "name"),
    [
        ({"persistentVolumeClaim": {"claimName": "state"}}, "persistentVolumeClaim state"),
        ({"secret": {"secretName": "keys"}}, "secret keys"),
        ({"configMap": {"name": "settings"}}, "configMap settings"),
        ({"emptyDir": {}}, "its network"),
    ],
)
@pytest.mark.parametrize("seconds", [59, 61])
def test_a_volume_that_is_not_mounted_in_time_is_named(volume, name, seconds):
    since = datetime.fromtimestamp(NOW - seconds, UTC).isoformat()
    waiting = pod(
        status={
            **container(state={"waiting": {"reason": "ContainerCreating"}}),
            **condition("PodReadyToStartContainers", "False", lastTransitionTime=since),
        }
    )
    waiting["spec"] |= {"nodeName": "n1", "volumes": [{"name": "v", **volume}]}

    told = f"ContainerCreating: not ready on n1: {name}" if seconds > 60 else ""
    assert waiting_for(waiting, NOW) == told


def test_while_a_resize_is_under_way_the_pod_has_what_its_node_gave():
    status = container(resources={"limits": {"cpu": "250m"}})

    assert cpu_of(pod(cpu="500m", status=status)) == "250m"


def node(**spec):
    return {"metadata": {"name": "n1"}, "spec": spec}


def test_a_spot_notice_is_going():
    taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}

    assert "spot-itn" in node_is_going(node(taints=[taint]))


def test_a_node_with_other_taints_stays():
    assert node_is_going(node(taints=[{"key": "dedicated", "effect": "NoSchedule"}])) == ""


def test_of_a_java_program_that_ended_the_innermost_cause_is_said():
    last_words = (
        "ERROR ClusterEntrypoint - Could not start cluster entrypoint.\n"
        "Caused by: java.util.concurrent.CompletionException: it failed\n"
        "\tat java.base/Thread.run\n"
        "Caused by: java.io.FileNotFoundException: /flink-data is not writable\n"
        "\t... 8 more\n"
        "WARN CoordinatedShutdown - Could not addJvmShutdownHook\n"
    )
    status = container(
        state={"waiting": {"reason": "CrashLoopBackOff"}},
        lastState={"terminated": {"message": last_words}},
    )

    assert waiting_for(pod(status=status), NOW) == (
        "CrashLoopBackOff: java.io.FileNotFoundException: /flink-data is not writable"
    )


def test_a_replica_tells_which_process_it_is_and_how_the_one_before_it_ended():
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    first = pod(uid="u1", status=container(containerID="containerd://1"))
    second = pod(uid="u1", status=container(containerID="containerd://2", lastState=ended))

    before, now, unknown = [
        replica(each, pods_of(), terminating="", now=NOW) for each in (first, second, pod(uid="u1"))
    ]

    assert before.process != now.process
    assert (before.ended, now.ended) == ("", "OOMKilled, exit code 137")
    assert (unknown.process, unknown.ended) == ("", "")


@pytest.mark.parametrize("cpu", ["abc", "0", "500u", "1e1"])
def test_a_pod_of_a_size_that_weir_never_gives_can_be_listed(cpu):
    assert replica(pod(cpu=cpu), pods_of(), terminating="", now=NOW).size == cpu


EVICTED = condition("DisruptionTarget", reason="EvictionByEvictionAPI", message="evicted")
RUNNING = container(state={"running": {}})
ENDS = "2026-01-02T03:10:00Z"
BEFORE, AFTER = 1767323399.0, 1767323401.0


@pytest.mark.parametrize(
    "reason", ["EvictionByEvictionAPI", "PreemptionByScheduler", "TerminationByKubelet"]
)
def test_a_pod_that_has_to_go_is_held_while_it_works(reason):
    going = condition("DisruptionTarget", reason=reason, message="told to go")
    evicted = pod(status={**going, **RUNNING}, deletionTimestamp=ENDS)

    assert is_held(evicted, BEFORE)
    assert not is_alive(evicted)
    found = replica(evicted, pods_of(), terminating="", now=NOW)
    assert found.evicted
    assert found.terminating == f"{reason}: told to go"


@pytest.mark.parametrize(
    ("status", "metadata", "now"),
    [
        ({**EVICTED, **RUNNING}, {}, BEFORE),  # not deleted yet: alive
        ({**EVICTED, **RUNNING}, {"deletionTimestamp": ENDS}, AFTER),  # its node may be lost
        ({**EVICTED, **container(state={"terminated": {}})}, {"deletionTimestamp": ENDS}, BEFORE),
        (RUNNING, {"deletionTimestamp": ENDS}, BEFORE),  # removed by Weir, or by a person
        (
            {**condition("DisruptionTarget", reason="DeletionByTaintManager"), **RUNNING},
            {"deletionTimestamp": ENDS},
            BEFORE,
        ),
    ],
)
def test_other_pods_are_not_held(status, metadata, now):
    assert not is_held(pod(status=status, **metadata), now)
