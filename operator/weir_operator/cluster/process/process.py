"""The controller's process, from its start to its end.

    serve health -> wait for a Lease -> kopf, passes, canary, watchdog -> close -> release it

A standby serves health and waits. A controller ends if it has lost the Lease, if its watchdog found
it dead, or if its kopf ended: all state is in the statuses, so a restart is always right (see
`running`). On a signal, it gives running changes a moment to finish, leaves the jobs running and
releases the Lease.

It changes the API server only while it holds the Lease: the client checks before each such request.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import kopf
import numpy as np
import structlog

from weir_operator.api.background import keep_running, own_loop, run_unless
from weir_operator.api.client import KubernetesApi
from weir_operator.api.leader import BootClock, Leader, LeaseSettings
from weir_operator.api.objects import Resource, collection
from weir_operator.clock import Clock, SystemClock
from weir_operator.cluster.app.autoscaler_conflicts import AutoscalerConflicts
from weir_operator.cluster.app.context import (
    AppDependencies,
    ControllerContext,
    TunerFor,
)
from weir_operator.cluster.process.canary import Canary
from weir_operator.cluster.process.handlers import build_registry, operator_settings
from weir_operator.cluster.process.health import HealthServer, Pulse, watch_over
from weir_operator.cluster.process.reconcile import Reconciler
from weir_operator.cluster.process.settings import ControllerSettings
from weir_operator.cluster.status.events import EventPoster
from weir_operator.cluster.status.telemetry import (
    Telemetry,
    watch_event_loop,
    watch_state_volume,
)
from weir_operator.errors import PermanentError, WeirError
from weir_operator.loop.restart_limits import SharedRestarts
from weir_operator.runtime.pods.changes import EVERYWHERE, Changes
from weir_operator.runtime.pods.nodes import NodeNotices
from weir_operator.tuning.history import HistoryReader
from weir_policies import registry
from weir_policies.application_manager.restart_budget import RestartBudget
from weir_policies.kernels.expectation import compile_predictions
from weir_policies.policy import Compilable

DEEPEST = 40_000
"""Calls within calls that Python allows. API servers take objects of 10,000 levels, and kopf walks
through them by functions that call themselves, some twice a level. One that it cannot read would
end the watch of all StreamApps, at every start again. Eight megabytes of stack are enough."""
DEFAULT_POLICY = "planner"
"""Compiled before the process asks for the Lease; others when the first StreamApp uses them."""


class Controller:
    """One process's parts, put together."""

    def __init__(
        self,
        api: KubernetesApi,
        dependencies: AppDependencies,
        nodes: NodeNotices,
        settings: ControllerSettings,
        *,
        lease_api: KubernetesApi,
        changes: Changes | None = None,
        tuner_for: TunerFor | None = None,
    ) -> None:
        """Put it together.

        Args:
            api: The API server, for the event loop on which the controller runs.
            dependencies: What the loops of StreamApps stand on.
            nodes: What is known of nodes that go.
            settings: Of the process.
            lease_api: The API server once more, for the loop of the Lease alone; closed at the end.
            changes: Watched while it leads; `None` where Flink is not on the API server.
            tuner_for: Makes the tuner of a StreamApp; `None` tunes nothing.
        """
        self._settings = settings
        self._nodes = nodes
        self._changes = changes
        self._boot = BootClock()
        self._clock = SystemClock()
        self._telemetry = Telemetry()
        lease = LeaseSettings(
            namespace=settings.own_namespace, identity=settings.identity, name=settings.lease
        )
        self._lease_api = lease_api
        self._leader = Leader(lease_api, lease, clock=self._boot)
        self._api = api = api.guarded(self._leader.confirm)
        self._events = EventPoster(api, instance=settings.identity, clock=self._clock)
        self._canary = Canary(api, settings.canary, clock=self._boot)
        self._context = ControllerContext(
            api=api,
            fence=self._leader,
            dependencies=dependencies,
            events=self._events,
            autoscaler_conflicts=AutoscalerConflicts(api, clock=self._clock),
            telemetry=self._telemetry,
            clock=self._clock,
            state=settings.state,
            tuner_for=tuner_for,
            history=None if settings.history is None else HistoryReader(settings.history),
            shared_restarts=_share_restarts(settings, self._clock),
        )
        self._reconciler = Reconciler(self._context, clock=self._boot)
        self._listing = Listing(
            api,
            settings.namespaces,
            self._reconciler,
            telemetry=self._telemetry,
            clock=self._boot,
        )
        self._ready = asyncio.Event()
        self._compiled = self._working = False
        self.port: int | None = None
        """Where health is served, once it is."""

    @property
    def leads(self) -> bool:
        """Whether it is the active controller."""
        return self._working and self._leader.holds

    async def run(
        self, stop: asyncio.Event, *, claim_signals: Callable[[], None] = lambda: None
    ) -> None:
        """Work until `stop` is set.

        Args:
            stop: Ends the work in order.
            claim_signals: Makes signals set `stop`; called again once kopf has made them its own.

        Raises:
            LeaseLostError: Another controller is, or may be, the active one.
            DeadControllerError: Passes or watch have stopped.
            WeirError: The API server refuses for good.
        """
        sys.setrecursionlimit(max(DEEPEST, sys.getrecursionlimit()))
        async with AsyncExitStack() as stack:
            health = HealthServer(
                pulse=self._pulse,
                find_unready=self._find_unready,
                metrics=self._render_metrics,
            )
            stack.push_async_callback(health.close)
            claim_signals()
            self.port = await health.start(self._settings.health_port, self._settings.health_host)
            # Before anything depends on the event loop: compiling takes half of its time.
            await self._context.compiler.ensure(DEFAULT_POLICY, compile_default_policy)
            self._compiled = True
            # However busy the controller is, the Lease is renewed; see `leader`.
            lease_loop = stack.enter_context(own_loop("lease"))
            stack.push_async_callback(lambda: lease_loop.run(self._lease_api.close()))
            if not await run_unless(stop, lease_loop.run(self._leader.acquire())):
                return
            # Renewed until the end: what is being closed may still have to write its status.
            keeping = asyncio.create_task(lease_loop.run(self._leader.keep()), name="lease")
            try:
                await self._work(stop, keeping, claim_signals)
            finally:
                keeping.cancel()
                await asyncio.wait({keeping})
                await lease_loop.run(self._leader.release())

    async def _work(
        self, stop: asyncio.Event, keeping: asyncio.Task[None], claim_signals: Callable[[], None]
    ) -> None:
        self._working = True
        ending = asyncio.Event()
        works: dict[str, Callable[[], Awaitable[None]]] = {
            "events": self._events.run,
            "canary": self._canary.run,
            "lists": self._listing.run,
            "passes": self._reconciler.run,
            "nodes": lambda: self._context.health_checks.watch(self._nodes, self._boot),
            "state volume": lambda: watch_state_volume(
                self._settings.state, self._telemetry, clock=self._boot
            ),
            "event loop": lambda: watch_event_loop(self._telemetry, clock=self._clock),
        }
        if self._changes is not None:
            works["changes"] = self._changes.watch
        count = self._telemetry.count_task_failure
        running = {
            name: keep_running(name, work, clock=self._boot, count=count)
            for name, work in works.items()
        }
        # The one whose failure is meant to end the process.
        running["watchdog"] = watch_over(self._pulse, clock=self._boot)
        tasks = {asyncio.create_task(work, name=name) for name, work in running.items()}
        watching = asyncio.create_task(self._watch(ending), name="kopf")
        stopping = asyncio.create_task(stop.wait())
        claiming = asyncio.create_task(self._claim_again(claim_signals))
        try:
            done, _ = await asyncio.wait(
                {*tasks, watching, keeping, stopping}, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()  # only kopf and the wish to stop end without an error
        finally:
            # kopf ends every task that began after it, so ours are ended first.
            await self._reconciler.close()
            await self._events.flush()
            ending.set()
            for task in (*tasks, claiming, stopping):
                task.cancel()
            ended: list[asyncio.Task[Any]] = [*tasks, watching, claiming, stopping]
            await asyncio.gather(*ended, return_exceptions=True)

    async def _watch(self, ending: asyncio.Event) -> None:
        namespaces = self._settings.namespaces
        await kopf.operator(
            registry=build_registry(self._reconciler, on_watch=self._canary.hear),
            settings=operator_settings(lambda: self._telemetry.count_task_failure("kopf")),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=ending,
            ready_flag=self._ready,
        )

    async def _claim_again(self, claim_signals: Callable[[], None]) -> None:
        """Take signals back from kopf, which would end our tasks before they close."""
        await self._ready.wait()
        await self._boot.sleep(1.0)
        claim_signals()

    def _pulse(self) -> Pulse:
        # One that is being deleted waits for kopf to write to it. Where its namespace refuses that,
        # a new process would not help it, and would cost all others.
        managed = self._reconciler.apps
        ages = {str(key): age for key, age in self._reconciler.ages.items() if key in managed}
        name, age = max(ages.items(), key=lambda item: item[1], default=("", 0.0))
        return Pulse(
            leads=self._working,
            oldest_pass=age,
            oldest=name,
            watch_silence=self._canary.silence,
        )

    def _find_unready(self) -> str:
        if not self._compiled:
            return "The default policy is being compiled"
        if not self._working:
            return self._leader.failure  # a standby is ready once it knows the leader
        return "" if self._ready.is_set() else "The watch has not started yet"

    def _render_metrics(self) -> bytes:
        self._telemetry.leader.set(self.leads)
        self._telemetry.lease_transitions.set(self._leader.transitions)
        self._telemetry.watch_age.set(self._canary.age)
        self._telemetry.show_ages(self._reconciler.ages)
        self._telemetry.show_refused(
            self._settings.namespaces or (EVERYWHERE,),
            self._listing.refused | (self._changes.refused if self._changes else frozenset()),
        )
        return self._telemetry.render()


def compile_default_policy() -> None:
    """Compile what most StreamApps decide with, where that was not done yet: it takes a minute."""
    compile_predictions()
    policy = registry.build(DEFAULT_POLICY, rng=np.random.default_rng())
    if isinstance(policy, Compilable):
        policy.compile()


def _share_restarts(settings: ControllerSettings, clock: Clock) -> SharedRestarts | None:
    maximum = settings.restarts_per_hour
    if maximum is None:
        return None
    return SharedRestarts(RestartBudget(size=maximum, refill_every=3600.0 / maximum), clock=clock)


log = structlog.get_logger()

LIST_EVERY = 300.0
"""Seconds between two lists."""


class Listing:
    """Lists the StreamApps and makes a pass over those that the watch has not shown."""

    def __init__(
        self,
        api: KubernetesApi,
        namespaces: Sequence[str],
        reconciler: Reconciler,
        *,
        telemetry: Telemetry,
        clock: Clock,
    ) -> None:
        self._api = api
        self._namespaces = namespaces or (None,)
        self._reconciler = reconciler
        self._telemetry = telemetry
        self._clock = clock
        self.refused: set[str] = set()
        """Namespaces whose StreamApps the API server refused to list last; `*` stands for all."""

    async def run(self) -> None:
        """List for ever."""
        while True:
            await self._clock.sleep(LIST_EVERY)
            await self.list()

    async def list(self) -> None:
        """List once; a namespace that cannot be listed hides no other."""
        for namespace in self._namespaces:
            self.refused.discard(namespace or EVERYWHERE)
            try:
                await self._list(namespace)
            except WeirError as error:
                if isinstance(error, PermanentError):
                    self.refused.add(namespace or EVERYWHERE)
                log.warning("StreamApps not listed", namespace=namespace, failure=str(error))
                self._telemetry.count_task_failure("lists")

    async def _list(self, namespace: str | None) -> None:
        # Before the first page: others may be created while pages are read.
        managed = [key for key in self._reconciler.apps if namespace in (None, key.namespace)]
        there = set()
        async for page in self._api.pages(collection(namespace)):
            for resource in map(Resource.of, page):
                there.add(resource.key)
                self._look_at(resource)
        for key in managed:
            if key not in there and key in self._reconciler.apps:
                log.warning("a StreamApp whose end the watch has not shown", app=str(key))
                self._reconciler.forget(key)

    def _look_at(self, resource: Resource) -> None:
        """Make a pass over a StreamApp that the watch has not shown; one that fails hides none."""
        if resource.deleting or resource.is_canary or self._reconciler.knows(resource):
            return
        log.warning("a StreamApp that the watch has not shown", app=str(resource.key))
        try:
            self._reconciler.reconcile(resource)
        except Exception:
            key = resource.key
            log.exception("pass failed", app=str(key))
            self._telemetry.errors.add(key, "defect")
