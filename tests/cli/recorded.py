"""Decision records of some intervals, as the loops write them."""

from tests.operator.streamapp.builders import a_stream_app
from weir_operator.loop.record import (
    DecisionRecord,
    JobTick,
    LearningOutcome,
    LoopStart,
    RecordStore,
)
from weir_operator.wiring import assembly
from weir_policies.testing import a_decision, an_observation

APP = a_stream_app(
    nodePools=[
        {
            "name": "small",
            "sizes": ["500m", "1"],
            "memory": "1Gi",
            "price": "0.04",
            "speedup": "1.0",
        },
        {"name": "large", "sizes": ["1"], "memory": "1Gi", "price": "0.05", "speedup": "1.6"},
    ],
    operators=[{"name": "match", "maxReplicas": 10}],
)
START = 1_777_914_300.0


def a_tick(time, *decisions, sample=None):
    return JobTick(
        time=time,
        seconds=60.0,
        violated=False,
        operators=("match",),
        edges=(),
        splits={},
        lesson=LearningOutcome.NOTHING,
        fixed={},
        sample=sample,
        decisions=decisions,
    )


def a_record(time):
    seen = an_observation(time=time)
    return DecisionRecord(
        id=f"{time}",
        time=time,
        operator="match",
        policy="hold",
        observation=seen,
        decision=a_decision(seen.deployment),
        verdict="",
        change=None,
    )


def write_records(folder, count):
    """Write the records of so many intervals into the folder of a StreamApp's state."""
    folder.mkdir(parents=True)
    store = RecordStore(folder / "records.sqlite")
    app = assembly.what_decides(APP)
    store.write([LoopStart(time=START, app=app, policy="hold")])
    for number in range(count):
        time = START + 60.0 * (number + 1)
        store.write([a_tick(time, a_record(time))])
    store.close()
