"""A StreamApp's own records as the history of a job."""

import math

import pytest

from tests.cli.recorded import a_tick
from weir_operator.errors import PermanentError
from weir_operator.estimate.records import measure_streamapp
from weir_operator.loop.record import RecordStore
from weir_policies.model.estimation import ServiceMeasurement
from weir_simulator.experiment import Experiment, NodeType, Objective, Operator, TraceSource
from weir_simulator.fitting.samples import IntervalSample, OperatorSample
from weir_simulator.traces import TraceKind

BEGIN = 1_790_000_000.0
EXPERIMENT = Experiment(
    operators=(Operator(name="match", service_rate=100.0, max_replicas=10),),
    node_types=(
        NodeType(name="small/1", speedup=1.0, price=0.5),
        NodeType(name="large/1", speedup=2.0, price=0.8),
    ),
    objective=Objective(response_time=0.5),
    trace=TraceSource(kind=TraceKind.TAXI, slots=10),
)


@pytest.fixture
def records(tmp_path):
    """Records of an hour: 2 small replicas, then a large one besides; the last minute unknown."""
    path = tmp_path / "records.db"
    store = RecordStore(path)
    for minute in range(60):
        deployment = {"small/1": 2} if minute < 30 else {"small/1": 2, "large/1": 1}
        sample = OperatorSample(
            deployment=deployment,
            arrived=100.0,
            taken=100.0,
            services=(
                ServiceMeasurement(node_type="small/1", records=6000.0, mean=0.01, variance=1e-4),
            ),
        )
        interval = IntervalSample(
            time=BEGIN + 60 * minute,
            seconds=60.0,
            operators={"match": sample} if minute < 59 else {},
            response_time=0.2,
        )
        store.write([a_tick(interval.time, sample=interval)])
    store.close()
    return path


def test_cost_replicas_and_response_times_are_those_of_the_intervals(records):
    measured = measure_streamapp("a/b", records, EXPERIMENT, since=0, until=math.inf)

    assert measured.cost[[0, 40]] == pytest.approx([1.0, 1.8])
    assert measured.replicas[[0, 40]] == pytest.approx([2, 3])
    assert math.isnan(measured.cost[-1])
    assert measured.response == pytest.approx(0.2)
    assert [each.name for each in measured.structure.operators] == ["match"]


def test_only_the_time_that_is_asked_for_counts(records):
    measured = measure_streamapp("a/b", records, EXPERIMENT, since=BEGIN + 599, until=BEGIN + 1200)

    assert measured.times.size == 11


def test_a_time_without_intervals_is_refused(records):
    with pytest.raises(PermanentError, match="Expected measured intervals of a/b"):
        measure_streamapp("a/b", records, EXPERIMENT, since=BEGIN + 7200, until=math.inf)
