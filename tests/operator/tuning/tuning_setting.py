"""A slow loop over what was recorded of a job, for tests."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tests.cli.recorded import a_tick
from tests.operator.loop.builders import a_snapshot
from tests.operator.rescale.fakes import FakeClock
from tests.operator.tuning.fakes import FakeTuner, an_answer
from tests.simulator.fitting.known_job import OperatorInterval, a_model, a_structure, run_job
from weir_operator.loop.arbitrate import BudgetSharing
from weir_operator.loop.decide import OperatorManager, SeparateManagers
from weir_operator.loop.directives import Directives
from weir_operator.loop.events import Notices
from weir_operator.loop.record import RecordStore
from weir_operator.loop.tick import Tick
from weir_operator.tuning.fitting import Fitter
from weir_operator.tuning.loop import TuningLoop, TuningSettings
from weir_operator.tuning.requests import Terms
from weir_operator.tuning.store import TuningStore, read_tunings
from weir_policies import registry
from weir_policies.model.dataflow import Dataflow, Edge
from weir_simulator.experiment import Objective

FLOW = Dataflow(operators=("match", "count"), edges=(Edge(source="match", target="count"),))
TRUTHS = (a_model("match"), a_model("count", service_mean=0.01))
RUNS = {"match": {"small/1": 2}, "count": {"small/1": 1}}
BUDGETS = {"match": 0.3, "count": 0.15}
HOLD = Terms(policy="hold", objective=Objective(response_time=0.5))


def plans(slots, *, factor=1.0):
    rates = [25 + 20 * math.sin(slot / 9) for slot in range(slots)]
    return [
        {name: OperatorInterval(deployment=RUNS[name], rate=rate, factor=factor) for name in RUNS}
        for rate in rates
    ]


HOURS = run_job(TRUTHS, plans(150), rng=np.random.default_rng(3)).intervals


class StoreBesideOthers(TuningStore):
    """The tunings of a StreamApp beside others, whose tunings are given."""

    def __init__(self, path, *, key, similar):
        super().__init__(path, key=key)
        self.similar = similar

    def find_similar(self):
        return list(self.similar)


class Setting:
    """A slow loop over what was recorded of a job, with a tuner that a test tells what to say."""

    def __init__(
        self,
        folder,
        *answers,
        intervals=HOURS,
        truths=TRUTHS,
        flow=FLOW,
        terms=HOLD,
        tuner=None,
        fallback_policy=False,
        phase=0.0,
        similar=(),
        past=None,
    ):
        self.folder = folder
        self.flow = flow
        self.terms = terms
        self.phase = phase
        self.similar = similar
        self.past = past
        self.clock = FakeClock()
        self.events = []
        self.directives = Directives()
        self.records = RecordStore(folder / "records.sqlite")
        for sample in intervals:
            self.records.write([a_tick(sample.time, sample=sample)])
        own = {
            model.name: OperatorManager(
                model=model,
                given=["small/1"],
                policy=registry.build("hold", rng=np.random.default_rng(1)),
                fixed=None,
                fallback_policy=registry.build("hold", rng=np.random.default_rng(2))
                if fallback_policy
                else None,
            )
            for model in a_structure(*truths).operators
        }
        self.managers = SeparateManagers(own)
        self.tuner = tuner or FakeTuner(answers or [an_answer(BUDGETS)])
        self.open()

    def open(self, *, key="trips", reset_nonce=0, seen=True):
        """Begin a loop as a controller does that has just been started, with a tick if `seen`."""
        self.sharing = BudgetSharing(Objective(response_time=self.terms.objective.response_time))
        self.loop = TuningLoop(
            settings=TuningSettings(
                interval=3600.0,
                tick=60.0,
                terms=self.terms,
                prices={"small/1": 1.0},
                phase=self.phase,
            ),
            tuner=self.tuner,
            managers=self.managers,
            sharing=self.sharing,
            fitter=Fitter(self.folder / "records.sqlite", self.managers, slot=60.0, past=self.past),
            store=StoreBesideOthers(
                self.folder / "tuning.json",
                key={"app": key, "resetNonce": reset_nonce},
                similar=self.similar,
            ),
            directives=lambda: self.directives,
            notices=Notices(self.events.append, self.clock),
        )
        self.loop.restore()
        if seen:
            self.note(late=False)

    def note(self, *, late, sample=HOURS[-1], deployments=RUNS, restarts=False, times=1):
        for _ in range(times):
            tick = Tick(
                snapshot=a_snapshot(
                    start=self.clock.now() - 60.0, now=self.clock.now(), dataflow=self.flow
                ),
                violated=late,
                deployments=deployments,
                budgets=self.sharing.share(self.flow, self.managers)[0],
                restarts=restarts,
                sample=sample,
            )
            self.loop.note(tick)

    @property
    def state(self):
        state = read_tunings(self.folder / "tuning.json")
        assert state is not None
        return state

    def version(self, number):
        version = self.state.version(number)
        assert version is not None
        return version

    @property
    def reasons(self):
        return [event.reason for event in self.events]


def with_other_times(sample):
    """Return an interval whose response times nothing explains."""
    operators = {
        name: replace(each, response_time=3 * each.response_time)
        for name, each in sample.operators.items()
    }
    return replace(sample, operators=operators)
