"""Builds the loops of one StreamApp, the same on one machine and on a cluster.

What differs between the two (where processes run, where the status is stored, where samples come
from, where events go) is passed in; everything else follows from the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from weir_operator.errors import PermanentError
from weir_operator.flink.job_graph import Plan
from weir_operator.loop.app_state import AppState, LearnedStore
from weir_operator.loop.arbitrate import ApplicationManager
from weir_operator.loop.bounds import cost_per_hour, prices
from weir_operator.loop.decide import Managers
from weir_operator.loop.directives import Directives, LoopSettings, directives_of
from weir_operator.loop.events import Notices
from weir_operator.loop.gather import Gatherer
from weir_operator.loop.lifecycle import FirstStart, Lifecycle
from weir_operator.loop.loop import ApplicationController, Deciders, Surroundings
from weir_operator.loop.record import RECORDS, LoopStart, TolerantRecords
from weir_operator.loop.restart_limits import SharedRestarts
from weir_operator.loop.shadow import Advisor
from weir_operator.metrics.source import MetricsSource
from weir_operator.rescale.engine import EngineParts, Rescaler
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.rescale.settings import JobSpec
from weir_operator.runtime.protocol import Runtime
from weir_operator.streamapp import world
from weir_operator.streamapp.models import StreamApp
from weir_operator.tuning.fitting import Fitter
from weir_operator.tuning.history import Past
from weir_operator.tuning.loop import TuningLoop
from weir_operator.tuning.protocol import Tuner
from weir_operator.tuning.store import TUNINGS, TuningStore
from weir_operator.wiring import assembly
from weir_operator.wiring.discovery import Discovery
from weir_operator.wiring.vertices import (
    discover_operators,
    is_pinnable,
    share_operators,
    vertices_of,
    with_operators,
)
from weir_policies.model.season import Season


@dataclass(frozen=True, kw_only=True)
class Dependencies(Surroundings):
    """What the loops of one StreamApp need. Whoever made the parts also closes them."""

    runtime: Runtime
    jobs: FlinkJobs
    source: MetricsSource
    records: TolerantRecords
    folder: Path
    """Where what was learned is kept."""
    on_change: Callable[[RescaleJournal], None]
    directives: Callable[[], Directives] | None = None
    """Read at every check and tick; `None` takes what the manifest says now. Where they name no
    revision, it is the manifest's."""
    shared_restarts: SharedRestarts | None = None
    """The restart budget over all StreamApps; `None` where there is none."""
    rescaler: Callable[[EngineParts], Rescaler] = Rescaler
    """Makes the engine that executes changes."""
    phase: float | None = None
    """See `LoopSettings.phase`."""
    paid: Callable[[], float] | None = None
    """Returns what is paid for a job that somebody else runs, currency per hour; `None` for one
    that runs under Weir."""
    tuner: Tuner | None = None
    """Makes tunings; `None` leaves weights and budgets as they are without."""
    past: Past | None = None
    """Where more history of the job is than its folder has; `None` if none is configured."""
    seasons: Mapping[str, Season] = field(default_factory=dict)
    """What usually arrives, by operator: what policies begin with that have learned nothing yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Steering:
    """One StreamApp's loops, not yet running."""

    lifecycle: Lifecycle
    controller: ApplicationController
    managers: Managers


def state_directory(state: Path, app: str) -> Path:
    """Return the folder of a StreamApp named `NAME` or `NAMESPACE/NAME`."""
    namespace, _, name = app.rpartition("/")
    return state / f"{namespace or 'default'}.{name}"


def assemble(
    written: StreamApp,
    around: Dependencies,
    *,
    job: JobSpec,
    policy: str | None = None,
    plan: Plan | None = None,
) -> Steering:
    """Put the loops of a StreamApp together.

    Args:
        written: The StreamApp, as written.
        around: What the loops need.
        job: How it is submitted.
        policy: Overrides the manifest's.
        plan: What its program builds. Without, the loops end with an `OperatorsChangedError`, which
            brings it, if the manifest does not say all of the job's operators.

    Raises:
        ParameterError: One of its settings is unknown or out of range.
    """
    app = _discover(written, around, plan)
    job = replace(job, vertices={} if app is written else vertices_of(app))
    loops = replace(assembly.loop_settings(app, policy=policy), phase=around.phase)
    managers = assembly.operator_managers(
        app, policy=policy, trained_first=around.tuner is not None, seasons=around.seasons
    )
    foreign = app.spec.flink.ref is not None
    discovery = Discovery(
        written,
        around.jobs,
        job,
        assembled=job.vertices,
        plan_known=is_pinnable(plan),
        on_event=around.on_event,
        clock=around.clock,
    )
    parts = EngineParts(
        runtime=around.runtime,
        jobs=around.jobs,
        spec=job,
        store=around.store,
        settings=assembly.rescale_settings(app),
        clock=around.clock,
        adapt=None if foreign else discovery.adapt,
    )
    directives = _directives(app, around, job)
    lifecycle = _lifecycle(app, around, parts, managers, discovery, directives)
    gatherer = Gatherer(settings=loops, parts=parts, lifecycle=lifecycle, source=around.source)
    manager = assembly.application_manager(app, shared=around.shared_restarts)
    controller = ApplicationController(
        settings=loops,
        directives=directives,
        gatherer=gatherer,
        lifecycle=lifecycle,
        deciders=Deciders(
            operators={each.name: each for each in world.operators(app)},
            managers=managers,
            application=manager,
            shared=share_operators(written, plan, job.vertices),
            tuning=_tuning(app, around, loops, managers, manager, directives),
        ),
        memory=_memory(app, around, loops, managers, manager),
        around=around,
    )
    return Steering(lifecycle=lifecycle, controller=controller, managers=managers)


