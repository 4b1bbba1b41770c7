"""Pods that wait for an operator, against a cluster in memory; and the JVM that takes a binding."""

import asyncio
import io
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from tests.operator.runtime.kubernetes.test_manifests import manifest
from tests.operator.runtime.kubernetes.test_task_managers import LARGE, SMALL, Cluster, NoNotices
from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import PermanentError, PodsPendingError, TemporaryError
from weir_operator.flink.commands import Installation, MemoryArguments, task_manager_command
from weir_operator.flink.jars import build_standby_agent, find_java, flink_home
from weir_operator.flink.standby import waiting_options
from weir_operator.kubernetes.api.client import ConflictError, RefusedByKubernetesError
from weir_operator.runtime.kubernetes import manifests, standby
from weir_operator.runtime.kubernetes.objects import AppObjects
from weir_operator.runtime.kubernetes.pods import FlinkPods
from weir_operator.runtime.kubernetes.runtime import KubernetesRuntime
from weir_operator.runtime.kubernetes.standby import BINDING, send_binding
from weir_operator.runtime.kubernetes.task_managers import TaskManagerPods
from weir_operator.runtime.local import processes
from weir_operator.streamapp.loading import parse_manifest


class WarmCluster(Cluster):
    """A cluster whose pods are ready at once."""

    guard = None

    def _make(self, workload) -> None:
        super()._make(workload)
        *_, pod = self.pods().values()
        pod["metadata"]["uid"] = f"uid of {pod['metadata']['name']}"
        pod["status"] |= {
            "podIP": "10.0.0.7",
            "conditions": [{"type": "Ready", "status": "True"}],
        }


@pytest.fixture
def cluster():
    return WarmCluster()


@pytest.fixture
def pods():
    return FlinkPods.of(parse_manifest(manifest()), uid="uid-1", controller_namespace="weir-system")


@pytest.fixture
def bindings(monkeypatch):
    """Which pod was told which operator, and what is raised instead, by the pod's token."""
    sent: list[tuple[str, str]] = []
    failures: dict[str, Exception] = {}

    async def send(address, *, token, operator, configuration):
        if token in failures:
            raise failures[token]
        await asyncio.sleep(0)
        sent.append((token, operator))

    monkeypatch.setattr(standby, "send_binding", send)
    return sent, failures


@pytest.fixture(autouse=True)
def jar(tmp_path, monkeypatch):
    jar = tmp_path / "weir-standby.jar"
    jar.write_bytes(b"its classes")
    monkeypatch.setattr(
        "weir_operator.runtime.kubernetes.configuration.find_own_jar", lambda name: jar
    )


@pytest.fixture
def task_managers(cluster, pods):
    return TaskManagerPods(AppObjects(cluster, pods), NoNotices())


def waiting(cluster):
    return sorted(
        name
        for name, pod in cluster.pods().items()
        if pod["metadata"]["labels"]["weir.dev/component"] == "standby"
    )


async def test_what_waits_is_no_replica(task_managers, pods, cluster):
    await task_managers.keep_standby(pods, {"small": 2})

    assert len(waiting(cluster)) == 2
    assert await task_managers.replicas(pods) == ()


async def test_a_start_binds_what_waits_and_makes_only_the_rest(
    task_managers, pods, cluster, bindings
):
    sent, _ = bindings
    await task_managers.keep_standby(pods, {"small": 1})
    [warm] = waiting(cluster)

    ids = await task_managers.start(pods, [SMALL, SMALL, LARGE])

    replicas = await task_managers.replicas(pods)
    assert warm in ids
    assert sent == [(f"uid of {warm}", "match")]
    assert sorted(each.id for each in replicas) == sorted(ids)
    assert sorted(each.pool for each in replicas) == ["large", "small", "small"]
    assert [each.id for each in replicas if each.from_standby] == [warm]
    assert waiting(cluster) == []


async def test_what_was_taken_is_replaced_and_bound_ones_stay(
    task_managers, pods, cluster, bindings
):
    await task_managers.keep_standby(pods, {"small": 2})
    ids = await task_managers.start(pods, [SMALL])

    await task_managers.keep_standby(pods, {"small": 2})

    assert len(waiting(cluster)) == 2
    assert [each.id for each in await task_managers.replicas(pods)] == list(ids)


async def test_ending_a_bound_one_ends_it_and_none_that_waits(
    task_managers, pods, cluster, bindings
):
    await task_managers.keep_standby(pods, {"small": 2})
    ids = await task_managers.start(pods, [SMALL])
    left = waiting(cluster)

    await task_managers.stop(pods, ids)

    assert await task_managers.replicas(pods) == ()
    assert waiting(cluster) == left


