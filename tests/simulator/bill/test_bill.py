"""From a job's history to its bill."""

import dataclasses

import numpy as np
import pytest

from benchmarks.policies.made_up_job import BEGIN, MadeUpJob, Run, waves
from weir_policies.model.node_types import NodeType
from weir_simulator.bill import bill as bills
from weir_simulator.bill.bill import make_bill, model_responses
from weir_simulator.bill.job import derive_job
from weir_simulator.bill.measured import measure_job
from weir_simulator.bill.model import ENTRY, fit_job
from weir_simulator.bill.slots import SlotTable
from weir_simulator.errors import FitError, SimulatorError
from weir_simulator.experiment import Objective
from weir_simulator.traces import write_trace

HOUR = 3600.0
SIZES = tuple(
    NodeType(name=f"tm/{size}", pool="tm", speedup=part, price=part)
    for size, part in (("1", 1.0), ("500m", 0.5), ("250m", 0.25))
)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Simulate here: starting processes takes longer than the runs of these tests."""

    def run(work, pieces, *, on_finished):
        answers = []
        for piece in pieces:
            answers.append(work(piece))
            on_finished(answers[-1])
        return answers

    monkeypatch.setattr(bills, "run_in_processes", run)


def measure(*jobs, task_manager=2.0, end=12 * HOUR):
    table = SlotTable(begin=BEGIN, end=BEGIN + end, slot=60.0)
    for each in sorted(
        (series for job in jobs for series in job.series()), key=lambda each: each.times[0]
    ):
        table.add(each.name, each.labels, each.times, each.values)
    return measure_job(derive_job(table), SIZES, task_manager=task_manager)


def fit(measured, tmp_path, *, bound=0.5):
    objective = Objective(response_time=bound)
    job = fit_job(
        measured.samples,
        measured.structure,
        slot=measured.slot,
        objective=objective,
        trace=tmp_path / "trace.txt",
    )
    write_trace(tmp_path / "trace.txt", job.rates)
    return job


def test_work_that_is_the_same_at_all_hours_is_predicted_well(tmp_path):
    job = fit(measure(MadeUpJob()), tmp_path)

    assert job.calibration.models["match"].service_mean == pytest.approx(8e-4, rel=0.02)
    assert job.error < 0.03
    assert job.blocks >= 3
    assert job.rates.mean() == pytest.approx(
        waves(BEGIN + np.arange(0, 12 * HOUR, 60)).mean(), rel=0.02
    )


def test_work_that_changes_by_the_hour_widens_the_error(tmp_path):
    measured = measure(MadeUpJob())
    intervals = [
        dataclasses.replace(
            each,
            operators={
                name: dataclasses.replace(
                    sample,
                    services=tuple(
                        dataclasses.replace(
                            service, mean=service.mean * (1 + 0.4 * (each.time // HOUR % 2))
                        )
                        for service in sample.services
                    ),
                )
                for name, sample in each.operators.items()
            },
        )
        for each in measured.samples.intervals
    ]
    drifting = dataclasses.replace(
        measured, samples=dataclasses.replace(measured.samples, intervals=tuple(intervals))
    )

    assert fit(drifting, tmp_path).error > 0.1


def test_sources_of_different_rates_share_one_trace(tmp_path):
    def few(times):
        return waves(times, seed=2) / 4

    # Two chains of one job, told apart by the names of their vertices.
    names = ("Source: taxis", "clean", "Sink: db")
    other = MadeUpJob(vertices=names, rate=few)
    renamed = [
        dataclasses.replace(
            each, labels={**each.labels, "task_id": "b" + each.labels["task_id"][1:]}
        )
        for each in other.series()
    ]
    table = SlotTable(begin=BEGIN, end=BEGIN + 12 * HOUR, slot=60.0)
    for each in (*MadeUpJob().series(), *renamed):
        table.add(each.name, each.labels, each.times, each.values)
    measured = measure_job(derive_job(table), SIZES, task_manager=1.0)

    job = fit(measured, tmp_path)

    shares = {
        edge.target: edge.selectivity for edge in job.experiment.edges if edge.source == ENTRY
    }
    assert shares == {
        "source-trips": pytest.approx(0.8, abs=0.01),
        "source-taxis": pytest.approx(0.2, abs=0.01),
    }
    bill = make_bill(measured, job, policies=["queueing"])
    assert bill.lines[1].cost.value > 0


def test_a_job_that_idles_on_many_task_managers_would_have_cost_less(tmp_path):
    measured = measure(MadeUpJob(runs=(Run(end=12 * HOUR, parallelism=16),), slots_each=1))
    job = fit(measured, tmp_path)
    finished = []

    bill = make_bill(
        measured,
        job,
        policies=["planner"],
        on_finished=lambda done, all_: finished.append((done, all_)),
    )

    was, would = bill.lines
    assert was.cost == (32.0, 32.0, 32.0)
    assert was.peak == 16
    assert would.cost.high < was.cost.value / 4
    assert would.cost.low <= would.cost.value <= would.cost.high
    assert would.over.value < 0.05
    assert finished[-1][0] == finished[-1][1] == len(finished)


def test_the_three_assumptions_that_move_the_bill_most_are_told(tmp_path):
    measured = measure(MadeUpJob())
    bill = make_bill(measured, fit(measured, tmp_path), policies=["queueing"])

    assert len(bill.assumptions) == 3
    moves = [abs(each.cost / bill.lines[1].cost.value - 1) for each in bill.assumptions]
    assert max(moves) > 0.1
    assert [each.bound for each in bill.objectives] == [0.25, 1.0, 2.0]


def test_tasks_that_are_busier_than_their_slots_are_doubted(tmp_path):
    measured = measure(MadeUpJob(work=(8e-4, 9e-4, 9e-4)))

    bill = make_bill(measured, fit(measured, tmp_path), policies=["queueing"])

    assert measured.crowding > 1
    assert any("busy second takes a core" in each.assumed for each in bill.assumptions)


def test_a_job_that_cannot_keep_up_was_over_the_objective(tmp_path):
    slow = measure(MadeUpJob(work=(1e-4, 1.2e-3, 1e-4)))

    bill = make_bill(slow, fit(slow, tmp_path, bound=0.01), policies=["queueing"])

    assert 0.1 < bill.lines[0].over.value < 0.9
    assert bill.lines[1].over.value < bill.lines[0].over.value


def test_slots_that_a_restart_stopped_count_against_the_job(tmp_path):
    runs = (
        Run(end=6 * HOUR, job_id="a1"), Run(begin=6 * HOUR + 600, end=12 * HOUR, job_id="b2"),
    )  # fmt: skip
    measured = measure(MadeUpJob(runs=runs))

    bill = make_bill(measured, fit(measured, tmp_path), policies=["queueing"])

    was = bill.lines[0]
    assert was.restarts == pytest.approx(2, rel=0.05)
    assert was.over.value * bill.hours * 60 == pytest.approx(11, abs=1)


def test_measured_response_times_come_before_modelled_ones(tmp_path):
    measured = measure(MadeUpJob())
    seen = np.full(measured.times.size, np.nan)
    seen[10] = 3.0
    known = dataclasses.replace(measured, response=seen)

    times = model_responses(known, fit(measured, tmp_path))

    assert times[10] == 3.0
    assert 0 < times[11] < 0.1


def test_a_policy_that_cannot_scale_the_job_is_refused_alone(tmp_path):
    measured = measure(MadeUpJob())
    job = fit(measured, tmp_path)

    bill = make_bill(measured, job, policies=["queueing", "value-iteration"])

    assert "value-iteration" in bill.refusals
    assert [line.name for line in bill.lines] == ["as it was", "queueing"]
    with pytest.raises(SimulatorError, match="--policy: expected one that can scale this job"):
        make_bill(measured, job, policies=["value-iteration"])


def test_too_little_to_fit_is_a_sentence(tmp_path):
    measured = measure(MadeUpJob(runs=(Run(end=2000),)))
    few = dataclasses.replace(
        measured,
        samples=dataclasses.replace(measured.samples, intervals=measured.samples.intervals[:20]),
    )

    with pytest.raises(FitError, match="at least 30 undisturbed minutes"):
        fit(few, tmp_path)


@pytest.mark.parametrize("work", [8e-4, 9.5e-4, 1.05e-3])
def test_as_it_was_is_what_holding_the_deployment_would_have_been(tmp_path, work):
    measured = measure(MadeUpJob(work=(2e-4, work, 3e-4)))

    bill = make_bill(measured, fit(measured, tmp_path, bound=0.01), policies=["hold"])

    was, held = bill.lines
    assert was.over.value == pytest.approx(held.over.value, abs=0.01)
    assert np.nanmedian(was.responses) == pytest.approx(np.median(held.responses), rel=0.02)
    assert held.cost.value == pytest.approx(6)  # a core for each of the replicas
