"""A job that is steered by hand: engine and lifecycle of a controller, and no policies.

Where its processes run is for those to say who derive from it: `trips_cluster` has them on this
machine, `cluster.cluster_job` on Kubernetes. Benchmarks and tests ask for a deployment and look at
what it took.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from benchmarks.figures import Figure, at_most, no_records
from benchmarks.flink.ledger import Ledger, read_proof
from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import TemporaryError
from weir_operator.loop.directives import Directives
from weir_operator.loop.events import Event
from weir_operator.loop.lifecycle import FirstStart, Lifecycle
from weir_operator.rescale.engine import STOP_POLL, VERIFY_POLL, EngineParts, Rescaler
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import RescaleJournal, Step, new_id
from weir_operator.rescale.settings import JobSpec, RescaleSettings
from weir_operator.rescale.status import StatusStore
from weir_operator.runtime.protocol import Deployments, Runtime
from weir_operator.wiring.discovery import Discovery
from weir_policies.policy import OperatorModel

Where = TypeVar("Where", bound=Runtime)

RESTART_LIMIT = 120.0
"""Seconds for a savepoint, and for a start, by Flink alone."""


class SteeredJob(Generic[Where]):
    """One controller's hold on a job."""

    jobs: FlinkJobs
    runtime: Where
    lifecycle: Lifecycle

    def __init__(self, out: Path, store: StatusStore) -> None:
        """Note where the job's ledger is on this machine, and where its status is kept."""
        self.out = out
        self.store = store
        self.clock = SystemClock()
        self.events: list[Event] = []

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process or pod of the job."""
        await self.jobs.close()
        await self.runtime.close()

    async def until_running(self, limit: float = 60.0) -> float:
        """Look after the job until every task runs; return the seconds that took."""
        began = self.clock.now()
        while self.clock.now() - began < limit:
            with suppress(TemporaryError):  # a JobManager that dies answers nothing for a while
                await self.lifecycle.heal()
                job = self.store.load().job_id
                progress = await self.jobs.progress(job) if job else None
                if progress is not None and progress.running:
                    return self.clock.now() - began
            await asyncio.sleep(0.2)
        raise RuntimeError(f"Expected the job to run within {limit:g} s, got tasks that do not")

    async def finish(self) -> Ledger:
        """Stop the job with a savepoint and return what its ledger says then."""
        await self.lifecycle.suspend()
        return read_proof(self.out)

    def _steer(
        self,
        runtime: Runtime,
        *,
        spec: JobSpec,
        settings: RescaleSettings,
        initial: Deployments,
        models: Mapping[str, OperatorModel] | None = None,
        directives: Callable[[], Directives] = Directives,
        discovery: Discovery | None = None,
    ) -> Lifecycle:
        """Put engine and lifecycle together; with `discovery`, programs are read and checked."""
        parts = EngineParts(
            runtime=runtime,
            jobs=self.jobs,
            spec=spec,
            store=self.store,
            settings=settings,
            clock=self.clock,
            adapt=None if discovery is None else discovery.adapt,
        )
        return Lifecycle(
            parts,
            rescaler=Rescaler(parts),
            start=FirstStart(deployments=initial),
            on_event=self.events.append,
            on_change=lambda journal: None,
            directives=directives,
            models=models,
            checks=discovery,
        )

    async def restart_by_flink_alone(self, spec: JobSpec) -> tuple[float, float]:
        """Stop the job with a savepoint and start it as it is; return begin and end, Unix seconds.

        Two requests to Flink, on TaskManagers that are there and warm: no change can take less.

        Raises:
            RuntimeError: A savepoint fails, or either takes longer than `RESTART_LIMIT`.
        """
        status, jar = self.store.load(), await self.runtime.provide_jar()
        program = spec.program(status.deployments)
        configuration = {**program.configuration, **await self.jobs.managed_memory()}
        old, new, trigger = status.job_id or "", new_id(), new_id()
        rest = await self.jobs.rest()

        async def stopped() -> str | None:
            found = await rest.savepoint_status(old, trigger)
            if found is not None and found.failure is not None:
                raise RuntimeError(f"Expected a savepoint, got: {found.failure}")
            return None if found is None else found.path

        async def runs() -> bool | None:
            found = await self.jobs.progress(new)
            return True if found is not None and found.running else None

        began = self.clock.now()
        await rest.stop_with_savepoint(old, trigger_id=trigger)
        path = await wait_until(stopped, clock=self.clock, timeout=RESTART_LIMIT, period=STOP_POLL)
        if path is None:
            raise RuntimeError(f"Expected a savepoint within {RESTART_LIMIT:g} s, got none")
        await rest.run_jar(
            jar,
            job_id=new,
            entry_class=program.entry_class,
            arguments=program.arguments,
            parallelism=program.parallelism,
            savepoint_path=path,
            configuration=configuration,
        )
        known = {"job_id": new, "restore_path": path}
        await self.store.save(self.store.load().model_copy(update=known))
        if not await wait_until(runs, clock=self.clock, timeout=RESTART_LIMIT, period=VERIFY_POLL):
            raise RuntimeError(f"Expected the job to run within {RESTART_LIMIT:g} s, got none")
        return began, self.clock.now()


def figures_of_two_more(
    ends: Sequence[RescaleJournal], ledger: Ledger, *, limit: float
) -> list[Figure]:
    """Return what changes took that gave an operator two replicas more."""
    name = "two replicas more"
    times = [end.times[str(Step.DONE)] - end.created for end in ends]
    started = [end.times[str(Step.STOP)] - end.times[str(Step.START)] for end in ends]
    return [
        at_most(
            f"{name}: decision to running, median of {len(ends)}",
            statistics.median(times),
            limit,
            "s",
        ),
        Figure(f"{name}: decision to running, longest", max(times), "s"),
        Figure(f"{name}: until both are registered, median", statistics.median(started), "s"),
        no_records(f"{name}: lost or doubled", ledger.lost + ledger.doubled),
    ]
