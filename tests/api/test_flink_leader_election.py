"""A real Flink elects its leader on a real API server, with the rights that its pods get."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.flink.plain_flink import JOB_MANAGER, TASK_MANAGER
from tests.api.client import Kube, session_for
from tests.operator.advise.conftest import JOB, a_stock_flink, run_stock_job
from tests.operator.streamapp.builders import a_manifest
from weir_operator.flink.configuration import high_availability
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.pods import manifests
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pods import FlinkPods
from weir_operator.streamapp.loading import parse_manifest

pytestmark = [pytest.mark.kubernetes_api, pytest.mark.flink]


@pytest.fixture
async def pods(kube, api):
    """What a StreamApp's pods are; its accounts have been made."""
    manifest = a_manifest(flink={"image": "example/trips:1.4", "storage": {"claim": "trips-state"}})
    manifest["metadata"]["namespace"] = kube.namespace
    made = await kube.create(kube.stream_apps, manifest)
    assert made.status == 201, made.message
    pods = FlinkPods.of(
        parse_manifest(manifest),
        uid=made.body["metadata"]["uid"],
        controller_namespace="weir-system",
    )
    await AppObjects(api, pods).apply(*manifests.accounts(pods))
    return pods


@pytest.fixture
def token_of(kube):
    """Return a token as a pod under a service account has it."""

    async def ask(account):
        path = f"/api/v1/namespaces/{kube.namespace}/serviceaccounts/{account}/token"
        made = await kube.create(path, {"spec": {"expirationSeconds": 600}})
        assert made.status == 201, made.message
        return made.body["status"]["token"]

    return ask


@pytest.fixture
async def electing_flink(kube, control_plane, pods, token_of, tmp_path):
    """A JobManager and a TaskManager, each with the token of its own account."""
    storage = (tmp_path / "state").as_uri()
    election = high_availability(
        cluster=pods.cluster_id, namespace=kube.namespace, storage=f"{storage}/recovery"
    )

    async def configuration(account):
        folder = tmp_path / account
        folder.mkdir()
        config = control_plane.kubeconfig(folder, token=await token_of(account))
        return {
            **election,
            "kubernetes.config.file": str(config),
            "execution.checkpointing.interval": "500 ms",
            "execution.checkpointing.dir": f"{storage}/checkpoints",
        }

    flink = a_stock_flink(
        tmp_path,
        more={
            JOB_MANAGER: await configuration(pods.account),
            TASK_MANAGER: await configuration(pods.task_manager_account),
        },
    )
    async with flink:
        yield flink


async def test_a_job_runs_and_checkpoints_with_the_rights_of_its_pods(electing_flink, tmp_path):
    await run_stock_job(electing_flink, tmp_path / "jar")

    async with FlinkRest(electing_flink.url) as rest, asyncio.timeout(60):
        while (found := await rest.checkpoints(JOB)) is None or found.newest is None:
            await asyncio.sleep(0.2)


async def test_a_taskmanagers_token_reads_who_leads_and_nothing_else(
    kube, control_plane, pods, token_of
):
    config_maps = f"/api/v1/namespaces/{kube.namespace}/configmaps"
    leaders = f"{pods.cluster_id}-cluster-config-map"
    for name in (leaders, "somebody-elses"):
        await kube.create(config_maps, {"metadata": {"name": name}, "data": {"a": "b"}})
    token = await token_of(pods.task_manager_account)

    async with session_for(certificate=control_plane.certificate, token=token) as session:
        task_manager = Kube(
            session, url=control_plane.url, namespace=kube.namespace, kubeconfig=kube.kubeconfig
        )
        answers = {
            "read the leaders": await task_manager.get(f"{config_maps}/{leaders}"),
            "change the leaders": await task_manager.merge(
                f"{config_maps}/{leaders}", {"data": {"a": "c"}}
            ),
            "read another": await task_manager.get(f"{config_maps}/somebody-elses"),
            "replace another": await task_manager.delete(f"{config_maps}/somebody-elses"),
            "list all": await task_manager.get(config_maps),
            "create one": await task_manager.create(config_maps, {"metadata": {"name": "new"}}),
        }

    assert {what: answer.status for what, answer in answers.items()} == {
        "read the leaders": 200,
        "change the leaders": 403,
        "read another": 403,
        "replace another": 403,
        "list all": 403,
        "create one": 403,
    }
