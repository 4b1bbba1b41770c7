"""The controller's process, from its start to its end.

    serve health -> wait for the Lease -> kopf, passes, canary, watchdog -> let go -> give it back

A standby serves health and waits. A controller that has lost the Lease, whose watchdog found it
dead, or whose kopf ended, ends its process: state is in the statuses, so starting anew is the one
way to go on that is always right. A signal lets changes under way come to their end for a moment,
leaves the jobs running and gives the Lease back.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any

import kopf
import numpy as np
import structlog

from weir_operator.clock import SystemClock
from weir_operator.cluster.api import KubernetesApi
from weir_operator.cluster.canary import Canary
from weir_operator.cluster.changes import Changes
from weir_operator.cluster.crowd import Crowd
from weir_operator.cluster.events import EventPoster
from weir_operator.cluster.handlers import build_registry, operator_settings
from weir_operator.cluster.health import (
    HealthServer,
    Pulse,
    oldest,
    watch_over,
)
from weir_operator.cluster.leader import BootClock, Leader, LeaseSettings
from weir_operator.cluster.nodes import NodeNotices
from weir_operator.cluster.objects import ClosableApi, Resource, collection
from weir_operator.cluster.office import Api, Office, PolicyCompiler, TunerFor, Worlds
from weir_operator.cluster.own_loop import OwnLoop, own_loop
from weir_operator.cluster.reconcile import Reconciler
from weir_operator.cluster.rivals import Rivals
from weir_operator.cluster.runtime import KubernetesRuntime
from weir_operator.cluster.settings import ControllerSettings, TunerAccess
from weir_operator.cluster.telemetry import Telemetry
from weir_operator.cluster.worlds import ClusterWorlds
from weir_operator.controller.history_reader import HistoryReader
from weir_operator.controller.mapped_tables import MappedTables
from weir_operator.controller.shared_restarts import SharedRestarts
from weir_operator.errors import WeirError
from weir_operator.streamapp.models import StreamApp
from weir_operator.tuning.job import JobTuner
from weir_policies import registry
from weir_policies.application_manager.restart_budget import RestartBudget
from weir_policies.kernels.policy import KernelPolicy

log = structlog.get_logger()

THREADS = 32
"""For what blocks: queries to Prometheus, compiling. More than Python's default, because one that
hangs must not hold up the others."""
DEFAULT_POLICY = "planner"
"""Compiled before the process asks for the Lease; others when the first StreamApp uses them."""
LIST_EVERY = 300.0
"""Seconds between two lists of all StreamApps, which see what a watch has lost."""


class Controller:
    """One process's parts, put together."""

    def __init__(
        self,
        api: Api,
        worlds: Worlds,
        nodes: NodeNotices,
        settings: ControllerSettings,
        *,
        lease_api: ClosableApi,
        changes: Changes | None = None,
        tuner_for: TunerFor | None = None,
    ) -> None:
        """Put it together.

        Args:
            api: The API server, for the event loop on which the controller runs.
            worlds: What the loops of StreamApps stand on.
            nodes: What is known of nodes that go.
            settings: Of the process.
            lease_api: The API server once more, for the loop of the Lease alone; closed at the end.
            changes: Watched while it leads; `None` where Flink is not on the API server.
            tuner_for: Makes the tuner of a StreamApp; `None` tunes nothing.
        """
        self._settings = settings
        self._nodes = nodes
        self._changes = changes
        self._crowd = Crowd()
        self._api = api
        self._boot = BootClock()
        self._clock = SystemClock()
        self._telemetry = Telemetry()
        lease = LeaseSettings(
            namespace=settings.own_namespace, identity=settings.identity, name=settings.lease
        )
        self._lease_api = lease_api
        self._leader = Leader(lease_api, lease, clock=self._boot)
        self._events = EventPoster(api, instance=settings.identity, clock=self._clock)
        self._canary = Canary(api, settings.canary, clock=self._boot)
        self._compiler = PolicyCompiler()
        self._reconciler = Reconciler(
            Office(
                api=api,
                fence=self._leader,
                worlds=worlds,
                events=self._events,
                rivals=Rivals(api, clock=self._clock),
                telemetry=self._telemetry,
                clock=self._clock,
                state=settings.state,
                tables=MappedTables(settings.state),
                compiler=self._compiler,
                crowd=self._crowd,
                tuner_for=tuner_for,
                history=None if settings.history is None else HistoryReader(settings.history),
                shared_restarts=_share_restarts(settings, self._clock.now()),
            ),
            clock=self._boot,
        )
        self._telemetry.show_ages(lambda: self._reconciler.ages)
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
            LeaseLostError: Another controller is the active one.
            DeadControllerError: Passes or watch have stopped.
            WeirError: The API server refuses for good.
        """
        async with AsyncExitStack() as stack:
            health = HealthServer(
                pulse=self._pulse,
                limits=self._settings.limits,
                find_unready=self._find_unready,
                metrics=self._render_metrics,
            )
            stack.push_async_callback(health.close)
            claim_signals()
            self.port = await health.start(self._settings.health_port, self._settings.health_host)
            # Before anything depends on the event loop: compiling takes half of its time.
            await self._compiler.ensure(DEFAULT_POLICY, compile_default_policy)
            self._compiled = True
            # However busy the controller is, the Lease is renewed; see `leader`.
            desk = stack.enter_context(own_loop("lease"))
            stack.push_async_callback(self._close_lease_api, desk)
            if not await _until(stop, desk.run(self._leader.acquire())):
                return
            # Renewed to the very end: what is let go may still have to write its status.
            keeping = asyncio.create_task(desk.run(self._leader.keep()), name="lease")
            try:
                await self._work(stop, keeping, claim_signals)
            finally:
                keeping.cancel()
                await asyncio.wait({keeping})
                await desk.run(self._leader.release())

    async def _close_lease_api(self, desk: OwnLoop) -> None:
        await desk.run(self._lease_api.close())

    async def _work(
        self, stop: asyncio.Event, keeping: asyncio.Task[None], claim_signals: Callable[[], None]
    ) -> None:
        self._working = True
        ending = asyncio.Event()
        works = {
            "events": self._events.run(),
            "canary": self._canary.run(),
            "lists": self._list_for_ever(),
            "nodes": self._crowd.watch(self._nodes, self._boot),
            "watchdog": watch_over(self._pulse, self._settings.limits, clock=self._boot),
        }
        if self._changes is not None:
            works["changes"] = self._changes.watch()
        tasks = {asyncio.create_task(work, name=name) for name, work in works.items()}
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
            # kopf ends every task that began after it, so ours are let go first.
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
            settings=operator_settings(instance=self._settings.identity),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=ending,
            ready_flag=self._ready,
        )

    async def _claim_again(self, claim_signals: Callable[[], None]) -> None:
        """Take signals back from kopf, which would end our tasks before they let go."""
        await self._ready.wait()
        await self._boot.sleep(1.0)
        claim_signals()

    async def _list_for_ever(self) -> None:
        """See from time to time what a watch should have shown."""
        while True:
            await self._boot.sleep(LIST_EVERY)
            try:
                await self._list()
            except WeirError as error:
                log.warning("StreamApps not listed", failure=str(error))

    async def _list(self) -> None:
        found = []
        for namespace in self._settings.namespaces or (None,):
            found += [Resource.of(body) for body in await self._api.list(collection(namespace))]
        for resource in found:
            if resource.deleting or resource.is_canary:
                continue
            if not self._reconciler.knows(resource):
                log.warning("a StreamApp that the watch has not shown", app=str(resource.key))
                self._reconciler.reconcile(resource)
        there = {resource.key for resource in found}
        for key in [key for key in self._reconciler.apps if key not in there]:
            log.warning("a StreamApp whose end the watch has not shown", app=str(key))
            self._reconciler.forget(key)

    def _pulse(self) -> Pulse:
        name, age = oldest({str(key): age for key, age in self._reconciler.ages.items()})
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
            return ""  # a standby is ready to stand by
        return "" if self._ready.is_set() else "The watch has not begun yet"

    def _render_metrics(self) -> bytes:
        self._telemetry.leader.set(self.leads)
        self._telemetry.watch_age.set(self._canary.age)
        return self._telemetry.render()


def compile_default_policy() -> None:
    """Compile what most StreamApps decide with, where that was not done yet: it takes a minute."""
    policy = registry.build(DEFAULT_POLICY, rng=np.random.default_rng())
    if isinstance(policy, KernelPolicy):
        policy.compile()


def _tuner_for(api: KubernetesApi, access: TunerAccess | None) -> TunerFor | None:
    """Return what makes the tuner of a StreamApp; `None` where nothing is tuned."""
    if access is None:
        return None
    return lambda resource: JobTuner(
        api,
        access.template,
        namespace=access.namespace,
        app=str(resource.key),
        deadline=access.deadline,
        clock=SystemClock(),
    )


def _share_restarts(settings: ControllerSettings, now: float) -> SharedRestarts | None:
    most = settings.restarts_per_hour
    if most is None:
        return None
    return SharedRestarts(RestartBudget(size=most, refill_every=3600.0 / most), now=now)


async def run_on_cluster(settings: ControllerSettings) -> None:
    """Run a controller on the cluster that this process runs in, or that KUBECONFIG names.

    Raises:
        WeirError: See `Controller.run`; also where no cluster can be reached.
    """
    api = await KubernetesApi.connect()
    nodes = NodeNotices(api, settings.namespaces)
    changes = Changes(api, settings.namespaces)

    def runtime_for(app: StreamApp, resource: Resource) -> KubernetesRuntime:
        return KubernetesRuntime.of(
            app,
            uid=resource.uid,
            api=api,
            nodes=nodes,
            changes=changes,
            controller_namespace=settings.own_namespace,
        )

    worlds = ClusterWorlds(runtime_for, settings.prometheus)
    try:
        await run_controller(
            settings,
            api=api,
            worlds=worlds,
            nodes=nodes,
            lease_api=KubernetesApi.unconnected(),
            changes=changes,
            tuner_for=_tuner_for(api, settings.tuner),
        )
    finally:
        await worlds.close()
        await api.close()


async def run_controller(
    settings: ControllerSettings,
    *,
    api: Api,
    worlds: Worlds,
    nodes: NodeNotices,
    lease_api: ClosableApi,
    changes: Changes | None = None,
    tuner_for: TunerFor | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run a controller until SIGTERM, SIGINT, or until `stop` is set.

    Raises:
        WeirError: See `Controller.run`.
    """
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="weir"))
    stopping = stop or asyncio.Event()

    def claim_signals() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopping.set)

    controller = Controller(
        api,
        worlds,
        nodes,
        settings,
        lease_api=lease_api,
        changes=changes,
        tuner_for=tuner_for,
    )
    await controller.run(stopping, claim_signals=claim_signals)


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work; return false where it was time to stop before."""
    doing, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (doing, stopping):
            if not task.done():
                task.cancel()
        await asyncio.wait({doing, stopping})
    if doing.cancelled():
        return False
    doing.result()
    return True
