"""An evaluation of a job on real Flink with `weir local`, read by `weir evaluate`."""

import json

import pytest
from typer.testing import CliRunner

from tests.pages import charts_of
from weir_cli.main import app
from weir_simulator.switchback import Design, Side

pytestmark = [pytest.mark.flink, pytest.mark.timeout(900)]

BLOCK, PAIRS, SEED = 32.0, 2, 1


def test_a_policy_that_needs_less_than_the_baseline_is_measured_to_cost_less(
    tmp_path, run_locally, trips_manifest
):
    # A record takes `match` 10 ms: one replica does 100 a second, and three are too many.
    manifest = trips_manifest(rate=20, seconds=400, match_ms=10, match_replicas=3)
    # So wide that a busy machine does not end the evaluation.
    manifest["spec"] |= {
        "objective": {"responseTime": "5s", "maxViolations": "100%"},
        "operatorManager": {"interval": "4s", "policy": {"name": "queueing"}},
        "applicationManager": {"restartBudget": {"size": 100}},
        "evaluation": {
            "baseline": {"deployment": "Initial"},
            "block": f"{BLOCK:.0f}s",
            "pairs": PAIRS,
            "seed": SEED,
        },
    }

    def enough(run):
        """Is the evaluation over?"""
        return any("All blocks are over" in event.message for event in run.events)

    run_locally(manifest, enough=enough)

    page = tmp_path / "evaluation.html"
    command = ["evaluate", "trips", "--state", str(tmp_path / "state"), "--json"]
    result = CliRunner().invoke(app, [*command, "--report", str(page)])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    sides = Design(block=BLOCK, pairs=PAIRS, seed=SEED).sides
    assert {int(n): each["side"] for n, each in found["blocks"].items()} == dict(enumerate(sides))
    assert found["ended"]
    assert found["weir"]["cost_per_hour"] < found["baseline"]["cost_per_hour"]
    assert found["baseline"]["restarts"] == 0
    assert sides.count(Side.WEIR) == found["weir"]["blocks"]
    bars = charts_of(page)["Cost per hour"]["data"]
    assert [len(each["x"]) for each in bars] == [PAIRS, PAIRS]
