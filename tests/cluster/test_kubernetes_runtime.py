"""The Kubernetes runtime under the engine that walks every change, on a real cluster."""

from __future__ import annotations

import json

import pytest

from benchmarks.cluster.cluster_job import ClusterJob
from tests.cluster.trips_on_kubernetes import trips_app
from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import PodsPendingError, ResizeRefusedError
from weir_operator.flink.rest import FlinkRest
from weir_operator.rescale.journal import Step
from weir_operator.runtime.pods.pod_states import cpu_of
from weir_operator.runtime.protocol import ReplicaSpec

pytestmark = pytest.mark.cluster

FIXED = {"source": {"small/250m": 1}, "sink": {"small/250m": 1}}
SMALL = {**FIXED, "match": {"large/500m": 1}, "aggregate": {"small/250m": 1}}
BOTH_POOLS = {**FIXED, "match": {"large/500m": 1, "small/250m": 1}, "aggregate": {"small/250m": 1}}
RESIZED = {**FIXED, "match": {"large/1": 1}, "aggregate": {"small/250m": 1}}


async def restarts(place):
    return [
        status["restartCount"]
        for pod in await place.pods("taskmanager")
        for status in pod["status"]["containerStatuses"]
    ]


async def until(probe):
    async def boxed():
        return True if await probe() else None

    return await wait_until(boxed, clock=SystemClock(), timeout=60.0, period=0.5)


async def checkpoints(trips):
    job = trips.store.load().job_id
    async with FlinkRest(trips.runtime.rest_url) as rest:
        found = await rest.checkpoints(job)
    return found.completed if found else 0


