"""CPU time of one decision tick of a large StreamApp, from raw samples to written records.

What is counted: measuring a window of samples, judging it, observing and deciding for every
operator, sharing budgets, arbitration, and writing learned state and decision records to disk.
What is not: scraping, which the direct source does between ticks or Prometheus does elsewhere.

Ticks of an hour are measured, since planners make plans and learned state is written now and then.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, at_most
from tests.operator.metrics.builders import Load, a_window
from weir_operator.loop.app_state import LearnedStore
from weir_operator.loop.arbitrate import ApplicationManager
from weir_operator.loop.decide import OperatorManager, SeparateManagers
from weir_operator.loop.proposals import Proposal
from weir_operator.loop.record import (
    DecisionRecord,
    JobTick,
    LearningOutcome,
    RecordStore,
)
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.quality import judge
from weir_operator.metrics.source import Window
from weir_operator.metrics.values import JobLayout
from weir_operator.runtime.protocol import Replica
from weir_policies import registry
from weir_policies.application_manager.restart_budget import RestartBudget
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import OperatorModel
from weir_simulator.experiment import Objective

ABOUT = "CPU time of a decision tick: 100 operators x 3 pools"
DURATION = "30 s"

POLICIES = ("queueing", "planner")
TYPES = tuple(
    NodeType(name=f"{pool}/1", pool=pool, speedup=speedup, price=price)
    for pool, speedup, price in (("small", 1.0, 0.04), ("middle", 1.5, 0.06), ("large", 2.0, 0.09))
)
OPERATORS = 100
TICKS = 63
"""Of each policy, a minute apart: `planner` makes its first plans after 20 to 29, then new ones."""
WARM = 3
"""The first ones fill caches that a controller fills once in its life."""
SAVED_EVERY = 10
"""Ticks from one write of what was learned to the next, as in the controller."""
LIMIT = 40.0
"""Goal for a tick's CPU time, median and mean, ms."""
NAMES = ("source", *(f"op{place:03}" for place in range(OPERATORS)))
LOAD = Load(rate=100.0, busy=0.35, service_mean=0.01, service_scv=1.0, age=0.05)


REPLICAS = {
    name: [
        Replica(
            id=f"tm-{name}-{each.pool}",
            operator=name,
            pool=each.pool,
            size="1",
            started=0.0,
            metrics_url="",
        )
        for each in TYPES
    ]
    for name in NAMES
}
FLOW = Dataflow(
    operators=NAMES,
    edges=tuple(Edge(source=a, target=b) for a, b in pairwise(NAMES)),
)
"""A chain of the operators."""
LAYOUT = JobLayout(
    job_id="job", flow=FLOW, replicas={name: tuple(own) for name, own in REPLICAS.items()}
)


def run() -> list[Figure]:
    """Run an hour of ticks with each policy: the median and the mean of a tick."""
    figures = []
    for policy in POLICIES:
        with tempfile.TemporaryDirectory() as folder:
            application = _Application(Path(folder), policy)
            spent = [1000 * application.tick(turn) for turn in range(TICKS)]
        ticks = spent[WARM:]
        figures += [
            at_most(
                f"CPU time of a tick with `{policy}`, median", statistics.median(ticks), LIMIT, "ms"
            ),
            at_most(
                f"CPU time of a tick with `{policy}`, mean of an hour",
                statistics.mean(ticks),
                LIMIT,
                "ms",
            ),
        ]
    return figures


class _Application:
    """A chain of operators, and everything of its controller that lives between two ticks."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.policy = policy
        self.current = {name: {each.name: 1 for each in TYPES} for name in NAMES}
        self.managers = SeparateManagers(
            {
                name: OperatorManager(
                    model=OperatorModel(
                        name=name,
                        node_types=TYPES,
                        max_replicas=10,
                        service_mean=math.nan,
                        service_scv=1.0,
                    ),
                    given=[each.name for each in TYPES],
                    policy=registry.build(policy, rng=np.random.default_rng(1)),
                    fixed=Deployment((1, 0, 0)) if name == "source" else None,
                )
                for name in NAMES
            }
        )
        self.am = ApplicationManager(
            objective=Objective(response_time=10.0), pool_limits={}, restarts=RestartBudget()
        )
        self.tokens = self.am.restarts.fill(0.0)
        self.records = RecordStore(folder / "records.sqlite")
        self.learned = LearnedStore(
            folder / "learned.json",
            policy=policy,
            settings={},
            reset_nonce=0,
            sharing=self.am.sharing,
        )

    def tick(self, turn: int) -> float:
        """Run one tick; return its CPU seconds."""
        now = 1060.0 + 60.0 * turn
        window = a_window(LAYOUT, _loads(), start=now - 60.0, end=now, period=5.0)
        began = time.process_time()
        self._measure(window, now)
        self._decide()
        self._rule(now)
        self._write(turn, now)
        self._save(turn)
        return time.process_time() - began

    def _measure(self, window: Window, now: float) -> None:
        self.measured = measure(window, LAYOUT)
        problems = judge(self.measured, None, LAYOUT, now, stale_after=10.0)
        if any(problem.kind.holds for problem in problems):
            raise RuntimeError(f"Expected a healthy window, got {problems[0].sentence}")

    def _decide(self) -> None:
        self.proposals: dict[str, Proposal] = {}
        for name in NAMES[1:]:
            manager = self.managers[name]
            observation = manager.observe(
                self.measured,
                REPLICAS[name],
                deployment=Deployment((1, 1, 1)),
                budget=0.1,
                first=name == NAMES[1],
            )
            self.proposals[name] = manager.propose(observation)

    def _rule(self, now: float) -> None:
        self.am.sharing.share(FLOW, self.managers)
        self.ruling = self.am.rule(
            self.proposals,
            dataflow=FLOW,
            current=self.current,
            failed=(),
            tokens=self.tokens,
            now=now,
        )

    def _write(self, turn: int, now: float) -> None:
        decisions = tuple(
            DecisionRecord(
                id=f"{turn}-{name}",
                time=now,
                operator=name,
                policy=self.policy,
                observation=proposal.observation,
                decision=proposal.decision,
                verdict=self.ruling.verdicts.get(name, ""),
                change=None,
            )
            for name, proposal in self.proposals.items()
        )
        self.records.write(
            [
                JobTick(
                    time=now,
                    seconds=60.0,
                    violated=False,
                    operators=FLOW.operators,
                    edges=FLOW.edges,
                    splits={},
                    lesson=LearningOutcome.NOTHING,
                    fixed={},
                    decisions=decisions,
                )
            ]
        )

    def _save(self, turn: int) -> None:
        if turn % SAVED_EVERY == 0:
            self.learned.save(self.managers)


def _loads() -> dict[str, Load]:
    loads = dict.fromkeys(NAMES[1:], LOAD)
    loads[NAMES[-1]] = replace(LOAD, latency=0.4)
    return {"source": Load(rate=100.0, busy=0.1, pending=0.0), **loads}