async def test_nobody_waits_where_nobody_is_asked_for_any_more(
    task_managers, pods, cluster, bindings
):
    await task_managers.keep_standby(pods, {"small": 2, "large": 1})
    ids = await task_managers.start(pods, [SMALL])

    await task_managers.keep_standby(pods, {})

    assert waiting(cluster) == []
    assert [each.id for each in await task_managers.replicas(pods)] == list(ids)


async def test_a_bound_one_that_was_once_to_go_stays_when_none_waits_any_more(
    task_managers, pods, cluster, bindings
):
    await task_managers.keep_standby(pods, {"small": 2})
    older, newer = waiting(cluster)
    [ready] = cluster.pods()[older]["status"]["conditions"]
    ready["status"] = "False"
    ids = await task_managers.start(pods, [SMALL])
    ready["status"] = "True"
    await task_managers.prepare_stop(ids)  # of a change that is then withdrawn

    await task_managers.keep_standby(pods, {})

    assert ids == (newer,)
    assert waiting(cluster) == []
    assert [each.id for each in await task_managers.replicas(pods)] == [newer]


@pytest.mark.parametrize("wanted", [{"small": 1}, {}], ids=["one", "none"])
async def test_a_bound_one_that_restarts_stays_when_fewer_wait(
    wanted, task_managers, pods, cluster, bindings
):
    await task_managers.keep_standby(pods, {"small": 2})
    ids = await task_managers.start(pods, [SMALL])
    await task_managers.keep_standby(pods, {"small": 2})
    [ready] = cluster.pods()[ids[0]]["status"]["conditions"]
    ready["status"] = "False"

    await task_managers.keep_standby(pods, wanted)
    during = set(cluster.pods())
    ready["status"] = "True"
    await task_managers.keep_standby(pods, wanted)

    assert ids[0] in during
    assert len(waiting(cluster)) == sum(wanted.values())
    assert [each.id for each in await task_managers.replicas(pods)] == list(ids)


async def test_a_bound_one_stays_when_those_that_wait_are_made_otherwise_and_fewer(
    task_managers, pods, cluster, bindings
):
    await task_managers.keep_standby(pods, {"small": 2})
    ids = await task_managers.start(pods, [SMALL])
    await task_managers.keep_standby(pods, {"small": 2})
    await task_managers.prepare_stop(ids)
    old, upgraded = waiting(cluster), replace(pods, revision="another")

    await task_managers.keep_standby(upgraded, {"small": 1})

    assert len(waiting(cluster)) == 1
    assert not set(old) & set(waiting(cluster))
    assert [each.id for each in await task_managers.replicas(pods)] == list(ids)


async def test_what_was_bound_is_not_left_behind_where_the_rest_cannot_be_made(
    task_managers, pods, cluster, bindings
):
    await task_managers.keep_standby(pods, {"small": 1})
    cluster.quota = 1

    with pytest.raises(PodsPendingError):
        await task_managers.start(pods, [SMALL, SMALL])

    assert await task_managers.replicas(pods) == ()


async def test_files_of_standby_that_somebody_deleted_are_made_again(pods, cluster):
    runtime = KubernetesRuntime(cluster, pods, NoNotices())
    await runtime.keep_standby({"small": 1})
    [files] = [path for path, body in cluster.objects.items() if body["kind"] == "ConfigMap"]
    before = cluster.objects.pop(files)

    await runtime._restore_files()

    assert cluster.objects[files]["data"] == before["data"]
    assert cluster.objects[files]["binaryData"] == before["binaryData"]


@pytest.mark.parametrize(
    "failure",
    [
        TemporaryError("It does not answer"),
        PermanentError("Its memory cannot be split"),
        ConflictError("It has changed"),
        RefusedByKubernetesError("It may not be changed", 403),
    ],
    ids=lambda failure: type(failure).__name__,
)
async def test_one_that_does_not_take_its_binding_is_deleted_and_another_started(
    failure, task_managers, pods, cluster, bindings
):
    _, failures = bindings
    await task_managers.keep_standby(pods, {"small": 2})
    refusing, other = waiting(cluster)
    failures[f"uid of {refusing}"] = failure

    ids = await task_managers.start(pods, [SMALL, SMALL])

    assert refusing not in cluster.pods()
    assert other in ids
    assert len(ids) == 2
    assert sorted(each.id for each in await task_managers.replicas(pods)) == sorted(ids)