@pytest.mark.timeout(600)
async def test_a_job_is_scaled_sized_recovered_and_cleared_away(place):
    async with ClusterJob(place, trips_app(place), SMALL) as trips:
        await trips.lifecycle.bring_up()
        assert trips.store.load().deployments == SMALL

        end = await trips.lifecycle.change(BOTH_POOLS, "a second pool")
        assert end.step is Step.DONE, end.failure
        nodes = {
            pod["spec"]["nodeName"]
            for pod in await place.pods("taskmanager")
            if pod["metadata"]["labels"]["weir.dev/pool"] == "large"
        }
        assert nodes == {"large"}

        end = await trips.lifecycle.change(SMALL, "one pool less")
        assert end.step is Step.DONE, end.failure
        pools = [each.pool for each in await trips.runtime.replicas() if each.operator == "match"]
        assert pools == ["large"]

        match = next(each for each in await trips.runtime.replicas() if each.operator == "match")
        job = trips.store.load().job_id
        assert job is not None
        refusal = await trips.lifecycle.resize(RESIZED)
        assert refusal == ""
        resized = await place.api.get(f"/api/v1/namespaces/{place.namespace}/pods/{match.id}")
        assert cpu_of(resized) == "1"
        assert set(await restarts(place)) == {0}
        assert trips.store.load().job_id == job

        with pytest.raises(ResizeRefusedError, match="Infeasible"):
            await trips.runtime.resize({match.id: "64"})
        assert [each.size for each in await trips.runtime.replicas() if each.id == match.id] == [
            "1"
        ]

        async def has_checkpoint():
            return await checkpoints(trips) >= 2

        assert await until(has_checkpoint)
        (job_manager,) = await place.pods("jobmanager")
        name = job_manager["metadata"]["name"]
        await place.api.delete(f"/api/v1/namespaces/{place.namespace}/pods/{name}", grace=0)
        await trips.until_running(limit=120.0)
        assert trips.store.load().job_id == job
        assert not [event for event in trips.events if event.reason == "JobLost"]

        proof = await trips.finish()

    assert (proof.lost, proof.doubled, proof.sequence_errors) == (0, 0, 0)
    assert proof.emitted > 0
    assert json.loads((place.state / "status.json").read_text())["suspended"]
    for kind in ("pods", "services", "configmaps", "serviceaccounts"):
        left = await place.api.list(f"/api/v1/namespaces/{place.namespace}/{kind}")
        names = {each["metadata"]["name"] for each in left}
        assert names <= {"owner", "kube-root-ca.crt", "default"}, kind


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_an_evicted_task_manager_works_on_until_its_operator_was_moved(place, tell):
    path = f"/api/v1/namespaces/{place.namespace}/pods"
    async with ClusterJob(place, trips_app(place), SMALL) as trips:
        await trips.lifecycle.bring_up()
        before = {each.operator: each.id for each in await trips.runtime.replicas()}
        evicted = before["match"]

        async def may_be_evicted():
            (budget,) = await place.api.list(
                f"/apis/policy/v1/namespaces/{place.namespace}/poddisruptionbudgets"
            )
            return (budget.get("status") or {}).get("disruptionsAllowed") == 1

        assert await until(may_be_evicted), "an autoscaler would leave the node alone"
        at = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted}}
        await place.api.create(f"{path}/{evicted}/eviction", at)

        async def is_replaced():
            found = [each for each in await trips.runtime.replicas() if each.operator == "match"]
            return sorted(each.evicted for each in found) == [False, True]

        assert await until(is_replaced)
        job = trips.store.load().job_id
        assert job is not None
        progress = await trips.jobs.progress(job)
        assert progress is not None
        assert progress.running, "the evicted one works on"

        began = SystemClock().monotonic()
        await trips.lifecycle.heal()

        async def is_gone():
            names = {pod["metadata"]["name"] for pod in await place.pods("taskmanager")}
            return evicted not in names

        assert await until(is_gone)
        tell(f"evicted pod gone {SystemClock().monotonic() - began:.1f} s after Weir saw it")
        after = {each.operator: each.id for each in await trips.runtime.replicas()}
        change = trips.store.load().rescale
        assert change is not None
        assert change.step is Step.DONE
        assert "EvictionByEvictionAPI" in change.reason
        assert change.by_checkpoint is False
        assert trips.store.load().deployments == SMALL
        assert {name for name in before if before[name] != after[name]} == {"match"}

        proof = await trips.finish()

    assert (proof.lost, proof.doubled, proof.sequence_errors) == (0, 0, 0)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_what_is_lost_or_refused_while_nobody_looks_is_made_good(place):
    path = f"/api/v1/namespaces/{place.namespace}"
    async with ClusterJob(place, trips_app(place), SMALL) as trips:
        await trips.lifecycle.bring_up()
        job = trips.store.load().job_id
        assert job is not None
        before = await trips.runtime.replicas()
        match = next(each for each in before if each.operator == "match")

        await place.api.delete(f"{path}/pods/{match.id}", grace=0)

        async def runs_again():
            ids = {each.id for each in await trips.runtime.replicas()}
            progress = await trips.jobs.progress(job)
            return match.id not in ids and progress is not None and progress.running

        assert await until(runs_again), "Flink and the ReplicaSet bring it back without Weir"

        await place.api.delete(
            f"/apis/apps/v1/namespaces/{place.namespace}/deployments/{trips.pods.job_manager}"
        )
        await trips.until_running(limit=120.0)
        assert trips.store.load().job_id == job, "its successor takes up the job"

        used = len(await place.pods("taskmanager")) + 1
        await place.api.create(
            f"{path}/resourcequotas",
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "full"},
                "spec": {"hard": {"pods": str(used)}},
            },
        )
        with pytest.raises(PodsPendingError, match="exceeded quota") as refused:
            await trips.runtime.start([ReplicaSpec(operator="match", pool="small", size="250m")])
        assert refused.value.groups == (("match", "small"),)
        await place.api.delete(f"{path}/resourcequotas/full")
        assert len(await trips.runtime.replicas()) == len(before)

        await trips.lifecycle.suspend()
