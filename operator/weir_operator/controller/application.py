"""One StreamApp's loops: look after the job, and every interval see, learn, decide, act.

    gather -> judge the data -> observe -> learn -> propose (OMs) -> arbitrate (AM) -> act

Looking after the job and deciding are two loops, because a lost TaskManager cannot wait for the
next decision. A change runs beside them: ticks go on measuring, and hold their decisions until it
has ended. What was decided, and why, is written before it is done.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from weir_operator.clock import Clock
from weir_operator.controller.acting import Action, Actor, change_of, expect_response
from weir_operator.controller.application_manager import ApplicationManager, Proposal, Ruling
from weir_operator.controller.learned import LearnedStore
from weir_operator.controller.lifecycle import Health, Lifecycle
from weir_operator.controller.observing import (
    Sight,
    dataflow_of,
    describe_assumed,
    first_behind_sources,
    layout_of,
    see,
    sum_of_sources,
)
from weir_operator.controller.operator_manager import Interval, OperatorManager
from weir_operator.controller.records import DecisionRecord, Event, RecordStore
from weir_operator.controller.settings import LoopSettings
from weir_operator.controller.verdict import Intervals
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.jobs import FlinkJobs
from weir_operator.flink.topology import Topology
from weir_operator.metrics.layout import JobLayout
from weir_operator.metrics.output import Counted, measure_output
from weir_operator.metrics.seam import MetricsSource
from weir_operator.metrics.values import AppMeasurement
from weir_operator.rescale.journal import DeploymentMap, RescaleJournal
from weir_operator.runtime.seam import Replica, Runtime
from weir_operator.status import StatusStore
from weir_operator.streamapp.models import Mode
from weir_operator.streamapp.operators import Operator
from weir_policies.application_manager.restart_budget import RestartTokens
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.node_types import Deployment
from weir_policies.promise import Observation

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """Everything that one tick saw, decided and began: what the faces show."""

    now: float
    sight: Sight
    violated: bool | None
    deployments: DeploymentMap
    budgets: Mapping[str, float]
    proposals: Mapping[str, Proposal]
    """Empty where the tick held."""
    verdicts: Mapping[str, str]
    held: str
    """Why nothing was decided, one sentence; empty where it was."""
    dataflow: Dataflow | None


class ApplicationController:
    """Steers the job of one StreamApp."""

    def __init__(
        self,
        *,
        settings: LoopSettings,
        operators: Mapping[str, Operator],
        runtime: Runtime,
        jobs: FlinkJobs,
        lifecycle: Lifecycle,
        source: MetricsSource,
        managers: Mapping[str, OperatorManager],
        application_manager: ApplicationManager,
        store: StatusStore,
        records: RecordStore,
        learned: LearnedStore,
        clock: Clock,
        on_tick: Callable[[Tick], None],
        on_event: Callable[[Event], None],
    ) -> None:
        self._settings = settings
        self._operators = operators
        self._runtime = runtime
        self._jobs = jobs
        self._lifecycle = lifecycle
        self._source = source
        self._managers = managers
        self._am = application_manager
        self._store = store
        self._records = records
        self._learned = learned
        self._clock = clock
        self._on_tick = on_tick
        self._on_event = on_event
        self._actor = Actor(lifecycle, store, settings, on_event=on_event, clock=clock)
        self._topology: Topology | None = None
        self._topology_of: str | None = None
        self._run_since = math.inf
        self._previous: AppMeasurement | None = None
        self._counted: Counted | None = None
        self._told = ""
        self._assumed = ""
        self._last_tick = clock.now()

    async def run(self, stop: asyncio.Event) -> None:
        """Run both loops until `stop` is set or the job comes to its own end.

        The job must have been brought up.

        Raises:
            WeirError: The job cannot be kept running, or the objective cannot be kept at all.
        """
        self._learned.restore(self._managers)
        self._last_tick = self._clock.now()
        ending = asyncio.create_task(stop.wait())
        loops = {
            asyncio.create_task(self._look_for_ever(stop)),
            asyncio.create_task(self._tick_for_ever()),
        }
        try:
            done, _ = await asyncio.wait({ending, *loops}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {ending}:
                task.result()
        finally:
            for task in (ending, *loops):
                task.cancel()
            await asyncio.gather(ending, *loops, return_exceptions=True)
            await self._actor.finish()  # a change that was begun is brought to its end

    async def tick(self) -> Tick:
        """See, decide, and begin what was granted."""
        now = self._clock.now()
        start, self._last_tick = self._last_tick, now
        replicas = await self._runtime.replicas()
        window = await self._source.window(start=start, end=now)
        layout = await self._find_layout(replicas)
        output, self._counted = measure_output(window, self._counted)
        sight = see(
            window,
            layout,
            run_since=self._run_since,
            settled=self._is_settled(now),
            previous=self._previous,
            output=output,
            now=now,
            quality=self._settings.quality,
        )
        if sight.app is not None:
            self._previous = sight.app
        tick = await self._decide(sight, replicas, start, now)
        self._on_tick(tick)
        return tick

    # -- the two loops ----------------------------------------------------------------------------

    async def _look_for_ever(self, stop: asyncio.Event) -> None:
        while True:
            try:
                if await self._lifecycle.heal() is Health.FINISHED:
                    self._tell("JobFinished", "The job came to its own end")
                    stop.set()
                    return
            except TemporaryError as error:
                log.warning("look failed", failure=str(error))
            await self._clock.sleep(self._settings.look_every)

    async def _tick_for_ever(self) -> None:
        due = self._clock.now() + self._settings.interval
        while True:
            await self._clock.sleep(max(0.0, due - self._clock.now()))
            # Ticks keep their places in time; one that took too long skips the ones it missed.
            missed = max(0.0, self._clock.now() - due) // self._settings.interval
            due += (1 + missed) * self._settings.interval
            try:
                await self.tick()
            except TemporaryError as error:
                self._tell("TickFailed", str(error))

    # -- seeing -----------------------------------------------------------------------------------

    async def _find_layout(self, replicas: tuple[Replica, ...]) -> JobLayout | None:
        """Return who serves what, `None` while a change is under way or tasks are being placed."""
        status = self._store.load()
        if self._lifecycle.is_changing or status.job_id is None:
            return None
        if self._topology is None or self._topology_of != status.job_id:
            try:
                topology = await self._jobs.topology(status.job_id)
            except (TemporaryError, PermanentError) as error:
                log.info("no layout yet", reason=str(error))
                return None
            self._topology, self._topology_of = topology, status.job_id
            self._run_since = self._clock.now()
            self._see_edges(topology)
        return layout_of(status.job_id, self._topology, replicas)

    def _see_edges(self, topology: Topology) -> None:
        for name, manager in self._managers.items():
            manager.skip()
            into = [edge for edge in topology.edges if edge.target == name]
            manager.see_edges(
                keyed=any(edge.keyed for edge in into),
                balanced=any(edge.balanced for edge in into),
                sharing=self._operators[name].sharing,
                key_groups=self._settings.max_parallelism,
            )

    # -- deciding ---------------------------------------------------------------------------------

    async def _decide(
        self, sight: Sight, replicas: tuple[Replica, ...], start: float, now: float
    ) -> Tick:
        status = self._store.load()
        settings = self._settings
        flow = None if self._topology is None else dataflow_of(self._topology, sight.app)
        violated = sight.violates(settings.bound, settings.statistic)
        self._am.see_output(mean=sight.output.mean, quantile=sight.response(settings.statistic))
        budgets, infeasible = self._share(flow)
        held = self._find_reason_to_hold(sight, now) or infeasible
        tick = Tick(
            now=now,
            sight=sight,
            violated=violated,
            deployments=status.deployments,
            budgets=budgets,
            proposals={},
            verdicts={},
            held=held,
            dataflow=flow,
        )
        seen = {}
        if sight.app is not None and (not held or held == infeasible):
            # An objective out of reach may be a first, wrong belief: it goes on being corrected.
            interval = Interval(
                now=now, length=now - max(start, self._run_since), source_backlog=sight.app.backlog
            )
            seen = self._observe(sight.app, replicas, status.deployments, budgets, interval)
        if held or sight.app is None or flow is None:
            for manager in self._managers.values():
                manager.skip()
            return tick
        proposals = {
            name: Proposal(observation=each, decision=self._managers[name].propose(each))
            for name, each in seen.items()
            if self._managers[name].fixed is None
        }
        assumed = describe_assumed(sight.app, proposals)
        if assumed and not self._assumed:
            self._tell("VarianceAssumed", assumed)
        self._assumed = self._assumed or assumed
        tick_id = uuid.uuid4().hex[:12]
        undone = await self._actor.judge(self._interval_of(sight), now)
        if undone is not None:
            ruling = self._take_back(undone, status.deployments)
        else:
            ruling = self._am.rule(
                proposals,
                dataflow=flow,
                current=status.deployments,
                failed=status.failed,
                tokens=self._tokens(now),
                now=now,
            )
        if settings.mode is not Mode.AUTO:
            advised = dict.fromkeys(
                ruling.verdicts, f"Advised only: spec.mode is {settings.mode.value}"
            )
            ruling = Ruling(
                verdicts=advised,
                granted=(),
                target=status.deployments,
                restart=False,
                tokens=ruling.tokens,
            )
        self._learned.save(self._managers)
        self._record(tick_id, now, proposals, ruling)
        if ruling.granted:
            self._actor.begin(
                Action(
                    id=tick_id,
                    ruling=ruling,
                    proposals=proposals,
                    expected=math.nan
                    if undone
                    else expect_response(proposals, ruling, flow, sight.app),
                    before=self._interval_of(sight),
                )
            )
        return replace(tick, proposals=proposals, verdicts=ruling.verdicts)

    def _share(self, flow: Dataflow | None) -> tuple[Mapping[str, float], str]:
        """Return the budgets, or none and why the objective cannot be kept; the job runs on."""
        if flow is None:
            return {}, ""
        try:
            budgets = self._am.share(flow, self._managers)
        except PermanentError as error:
            if not self._told:  # once: the figure in it moves with every interval
                self._tell("ObjectiveInfeasible", str(error))
            self._told = str(error)
            return {}, self._told
        self._told = ""
        return budgets, ""

    def _find_reason_to_hold(self, sight: Sight, now: float) -> str:
        if self._lifecycle.is_changing or self._actor.is_acting:
            return "A change is under way"
        if sight.app is None:
            return "It is not known yet where the tasks run"
        if not self._is_settled(now):
            return "The job has just been restarted"
        holding = [problem.sentence for problem in sight.problems if problem.kind.holds]
        return f"The metrics are not to be trusted: {holding[0]}" if holding else ""

    def _is_settled(self, now: float) -> bool:
        return now - self._run_since >= self._settings.settle * self._settings.interval

    def _observe(
        self,
        app: AppMeasurement,
        replicas: tuple[Replica, ...],
        deployments: DeploymentMap,
        budgets: Mapping[str, float],
        interval: Interval,
    ) -> dict[str, Observation]:
        first = () if self._topology is None else first_behind_sources(self._topology)
        return {
            name: self._managers[name].observe(
                measurement,
                [replica for replica in replicas if replica.operator == name],
                deployment=Deployment.from_named(
                    deployments[name], self._managers[name].model.node_types
                ),
                budget=budgets.get(name, math.nan),
                first=name in first,
                interval=interval,
            )
            for name, measurement in app.operators.items()
        }

    def _take_back(self, journal: RescaleJournal, current: DeploymentMap) -> Ruling:
        """Return to where a change came from, by a change with a savepoint of its own."""
        now = self._clock.now()
        changed = tuple(name for name in current if current[name] != journal.source.get(name))
        return Ruling(
            verdicts=dict.fromkeys(changed, f"Granted: it takes change {journal.id} back"),
            granted=changed,
            target=journal.source,
            restart=True,
            tokens=self._am.pay(self._tokens(now), now),
        )

    def _interval_of(self, sight: Sight) -> Intervals:
        rate = math.nan if sight.app is None else sum_of_sources(sight.app, self._topology)
        return Intervals(
            rate=rate,
            response_time=sight.response(self._settings.statistic),
            backlog=math.nan if sight.app is None else sight.app.backlog,
        )

    # -- remembering ------------------------------------------------------------------------------

    def _tokens(self, now: float) -> RestartTokens:
        kept = self._store.load().restart_tokens
        return RestartTokens.from_dict(kept) if kept else self._am.restarts.fill(now)

    def _record(
        self, tick: str, now: float, proposals: Mapping[str, Proposal], ruling: Ruling
    ) -> None:
        self._records.write(
            DecisionRecord(
                id=f"{tick}-{name}",
                time=now,
                operator=name,
                policy=self._settings.policy,
                observation=proposal.observation,
                decision=proposal.decision,
                verdict=ruling.verdicts.get(name, ""),
                change=change_of(tick, proposal) if name in ruling.granted else None,
            )
            for name, proposal in proposals.items()
        )

    def _tell(self, reason: str, message: str) -> None:
        self._on_event(Event(time=self._clock.now(), reason=reason, message=message))