def _discover(app: StreamApp, around: Dependencies, plan: Plan | None) -> StreamApp:
    """Return the StreamApp with the operators of its job, as far as these are known.

    Without a plan that says them, as after a start of the controller or on a JobManager that has
    lost the agent, they are those that the job runs with: they must not be joined again.
    """
    status = around.store.load()
    running = {} if status.revision is None else status.revision.vertices
    if running and not is_pinnable(plan):
        return with_operators(app, running, {})
    try:
        return discover_operators(app, plan, status.deployments)
    except PermanentError:
        return app  # the check of the job says so, unless it is upgraded first


def _lifecycle(
    app: StreamApp,
    around: Dependencies,
    parts: EngineParts,
    managers: Managers,
    discovery: Discovery,
    directives: Callable[[], Directives],
) -> Lifecycle:
    given, foreign = app.spec.flink.job, app.spec.flink.ref is not None
    models = {name: each.model for name, each in managers.items() if each.fixed is None}
    return Lifecycle(
        parts,
        rescaler=around.rescaler(parts),
        start=FirstStart(
            deployments=assembly.initial_deployments(app),
            savepoint=given.initial_savepoint if given else None,
            restore_nonce=given.restore_nonce if given else 0,
        ),
        on_event=around.on_event,
        on_change=around.on_change,
        directives=directives,
        # A foreign job is as its owner made it: nothing is held against the manifest.
        models=None if foreign else models,
        checks=None if foreign else discovery,
    )


def _memory(
    app: StreamApp,
    around: Dependencies,
    loops: LoopSettings,
    managers: Managers,
    manager: ApplicationManager,
) -> AppState:
    return AppState(
        managers=managers,
        restarts=manager.restarts,
        store=around.store,
        records=around.records,
        learned=LearnedStore(
            around.folder / "learned.json",
            policy=loops.policy,
            settings=assembly.policy_settings(app, policy=loops.policy),
            reset_nonce=app.spec.reset_nonce,
            sharing=manager.sharing,
            vertices={each.name: each.vertices or () for each in app.spec.operators},
        ),
        advisor=Advisor(
            managers,
            manager,
            around.folder / "forecast.json",
            policy=loops.policy,
            reset_nonce=app.spec.reset_nonce,
            cost=partial(cost_per_hour, prices=prices(app), job_manager=loops.job_manager_price),
            paid=around.paid,
        ),
        settings=loops,
        start=LoopStart(
            time=around.clock.now(), app=assembly.what_decides(app), policy=loops.policy
        ),
    )


def _tuning(
    app: StreamApp,
    around: Dependencies,
    loops: LoopSettings,
    managers: Managers,
    manager: ApplicationManager,
    directives: Callable[[], Directives],
) -> TuningLoop | None:
    if around.tuner is None:
        return None
    settings = replace(
        assembly.tuning_settings(app, policy=loops.policy, tuner_deadline=around.tuner.deadline),
        phase=loops.phase or 0.0,
    )
    return TuningLoop(
        settings=settings,
        tuner=around.tuner,
        managers=managers,
        sharing=manager.sharing,
        fitter=Fitter(around.folder / RECORDS, managers, slot=settings.tick, past=around.past),
        store=TuningStore(around.folder / TUNINGS, key=settings.key),
        directives=directives,
        notices=Notices(around.on_event, around.clock),
    )


def _directives(app: StreamApp, around: Dependencies, job: JobSpec) -> Callable[[], Directives]:
    foreign = app.spec.flink.ref is not None  # its owner upgrades it
    revision = None if foreign else assembly.revision_of(app, job)
    written = directives_of(app)

    def read() -> Directives:
        asked = around.directives() if around.directives is not None else written
        if asked.revision is None:
            return replace(asked, revision=revision)
        # Whoever read the manifest does not know what the job's operators are made of.
        named = asked.revision.model_copy(update={"vertices": dict(job.vertices)})
        return replace(asked, revision=named)

    return read
