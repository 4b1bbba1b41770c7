"""`weir evaluate` finds the records, and says what it needs in one sentence."""

import json
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.cli.recorded import START, write_records
from tests.pages import charts_of
from weir_cli import main
from weir_operator.loop.decision_records import RECORDS, LoopStart, RecordStore
from weir_operator.loop.evaluation import EvaluatedInterval
from weir_operator.streamapp.testing import a_stream_app
from weir_operator.wiring import assembly
from weir_simulator.switchback import Design, Side

DESIGN = Design(block=600.0, pairs=4, seed=0)


def evaluate(state, *arguments):
    return CliRunner().invoke(
        main.app, ["evaluate", "trips", "--state", str(state), *arguments], env={"COLUMNS": "100"}
    )


@pytest.fixture
def state(tmp_path):
    write_records(tmp_path / "state/default.trips", 6)
    return tmp_path / "state"


def evaluated(state, *, replicas):
    """Record all blocks, with so many replicas of each side in each pair."""
    records = RecordStore(state / "default.trips" / RECORDS)
    [*_, (model, _)] = records.ticks(until=START + 1e6)
    for n in range(80):
        begin = 60.0 * n
        place = DESIGN.place(begin, begin + 60)
        assert place is not None
        count = replicas[place.side][place.block // 2]
        records.note_tick(
            replace(
                model,
                time=START + 1000 + begin + 60,
                seconds=60.0,
                deployments={name: {"small/1": count} for name in model.deployments},
                violated=place.side is Side.BASELINE and n % 10 == 9,
                evaluation=EvaluatedInterval(began=START + 1000, design=DESIGN, place=place),
            )
        )
    records.close()


def test_what_was_saved_comes_with_its_interval(state, tmp_path):
    evaluated(state, replicas={Side.WEIR: [40, 81, 159, 121], Side.BASELINE: [50, 100, 200, 150]})
    page = tmp_path / "new" / "evaluation.html"

    result = evaluate(state, "--json", "--report", str(page))

    found = json.loads(result.stdout)
    cost = found["estimate"]["relative_cost"]
    assert cost["low"] < -0.2 < cost["high"] < 0
    assert found["estimate"]["late"]["mean"] < 0
    assert found["estimate"]["late"]["low"] is None
    assert (found["weir"]["blocks"], found["baseline"]["blocks"]) == (4, 4)
    assert [len(bars["x"]) for bars in charts_of(page)["Cost per hour"]["data"]] == [4, 4]


def test_equal_sides_are_found_equal(state):
    evaluated(state, replicas={Side.WEIR: [49, 101, 200, 150], Side.BASELINE: [50, 100, 201, 149]})

    found = json.loads(evaluate(state, "--json").stdout)["estimate"]["relative_cost"]

    assert found["low"] < 0 < found["high"]
    assert "No difference in cost was found over 4 pairs" in evaluate(state).stdout


def start_with(state, **spec):
    """Record that the loops began with another manifest."""
    records = RecordStore(state / "default.trips" / RECORDS)
    app = assembly.what_decides(a_stream_app(**spec))
    records.note_start(LoopStart(time=START + 1, app=app, policy="hold", learned=False))
    records.close()


def test_the_baseline_does_not_pay_for_standby(state):
    pool = {"name": "small", "sizes": ["1"], "memory": "1Gi", "price": 0.04, "standby": 2}
    start_with(state, nodePools=[pool], operators=[{"name": "match", "maxReplicas": 300}])
    evaluated(state, replicas={side: [50, 100, 200, 150] for side in Side})

    found = json.loads(evaluate(state, "--json").stdout)

    assert found["estimate"]["cost"]["mean"] == pytest.approx(2 * 0.04)
    assert found["standby"]


def test_the_block_that_is_proposed_is_valid_with_short_intervals(state):
    start_with(state, operatorManager={"interval": "5s"})

    proposed = re.search(r"evaluation: {(block: \w+)}", " ".join(evaluate(state).stderr.split()))

    assert proposed is not None
    asked = dict([proposed.group(1).split(": ")])
    assert a_stream_app(operatorManager={"interval": "5s"}, evaluation=asked).spec.evaluation


def test_records_without_an_evaluation_say_how_to_begin_one(state):
    result = evaluate(state)

    assert result.exit_code == 1
    assert "spec.evaluation" in result.stderr


def test_a_streamapp_without_records_is_named(tmp_path):
    result = evaluate(tmp_path)

    assert result.exit_code == 1
    assert "--state" in result.stderr
