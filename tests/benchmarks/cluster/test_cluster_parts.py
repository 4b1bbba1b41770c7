"""What the benchmarks on a cluster work out by themselves, without a cluster."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from benchmarks.cluster import cluster_job
from benchmarks.cluster.place import Place
from weir_operator.kubernetes.api.client import KubernetesApi


def test_a_path_of_the_volume_is_found_from_inside_and_outside():
    api = KubernetesApi(lambda: pytest.fail("nobody is to be asked"), timeout=1.0)
    place = Place(api=api, namespace="bench", owner_uid="1", state=Path("/var/tmp/bench"))
    savepoint = place.state / "bench.job/savepoints/savepoint-1"

    assert place.outside(f"file:{place.inside(savepoint)}") == savepoint
    assert place.outside(f"file://{place.inside(savepoint)}") == savepoint


@pytest.mark.flink
def test_the_heavy_job_is_built_beside_programs_of_other_benchmarks(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_job, "HEAVY_JAR", tmp_path / "heavy.jar")

    with zipfile.ZipFile(cluster_job.build_heavy_jar()) as jar:
        assert {"example/Heavy.class", "example/Hoard.class"} <= set(jar.namelist())
