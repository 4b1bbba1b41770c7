"""Compares the operators that the loops are made for with those of the job's program.

The JobManager says what the program builds; `wiring/vertices.py` says which operators that makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import structlog

from weir_operator.clock import Clock
from weir_operator.errors import NotInProgramError, PermanentError, TemporaryError, WeirError
from weir_operator.flink.agent import PINNED
from weir_operator.flink.job_graph import (
    JobGraph,
    Plan,
    is_pinned_by_agent,
    refuse_unsuitable_program,
)
from weir_operator.flink.programs import Program, read_graph, read_plan
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.scripts import is_script
from weir_operator.flink.versions import refuse_old_version
from weir_operator.loop.events import Event, Notices
from weir_operator.rescale.flink import FlinkJobs, read_graph_of
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.rescale.replicas import parallelism
from weir_operator.rescale.settings import JobSpec
from weir_operator.rescale.status import AppStatus
from weir_operator.runtime.revision import Revision
from weir_operator.streamapp.models import StreamApp
from weir_operator.wiring.assembly import initial_deployments
from weir_operator.wiring.vertices import (
    describe_operators,
    describe_parallelism,
    discover_operators,
    is_pinnable,
    vertices_of,
)

log = structlog.get_logger()

READ_LIMIT = 120.0
"""Seconds in which a JobManager must say what a program builds: asked again, it would run `main` a
second time beside the first."""


class OperatorsChangedError(WeirError):
    """The job has other operators than the loops were made for; `plan` is what it builds now."""

    def __init__(self, plan: Plan | None) -> None:
        super().__init__("The job's operators have changed; Weir makes its loops again for these")
        self.plan = plan


class Discovery:
    """Compares the operators for which the loops were made with those of the job that runs."""

    def __init__(
        self,
        app: StreamApp,
        jobs: FlinkJobs,
        job: JobSpec,
        *,
        assembled: Mapping[str, object],
        plan_known: bool,
        on_event: Callable[[Event], None],
        clock: Clock,
    ) -> None:
        """Create it for loops.

        Args:
            app: As written.
            jobs: Who asks Flink.
            job: How the job is submitted.
            assembled: Vertices of the operators that the loops are made for.
            plan_known: Whether they were made with the program's plan, and so know the limits of
                its vertices.
            on_event: Told which operators the job has, when these are others.
            clock: The time.
        """
        self._app = app
        self._jobs = jobs
        self._job = job
        self._assembled = assembled
        self._plan_known = plan_known
        self._notices = Notices(on_event, clock)
        self._is_read = False  # the running program, by the last check

    async def check(self, status: AppStatus, wanted: Revision | None) -> None:
        """Return if the loops are made for the job's operators.

        Args:
            status: Of the job that runs, or is to be started for the first time.
            wanted: The revision that the job should have.

        Raises:
            OperatorsChangedError: They are not.
            PermanentError: The manifest does not fit the job's vertices, or Flink is too old.
            TemporaryError: The JobManager does not answer.
        """
        running = status.revision
        if running is None:
            refuse_old_version(await self._jobs.version())
        try:
            plan = await self._read_plan(running or wanted)
        except TemporaryError as error:
            if running is None or running.vertices != self._assembled:
                raise
            # A program that takes long to be read must not keep Weir from recovering the job.
            log.warning("operators not checked", failure=str(error))
            return
        self._is_read = running is not None and plan is not None
        if running is None and plan is not None:
            refuse_unsuitable_program(plan)
        known = {} if running is None else running.vertices
        if known and not is_pinnable(plan):
            if known == self._assembled:
                return  # the job runs on; a change of it says what is wrong
            if plan is None:
                raise TemporaryError("Weir cannot read what the job's program builds: see the log")
        try:
            app = discover_operators(self._app, plan, status.deployments)
        except PermanentError:
            if running is None or wanted is None or _is_same_program(running, wanted):
                raise
            return  # it is written for the program of the upgrade, whose start checks it
        found = vertices_of(app)
        if found != self._assembled:
            told = (describe_operators(found), describe_parallelism(plan))
            self._notices.report("OperatorsFound", ". ".join(each for each in told if each))
            raise OperatorsChangedError(plan)
        if found and not self._plan_known:
            raise OperatorsChangedError(plan)

    async def check_upgrade(
        self, journal: RescaleJournal, rest_url: str, jar: str
    ) -> JobGraph | None:
        """Return the graph of another revision's program if it builds a job that the manifest fits.

        Where the running program cannot be read, only the class of the other one is checked.
        Returns `None` if only the class was checked, if the graph cannot be read, if no pod is
        sized by it, or if the program's operators differ from the revision's: the graph is then
        read after the start.

        Args:
            journal: The upgrade.
            rest_url: Of a JobManager of the revision.
            jar: Id of the job's jar there.

        Raises:
            PermanentError: It builds none, the manifest does not fit it, or Flink is too old.
            TemporaryError: The JobManager, or a catalog of the program, does not answer.
        """
        spec = self._job.of(journal.revision)
        async with FlinkRest(rest_url, timeout=READ_LIMIT) as rest:

            async def read(arguments: tuple[str, ...]) -> Plan:
                return await read_plan(rest, jar, _pinned(spec, arguments))

            refuse_old_version(await rest.version())
            try:
                plan = await read(spec.arguments)
            except NotInProgramError:
                raise
            except PermanentError as error:
                if is_script(spec.entry_class):
                    raise
                if not self._is_read:
                    return None
                # One that pins itself may need the arguments that it gets at its start.
                if not journal.target.keys() <= spec.parallelism_arguments.keys():
                    raise
                try:
                    plan = await read(spec.program_arguments(journal.target))
                except PermanentError:
                    raise error from None
            app = self._fit(plan, journal)
            revision = journal.revision
            if revision is None or not revision.places or vertices_of(app) != revision.vertices:
                return None
            by_agent = spec.only_operator is None and is_pinned_by_agent(
                plan, parallelism(journal.wanted), spec.vertices
            )
            return await read_graph_of(
                journal, spec, partial(read_graph, rest, jar), by_agent=by_agent
            )

    async def adapt(self, journal: RescaleJournal) -> RescaleJournal:
        """Return a change to another revision with the operators of the program that it starts.

        Args:
            journal: Before TaskManagers are started; the JobManager has the job's jar.

        Raises:
            PermanentError: The manifest does not fit the job's vertices, or Flink is too old.
            TemporaryError: The JobManager does not answer.
        """
        revision = journal.revision
        if revision is None or journal.is_back:
            return journal
        refuse_old_version(await self._jobs.version())
        plan = await self._read_plan(revision)
        if plan is None:
            return journal
        app = self._fit(plan, journal)
        vertices = vertices_of(app)
        if vertices == revision.vertices:
            return journal
        target = initial_deployments(app, journal.target)
        asked = journal.fingerprint_asked or ""
        revision = revision.model_copy(update={"vertices": vertices, "graph": None})
        return journal.model_copy(
            update={"target": target, "revision": revision, "asked_revision": asked}
        )

    def _fit(self, plan: Plan, journal: RescaleJournal) -> StreamApp:
        refuse_unsuitable_program(plan)
        return discover_operators(self._app, plan, journal.target)

    async def _read_plan(self, revision: Revision | None) -> Plan | None:
        spec = self._job.of(revision)
        plan = await self._jobs.read_plan(_pinned(spec, spec.arguments))
        cause = self._jobs.unread
        self._notices.report_while(
            "PlanNotRead",
            f"Weir cannot read what the job's program builds: it cannot find its operators, nor "
            f"check whether the job can restart. {cause}"
            if plan is None and cause
            else "",
        )
        return plan


def _pinned(spec: JobSpec, arguments: tuple[str, ...]) -> Program:
    return Program(entry_class=spec.entry_class, arguments=arguments, configuration=PINNED)


def _is_same_program(one: Revision, other: Revision) -> bool:
    return (one.processes, one.entry_class, one.arguments) == (
        other.processes,
        other.entry_class,
        other.arguments,
    )
