import json
import math
from dataclasses import replace

import pytest

from tests.operator.reporting.builders import a_run, a_tick, read_run
from weir_operator.loop.run_record import (
    Record,
    RecordedRun,
    RescaleRecord,
    RunSummary,
    Step,
    to_json_line,
)


def test_a_run_survives_its_json_lines():
    run = a_run(ticks=12)
    assert run.summary is not None
    records: list[Record] = [*run.ticks, *run.rescales, *run.events, run.summary]

    read = read_run(to_json_line(record) for record in records)

    assert read == run


def test_what_could_not_be_measured_is_null_in_json_and_nan_in_python():
    tick = a_tick(rate=math.nan)

    line = to_json_line(tick)

    assert json.loads(line)["rate"] is None
    assert math.isnan(read_run([line]).ticks[0].rate)


def test_an_unbounded_response_time_stays_unbounded_and_the_line_stays_json():
    tick = a_tick(response=math.inf)

    line = to_json_line(tick)

    json.loads(line, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
    assert read_run([line]).ticks[0].response_time.mean == math.inf


def test_a_change_written_several_times_counts_once_with_its_last_record():
    begun = RescaleRecord(
        id="3",
        kind="rescale",
        started=10.0,
        finished=None,
        before={},
        after={},
        outcome="running",
        steps=(Step(name="starting", time=10.0),),
        reason="The rate rises.",
    )
    done = replace(begun, finished=12.0, outcome="done", gap=0.7)

    run = RecordedRun().with_record(begun).with_record(done)

    assert run.rescales == (done,)


def test_what_cannot_be_proven_is_null_in_the_summary():
    summary = RunSummary(
        app="trips",
        started=0.0,
        finished=1.0,
        intervals=0,
        violations=0,
        violation_share=math.nan,
        cost=0.0,
        response_mean=math.nan,
        response_p95=math.nan,
        restarts=0,
        resizes=0,
    )

    written = json.loads(to_json_line(summary))

    assert written["lost"] is None
    assert written["violation_share"] is None