async def test_one_that_may_have_been_bound_before_a_controller_died_is_deleted(
    task_managers, pods, cluster, bindings
):
    await task_managers.keep_standby(pods, {"small": 1})
    [warm] = waiting(cluster)
    cluster.pods()[warm]["metadata"].setdefault("annotations", {})[BINDING] = "match"

    await task_managers.keep_standby(pods, {"small": 1})

    assert warm not in cluster.pods()
    assert len(waiting(cluster)) == 1


async def test_those_that_are_not_warm_are_left_alone(task_managers, pods, cluster, bindings):
    await task_managers.keep_standby(pods, {"small": 1})
    [cold] = waiting(cluster)
    cluster.pods()[cold]["status"]["conditions"] = []

    ids = await task_managers.start(pods, [SMALL])

    assert cold not in ids
    assert waiting(cluster) == [cold]


async def test_an_operator_with_memory_of_another_kind_starts_its_own(
    task_managers, pods, cluster, bindings
):
    await task_managers.keep_standby(pods, {"small": 1})
    [warm] = waiting(cluster)

    ids = await task_managers.start(pods, [replace(SMALL, operator="sink")])

    assert warm not in ids


async def test_a_quota_that_is_used_up_is_reported(task_managers, pods, cluster):
    cluster.quota = 0
    wanted = {"small": 1}

    await task_managers.keep_standby(pods, wanted)
    with pytest.raises(PodsPendingError):
        await task_managers.keep_standby(pods, wanted)


def test_what_waits_has_the_smallest_size_and_no_operator(pods):
    found = manifests.standby_task_managers(
        pods, "match", "small", size="250m", replicas=1, config_map="files"
    )

    labels = found["spec"]["template"]["metadata"]["labels"]
    selector = found["spec"]["selector"]["matchLabels"]
    environment = {
        each["name"] for each in found["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert selector.items() <= labels.items()
    assert "weir.dev/component" not in selector
    assert "weir.dev/operator" not in labels
    assert "WEIR_OPERATOR" not in environment
    assert {"WEIR_POOL", "WEIR_STANDBY_TOKEN"} <= environment


def waiting_command(folder, *, port):
    """Return the command of a JVM that waits for its configuration in a folder."""
    (folder / "tmp").mkdir()
    return task_manager_command(
        Installation(java=Path(find_java()), flink_home=Path(flink_home())),
        configuration_dir=folder / "conf",
        memory=MemoryArguments(jvm=(), dynamic=()),
        waiting=waiting_options(
            build_standby_agent(),
            configuration_dir=folder / "conf",
            temporary=folder / "tmp",
            port=port,
        ),
    )


async def put(address, *, token, operator, content):
    """Send what `send_binding` sends, of any length; return the status of the answer."""
    headers = {"Authorization": f"Bearer {token}", "Weir-Operator": operator}
    async with (
        aiohttp.ClientSession() as session,
        session.put(address, headers=headers, data=io.BytesIO(content)) as answer,
    ):
        return answer.status


@pytest.mark.flink
async def test_a_jvm_that_waits_takes_only_a_whole_binding_with_its_token(tmp_path):
    [port] = processes.free_ports(1)
    configuration = tmp_path / "conf"
    identity = processes.spawn(
        waiting_command(tmp_path, port=port),
        environment={"WEIR_STANDBY_TOKEN": "secret"},
        output=tmp_path / "output.txt",
    )
    address = f"http://127.0.0.1:{port}/binding"
    too_long = b"a" * ((1 << 20) + 1)

    async def listens():
        return port in processes.listening_ports(identity.pid) or None

    try:
        assert await wait_until(listens, clock=SystemClock(), timeout=120.0)
        with pytest.raises(TemporaryError, match="403"):
            await send_binding(address, token="other", operator="match", configuration="a: b")
        status = await put(address, token="secret", operator="match", content=too_long)
        refused = (configuration / "config.yaml").exists()
        await send_binding(address, token="secret", operator="match", configuration="a: b")
    finally:
        await processes.end({configuration: identity}, grace=5.0)

    assert status == 413
    assert not refused
    assert (configuration / "config.yaml").read_text() == "a: b"
    assert (configuration / "operator").read_text() == "match"


@pytest.mark.flink
@pytest.mark.parametrize("token", [{}, {"WEIR_STANDBY_TOKEN": ""}], ids=["unset", "empty"])
def test_a_jvm_that_anybody_could_bind_does_not_wait(token, tmp_path, monkeypatch):
    monkeypatch.delenv("WEIR_STANDBY_TOKEN", raising=False)
    [port] = processes.free_ports(1)

    ended = subprocess.run(
        waiting_command(tmp_path, port=port),
        env={**os.environ, **token},
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode != 0
