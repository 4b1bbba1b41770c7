"""What the benchmarks on a cluster work out by themselves, without a cluster."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from benchmarks.cluster import cluster_job
from benchmarks.cluster.place import Place
from benchmarks.cluster.quotas import PodQuotas
from benchmarks.cluster.rescale_cluster import CpuReading, PodWatch, cpu_between
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


def a_group(folder, *, waited):
    folder.mkdir(parents=True)
    (folder / "cpu.stat").write_text(f"nr_periods 9\nnr_throttled 2\nthrottled_time {waited}\n")
    (folder / "cpu.cfs_quota_us").write_text("50000\n")
    return folder / "cpu.cfs_quota_us"


def test_a_pods_quota_is_lifted_and_what_its_containers_waited_is_added_up(tmp_path):
    pods = tmp_path / "cpu/weir-small/kubepods"
    pod = a_group(pods / "podu-1", waited=9_000_000_000)
    first = a_group(pods / "podu-1/pause", waited=500_000_000)
    second = a_group(pods / "podu-1/flink", waited=1_250_000_000)
    other = a_group(pods / "podu-2", waited=0)
    quotas = PodQuotas(tmp_path)

    assert quotas.throttled("u-1") == 1.75
    assert quotas.throttled("u-3") == 0.0
    quotas.lift(["u-1", "u-3"])

    assert [each.read_text().strip() for each in (pod, first, second)] == ["-1"] * 3
    assert other.read_text().strip() == "50000"


def test_what_a_pod_has_used_is_read_until_it_has_ended(tmp_path):
    a_group(tmp_path / "cpu/weir-small/kubepods/podu-1", waited=0)
    accounts = tmp_path / "cpuacct/weir-small/kubepods/podu-1"
    accounts.mkdir(parents=True)
    usage = accounts / "cpuacct.usage"
    usage.write_text("2500000000\n")
    quotas = PodQuotas(tmp_path)

    assert quotas.used("u-1") == 2.5
    assert quotas.used("u-2") == 0.0
    usage.unlink()
    assert quotas.used("u-1") == 0.0


def test_cpu_between_two_readings_is_divided_evenly():
    readings = [
        CpuReading(time=10.0 + turn, waited={}, pods=3.0 * turn, machine=4.0 * turn)
        for turn in range(3)
    ]

    assert cpu_between(readings, 10.5, 11.5) == (3.0, 4.0)
    assert cpu_between(readings, 11.0, 11.25) == (0.75, 1.0)


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
