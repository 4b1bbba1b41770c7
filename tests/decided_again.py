"""Takes the records of a live run, and decides again on what they hold.

The managers are built as the loops built them, from the recorded StreamApp and with the same seeds,
and are given the recorded observations and what the loops told them of their decisions. So each
decision must come out as it was, to the last bit.
"""

from __future__ import annotations

import json
from dataclasses import replace

from weir_operator.loop.decide import Managers
from weir_operator.loop.proposals import cut_all
from weir_operator.loop.record import (
    DecisionRecord,
    JobTick,
    LearningOutcome,
    LoopStart,
    RecordStore,
)
from weir_operator.streamapp.models import StreamApp
from weir_operator.wiring import assembly
from weir_policies.model.dataflow import Dataflow
from weir_policies.policy import Decision


def decide_again(path) -> list[tuple[Decision, Decision]]:
    """Return each decision of a run that started once: as it was, and as it comes out again."""
    records = RecordStore(path, read_only=True)
    [start] = records.starts()
    ticks = records.ticks()
    recorded = records.decisions(limit=10**6)
    records.close()
    managers = assembly.operator_managers(app_of_start(start), policy=start.policy)
    pairs = []
    for tick in ticks:
        decided = {each.operator: each for each in recorded if each.time == tick.time}
        if decided:
            again = propose_again(managers, tick, decided)
            assert again.keys() == decided.keys()
            pairs += [(decided[name].decision, each.decision) for name, each in again.items()]
        tell_again(managers, tick, decided)
    return pairs


def app_of_start(start: LoopStart) -> StreamApp:
    """Return the StreamApp of a start, as far as it was recorded."""
    written = json.loads(json.dumps(start.app))
    # The program is not recorded, because no decision depends on it; but a StreamApp has one.
    written["spec"]["flink"]["image"] = "not/recorded"
    return StreamApp.model_validate_json(json.dumps(written))


def propose_again(managers: Managers, tick: JobTick, decided: dict[str, DecisionRecord]):
    """Return the proposals on what was observed at a tick."""
    seen = {
        # Whether another operator restarts the job is found out again.
        name: replace(decided[name].observation, restarts_anyway=False)
        if name in decided
        else tick.fixed[name]
        for name in tick.operators
    }
    flow = Dataflow(operators=tick.operators, edges=tick.edges)
    return cut_all(managers.propose(seen, flow), seen, tick.splits)


def tell_again(managers: Managers, tick: JobTick, decided: dict[str, DecisionRecord]) -> None:
    """Tell the managers what they were told at the end of a tick."""
    match tick.lesson:
        case LearningOutcome.ACTED:
            managers.act([name for name, each in decided.items() if each.change is not None])
        case LearningOutcome.WAITED | LearningOutcome.MISSED:
            managers.wait(missed=tick.lesson is LearningOutcome.MISSED)
        case LearningOutcome.SKIPPED:
            managers.skip()
        case LearningOutcome.NOTHING:
            pass
