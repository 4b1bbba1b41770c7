"""What `kubectl get` shows of a job that somebody else runs."""

from __future__ import annotations

import asyncio

import pytest

from tests.operator.advise.fakes import FakeCluster, flink_deployment_objects
from tests.operator.cluster.process.two_controllers import OpenFence
from tests.operator.rescale.fakes import TurnTakingClock
from tests.operator.streamapp.builders import a_manifest
from weir_operator.api.objects import Resource
from weir_operator.cluster.app.autoscaler_conflicts import AutoscalerConflicts
from weir_operator.cluster.app.context import ControllerContext
from weir_operator.cluster.app.task import AppTask
from weir_operator.cluster.status.events import EventPoster
from weir_operator.cluster.status.telemetry import Telemetry

PATH = "/apis/weir.dev/v1alpha1/namespaces/default/streamapps/advised"
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"


class Cluster(FakeCluster):
    """A namespace in which Weir writes no more than the StreamApp's status."""

    def __init__(self, objects):
        super().__init__(objects)
        self.written = set()
        self.news = asyncio.Event()

    @property
    def status(self):
        return self.objects[PATH].get("status", {})

    async def replace(self, path, body):
        self.written.add(path)
        version = str(int(body["metadata"]["resourceVersion"]) + 1)
        kept = {**self.objects[PATH], "status": body["status"]}
        kept["metadata"] = {**kept["metadata"], "resourceVersion": version}
        self.objects[PATH] = kept
        self.news.set()
        return kept

    async def create(self, path, body):
        self.written.add(path)
        return body

    async def patch(self, path, body, content_type=""):
        raise AssertionError(f"nothing is to be patched, got {path}")


class NoDependencies:
    """Makes nothing: a foreign job needs no runtime of Weir's."""

    def prometheus(self):
        return None


@pytest.fixture
def cluster(flink):
    manifest = a_manifest(
        mode="Advise",
        flink={"ref": {"kind": "FlinkDeployment", "name": "trips"}, "maxParallelism": 128},
        nodePools=[{"name": "small", "price": "0.04"}],
    )
    manifest["metadata"] = {
        "name": "advised",
        "namespace": "default",
        "uid": "u1",
        "generation": 1,
        "resourceVersion": "1",
    }
    hpa = {
        "metadata": {"name": "busy"},
        "spec": {"scaleTargetRef": {"kind": "FlinkDeployment", "name": "trips"}},
    }
    objects = flink_deployment_objects(port=flink.port)
    return Cluster({**objects, PATH: manifest, HPAS: [hpa]})


@pytest.fixture
def app(cluster, tmp_path):
    clock = TurnTakingClock()
    context = ControllerContext(
        api=cluster,
        fence=OpenFence("term-1"),
        dependencies=NoDependencies(),  # type: ignore[arg-type]  # of a world it is asked no more
        events=EventPoster(cluster, instance="test", clock=clock),
        autoscaler_conflicts=AutoscalerConflicts(cluster, clock=clock),
        telemetry=Telemetry(),
        clock=clock,
        state=tmp_path,
    )
    return AppTask(Resource.of(cluster.objects[PATH]), context)


async def until(cluster, holds):
    async with asyncio.timeout(150):  # a policy may have to be compiled first
        while not holds(cluster.status):
            cluster.news.clear()
            await cluster.news.wait()


def readiness(status):
    found = (each for each in status.get("conditions", ()) if each["type"] == "Ready")
    return next(((each["status"], each["reason"]) for each in found), None)


async def test_operators_the_real_bill_and_readiness_are_shown_and_nothing_else_is_written(
    cluster, app
):
    app.start()
    await until(cluster, lambda status: status.get("operators"))
    await app.stop()

    status = cluster.status
    shown = {each["name"]: each for each in status["operators"]}
    assert set(shown) == {"source-numbers", "score-slow", "nowhere-writer"}
    assert shown["score-slow"]["deployment"] == {"small/1": 2}
    assert float(status["costPerHour"]) == pytest.approx(3 * 0.04)
    assert readiness(status) == ("True", "Advising")
    assert cluster.written <= {f"{PATH}/status"}


async def test_a_job_that_is_not_seen_is_not_ready_until_it_is_seen_again(cluster, flink, app):
    flink.given["/jobs/overview"] = {"jobs": []}
    app.start()

    await until(cluster, lambda status: readiness(status) == ("False", "JobDown"))
    del flink.given["/jobs/overview"]
    await until(cluster, lambda status: readiness(status) == ("True", "Advising"))

    await app.stop()
