"""A run of `weir local` on real Flink, decided again from its records by `weir replay`."""

import json
from itertools import takewhile

import pytest
from typer.testing import CliRunner

from tests.pages import charts_of
from weir_cli.main import app

pytestmark = [pytest.mark.flink, pytest.mark.timeout(900)]


def replay(folder, *options):
    command = ["replay", "trips", "--state", str(folder / "state"), "--json", *options]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_run_is_decided_again_as_it_was_and_by_another_policy(
    tmp_path, run_locally, trips_manifest
):
    # A record takes `match` 30 ms: one replica does 33 a second.
    manifest = trips_manifest(rate=50, seconds=200, match_ms=30, match_replicas=1)
    manifest["spec"] |= {
        "objective": {"responseTime": "500ms"},
        "operatorManager": {"interval": "5s", "policy": {"name": "queueing"}},
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
