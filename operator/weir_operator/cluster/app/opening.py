"""Opens the resources that one StreamApp's loops need, and closes them afterwards."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from weir_operator.api.objects import Resource
from weir_operator.cluster.app.context import ControllerContext
from weir_operator.cluster.app.reporter import ReportedRecords, StatusReporter
from weir_operator.cluster.status.store import KubernetesStatusStore, StatusClient
from weir_operator.errors import TemporaryError
from weir_operator.fence import Guard
from weir_operator.flink.job_graph import Plan
from weir_operator.loop.directives import Directives
from weir_operator.loop.record import RECORDS
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.runtime.protocol import Runtime
from weir_operator.streamapp.models import StreamApp
from weir_operator.tuning.history import Past
from weir_operator.wiring import assembly
from weir_operator.wiring.loops import Dependencies, Steering, assemble, state_directory
from weir_policies.model.season import Season

LOOK_EVERY = 5.0
"""Seconds between two checks whether a job runs, where StreamApps are few: Kubernetes brings
back pods by itself, and Flink the job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AppStores:
    """What is remembered of one StreamApp."""

    store: KubernetesStatusStore
    records: ReportedRecords
    folder: Path
    guard: Guard
    """Asked before anything is changed for it outside."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loops:
    """The loops of one StreamApp, with what they need."""

    runtime: Runtime
    jobs: FlinkJobs
    steering: Steering


@asynccontextmanager
async def open_stores(
    context: ControllerContext, resource: Resource, writer: StatusClient, reporter: StatusReporter
) -> AsyncIterator[AppStores]:
    """Open the records of a StreamApp and read its status, of which `writer` was opened.

    Raises:
        PermanentError: The status is not Weir's.
    """
    store = KubernetesStatusStore(writer)
    folder = state_directory(context.state, str(resource.key))
    records = ReportedRecords(folder / RECORDS, reporter)
    try:
        reporter.open(records, store)
        yield AppStores(store=store, records=records, folder=folder, guard=writer.confirm)
    finally:
        reporter.close()
        records.close()


@asynccontextmanager
async def open_loops(
    context: ControllerContext,
    app: StreamApp,
    resource: Resource,
    stores: AppStores,
    reporter: StatusReporter,
    directives: Callable[[], Directives],
    plan: Plan | None = None,
) -> AsyncIterator[Loops]:
    """Put the loops of `app` together; in the end, its job keeps running."""
    async with AsyncExitStack() as stack:
        stack.enter_context(context.health_checks.joined(resource.key))
        runtime = context.dependencies.runtime(app, resource, stores.guard)
        stack.push_async_callback(runtime.detach)
        jobs = context.dependencies.jobs(runtime, stores.guard)
        stack.push_async_callback(jobs.close)
        source = context.dependencies.source(app, runtime)
        stack.push_async_callback(source.close)
        past = (
            None if context.history is None else Past(reader=context.history, app=str(resource.key))
        )
        seasons = {} if past is None else await _read_seasons(past, reporter)
        around = Dependencies(
            runtime=runtime,
            jobs=jobs,
            store=stores.store,
            source=source,
            records=stores.records,
            folder=stores.folder,
            clock=context.clock,
            on_tick=reporter.on_tick,
            on_event=reporter.on_event,
            on_change=reporter.on_change,
            on_trouble=reporter.on_trouble,
            directives=directives,
            shared_restarts=context.shared_restarts,
            tuner=None if context.tuner_for is None else context.tuner_for(resource, stores.guard),
            past=past,
            seasons=seasons,
            phase=phase_of(resource),
            wait=lambda: context.health_checks.rest(resource.key, LOOK_EVERY),
        )
        job = assembly.job_spec(app, beside=stores.folder)
        steering = assemble(app, around, job=job, plan=plan)
        yield Loops(runtime=runtime, jobs=jobs, steering=steering)


async def _read_seasons(past: Past, reporter: StatusReporter) -> Mapping[str, Season]:
    """Return what policies begin with; nothing, and an event, where it cannot be read."""
    try:
        return await past.seasons()
    except TemporaryError as error:
        sentence = f"Policies start without the usual week from the history: {error}"
        reporter.report("HistoryUnused", sentence)
        return {}


def phase_of(resource: Resource) -> float:
    """Return the place of a StreamApp's ticks in their interval, a share of it.

    Evenly spread over StreamApps, and the same in every process.
    """
    return zlib.crc32(resource.uid.encode()) / 2**32
