"""The parts of the live comparison of policies that need no Flink: job, rates, bill and verdict."""

from __future__ import annotations

import json

import pytest
import yaml

from benchmarks.policies.live.policies import (
    INTERVAL,
    LINES,
    POLICIES,
    TOO_LITTLE,
    describe,
    figures_of,
    outcome_of,
    price,
    state_of,
)
from tests.cli import recorded
from weir_operator.loop.record import RECORDS, DecisionRecord, RecordStore
from weir_operator.loop.run_record import (
    Objective,
    RecordedRun,
    RescaleRecord,
    ResponseTime,
    RunSummary,
    TickRecord,
)
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import parse_manifest
from weir_policies import registry
from weir_policies.model.node_types import Deployment
from weir_policies.testing import a_decision, an_observation

START = 1000.0


def a_tick(time):
    return TickRecord(
        app="default/trips", time=time, elapsed=time - START, mode="Auto",
        objective=Objective(bound=1.5), rate=1.0,
        response_time=ResponseTime(mean=0.1, p50=0.1, p95=0.1, p99=0.1),
        violated=False, backlog=0.0, cost_per_hour=0.3, cost=0.0, healthy=True, restarts=0,
        operators=(),
    )  # fmt: skip


def a_change(identity, outcome):
    return RescaleRecord(
        id=identity, kind="rescale", started=START, finished=START + 1, before={}, after={},
        outcome=outcome, reason="",
    )  # fmt: skip


def a_run(lost: int | None = 0, doubled: int | None = 0):
    return RecordedRun(
        ticks=(a_tick(START + INTERVAL), a_tick(START + 2 * LINES * INTERVAL)),
        rescales=(a_change("a", "done"), a_change("b", "abandoned")),
        summary=RunSummary(
            app="default/trips", started=START, finished=START + 1, intervals=1, violations=0,
            violation_share=0.0, cost=0.1, response_mean=0.1, response_p95=0.1,
            restarts=1, resizes=0, lost=lost, doubled=doubled,
        ),
    )  # fmt: skip


def a_record(number, policy, deployment, target):
    return DecisionRecord(
        id=f"{number}-match", time=START + number * INTERVAL, operator="match", policy=policy,
        observation=an_observation(deployment=deployment), decision=a_decision(target),
        verdict="", change=None,
    )  # fmt: skip


def in_tick(record):
    return recorded.a_tick(record.time, record)


@pytest.fixture
def folder(tmp_path):
    """What a run leaves behind: one record a line, of which that of the first came late."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "source.json").write_text(json.dumps({"start": 1000 * START}))
    due = [1000 * (START + (line + 0.5) * INTERVAL) for line in range(LINES)]
    came = [at + (1700 if line == 0 else 100) for line, at in enumerate(due)]
    rows = [f"{line},{at:.0f},{came[line]:.3f},1,1" for line, at in enumerate(due)]
    (out / "raw-1.csv").write_text("\n".join(["id,event_ms,arrival_ms,zone,number", *rows]))
    (tmp_path / "streamapp.yaml").write_text(yaml.safe_dump(describe("ql", tmp_path, TOO_LITTLE)))
    state_of(tmp_path).mkdir(parents=True)
    here, more = Deployment((1, 0, 0)), Deployment((2, 0, 0))
    records = RecordStore(state_of(tmp_path) / RECORDS)
    records.write([in_tick(a_record(1, "queueing", here, more))])
    records.write([in_tick(a_record(2, "ql", here, here))])
    records.write([in_tick(a_record(3, "ql", here, more))])
    records.write([in_tick(a_record(LINES + 1, "ql", here, more))])
    records.close()
    return tmp_path


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_is_in_a_valid_streamapp_and_may_choose_between_two_node_types(
    tmp_path, policy
):
    registry.refuse_parameters(policy, {})
    app = parse_manifest(describe(policy, tmp_path, TOO_LITTLE))

    types = world.node_types(app, "match")

    assert [each.speedup for each in types] == [1.0, 1.6]
    assert types[0].price < types[1].price
    assert app.spec.operator_manager.policy.name == policy


def test_a_run_is_judged_by_its_records_and_decisions_while_it_is_compared(folder):
    done = a_run()

    outcome = outcome_of("ql", done, folder)

    assert outcome.violations == pytest.approx(1 / LINES)
    assert (outcome.decisions, outcome.in_its_place) == (2, 1)
    assert (outcome.restarts, outcome.changes, outcome.wrong) == (1, 1, 0)
    assert outcome.cost == price(done.ticks[0], parse_manifest(describe("ql", folder, TOO_LITTLE)))


def test_records_that_were_lost_and_doubled_do_not_make_up_for_each_other(folder):
    assert outcome_of("ql", a_run(lost=1, doubled=2), folder).wrong == 3


def test_a_job_that_did_not_stop_in_order_is_of_unknown_exactness(folder):
    outcome = outcome_of("ql", a_run(lost=None, doubled=None), folder)

    [exact] = [each for each in figures_of([outcome]) if "lost or doubled" in each.figure]
    assert outcome.wrong is None
    assert exact.holds is False
