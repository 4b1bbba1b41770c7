"""The policy that a StreamApp gets when it names none, on a real Flink."""

from __future__ import annotations

import pytest

from weir_operator.flink.jars import HELPER, REPOSITORY, build_jar

pytestmark = pytest.mark.flink

GIVEN = 0.08
"""Currency per hour of an operator's two cores; a replica of 500m would do."""


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
    scaled = [{"name": name, "initial": {"small/1": 2}} for name in ("match", "aggregate")]
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

    run = run_locally(
        manifest,
        *("--ledger", str(tmp_path / "out")),
        enough=lambda so_far: so_far.ticks[-1].cost_per_hour < 2 * GIVEN,
    )

    assert run.ticks[0].cost_per_hour > 2 * GIVEN
    assert run.ticks[-1].cost_per_hour < 2 * GIVEN
    assert run.summary is not None
    assert (run.summary.lost, run.summary.doubled) == (0, 0)
