"""What the benchmarks on a cluster work out by themselves, without a cluster."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from benchmarks.cluster import cluster_job
from benchmarks.cluster.place import Place
from benchmarks.cluster.rescale_cluster import PodWatch
from weir_operator.kubernetes.api.client import KubernetesApi


def a_place(pods=()):
    """Return a place whose TaskManagers are `pods`, one more tuple of them at each look."""
    looks = iter(pods)

    class Seen(Place):
        async def pods(self, component):
            return next(looks) if component == "taskmanager" else ()

    api = KubernetesApi(lambda: pytest.fail("nobody is to be asked"), timeout=1.0)
    return Seen(api=api, namespace="bench", owner_uid="1", state=Path("/var/tmp/bench"))


def a_pod(name, *, node="", runs=False):
    state: dict[str, object] = {"running" if runs else "waiting": {}}
    return {
        "metadata": {"name": name, "uid": name},
        "spec": {"nodeName": node} if node else {},
        "status": {"containerStatuses": [{"state": state}]},
    }


async def test_a_pod_got_somewhere_when_the_last_new_one_did():
    old, first, second = a_pod("old", node="n", runs=True), "first", "second"
    place = a_place(
        [
            (old, a_pod(first)),
            (old, a_pod(first, node="n"), a_pod(second)),
            (old, a_pod(first, node="n", runs=True), a_pod(second, node="n")),
            (old, a_pod(first, node="n", runs=True), a_pod(second, node="n", runs=True)),
        ]
    )
    watch = PodWatch(place, frozenset({"old"}))

    for now in (1.0, 2.0, 3.0, 4.0):
        await watch.look(now)

    assert (watch.times.made, watch.times.scheduled, watch.times.started) == (2.0, 3.0, 4.0)


def test_a_path_of_the_volume_is_found_from_inside_and_outside():
    place = a_place()
    savepoint = place.state / "bench.job/savepoints/savepoint-1"

    assert place.outside(f"file:{place.inside(savepoint)}") == savepoint
    assert place.outside(f"file://{place.inside(savepoint)}") == savepoint


@pytest.mark.flink
def test_the_heavy_job_is_built_beside_programs_of_other_benchmarks(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_job, "HEAVY_JAR", tmp_path / "heavy.jar")

    with zipfile.ZipFile(cluster_job.build_heavy_jar()) as jar:
        assert {"example/Heavy.class", "example/Hoard.class"} <= set(jar.namelist())
