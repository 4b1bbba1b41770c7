"""A run of `weir local` on real Flink, decided again from its records by `weir replay`."""

import json
from itertools import takewhile

import pytest
from typer.testing import CliRunner

from tests.pages import charts_of
from weir_cli.main import app
from weir_operator.flink.jars import HELPER, REPOSITORY, build_jar

pytestmark = [pytest.mark.flink, pytest.mark.timeout(900)]


def replay(folder, *options):
    command = ["replay", "trips", "--state", str(folder / "state"), "--json", *options]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_run_is_decided_anew_as_it_was_and_by_another_policy(tmp_path, run_locally):
    trips = sorted((REPOSITORY / "examples/trips").glob("*.java"))
    build_jar([HELPER, *trips], tmp_path / "trips.jar", entry_class="example.Trips")
    (tmp_path / "trace.txt").write_text("50\n" * 200)
    # A record takes `match` 30 ms: one replica does 33 a second.
    arguments = ["--trace", "trace.txt", "--service.match-ms", "30", "--service.aggregate-ms", "2"]
    manifest = {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "trips"},
        "spec": {
            "flink": {
                "job": {
                    "jar": "trips.jar",
                    "entryClass": "example.Trips",
                    "args": [*arguments, "--out", str(tmp_path / "out")],
                },
                "maxParallelism": 128,
            },
            "objective": {"responseTime": "500ms"},
            "nodePools": [
                {"name": "small", "sizes": ["1"], "memory": "1Gi", "price": 0.04, "speedup": 1.0}
            ],
            "operators": [
                {"name": "source", "fixed": {"small/1": 1}},
                {"name": "match", "maxReplicas": 3, "initial": {"small/1": 1}},
                {"name": "aggregate", "fixed": {"small/1": 1}},
                {"name": "sink", "fixed": {"small/1": 1}},
            ],
            "operatorManager": {"interval": "5s", "policy": {"name": "queueing"}},
        },
    }

    def enough(run):
        """Has it run on for a while after a restart?"""
        return sum(tick.restarts > 0 for tick in run.ticks) >= 9

    told = run_locally(manifest, enough=enough)

    same = replay(tmp_path)
    held = replay(tmp_path, "--policy", "hold", "--report", str(tmp_path / "replay.html"))
    decisions = [each for interval in same["intervals"] for each in interval["decisions"]]
    # Should a change fail on a busy machine, the replay would still make it.
    alike = takewhile(
        lambda each: each["was"]["deployment"] == each["would"]["deployment"], decisions
    )
    targets = [(each["was"]["target"], each["would"]["target"]) for each in alike]
    assert len(targets) >= 2
    assert all(was == would for was, would in targets)
    assert any(each["would"]["granted"] for each in decisions)
    # The run also counts recoveries, which a busy machine may make necessary.
    assert 1 <= same["totals"]["was"]["restarts"] <= told.summary.restarts
    assert same["totals"]["would"]["restarts"] >= 1
    assert held["totals"]["would"]["restarts"] == 0
    assert held["totals"]["would"]["replicas"] == 4
    assert held["totals"]["would"]["late"] >= same["totals"]["would"]["late"]
    assert held["totals"]["would"]["cost"] < held["totals"]["was"]["cost"]
    [recorded, replayed] = charts_of(tmp_path / "replay.html")["Accumulated cost"]["data"]
    assert recorded["y"][-1] == pytest.approx(held["totals"]["was"]["cost"])
    assert replayed["y"][-1] == pytest.approx(held["totals"]["would"]["cost"])
