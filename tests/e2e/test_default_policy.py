"""The policy that a StreamApp gets when it names none, on a real Flink."""

from __future__ import annotations

import pytest

from weir_operator.flink.jars import HELPER, REPOSITORY, build_jar

pytestmark = pytest.mark.flink

SCALED = ("match", "aggregate")
ROOMY = {"small/1": 2}
"""What each of them has at first; a replica of 500m would do."""


def needs_less(run):
    """Return whether an operator now runs on less than it had at first."""
    now = {each.name: each.replicas for each in run.ticks[-1].operators}
    return any(now.get(name) and now[name] != ROOMY for name in SCALED)


@pytest.fixture(scope="module")
def jar(tmp_path_factory):
    path = tmp_path_factory.mktemp("trips") / "trips.jar"
    trips = sorted((REPOSITORY / "examples/trips").glob("*.java"))
    build_jar([HELPER, *trips], path, entry_class="example.Trips")
    return path


def test_what_a_job_does_not_need_is_taken_away_beside_its_usual_queues(run_locally, jar, tmp_path):
    (tmp_path / "trace.txt").write_text("5\n" * 600)
    work = ["--service.match-ms", "10", "--service.aggregate-ms", "5"]
    files = ["--trace", str(tmp_path / "trace.txt"), "--out", str(tmp_path / "out")]
    scaled = [{"name": name, "initial": ROOMY} for name in SCALED]
    fixed = [{"name": name, "fixed": {"small/500m": 1}} for name in ("source", "sink")]
    manifest = {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "roomy"},
        "spec": {
            "flink": {
                "job": {"jar": str(jar), "entryClass": "example.Trips", "args": [*files, *work]},
                "maxParallelism": 128,
            },
            "objective": {"responseTime": "2s"},
            "nodePools": [
                {"name": "small", "sizes": ["500m", "1"], "memory": "512Mi", "price": 0.04}
            ],
            "operators": [each | {"maxReplicas": 2} for each in (*scaled, *fixed)],
            "operatorManager": {"interval": "3s"},
        },
    }

    run = run_locally(manifest, "--ledger", str(tmp_path / "out"), enough=needs_less)

    assert needs_less(run)
    assert run.summary is not None
    assert run.summary.restarts + run.summary.resizes >= 1
    assert (run.summary.lost, run.summary.doubled) == (0, 0)
