"""Scales an external job where it runs: the parallelism of its vertices, and nothing else.

The steps of a change, each written to the journal before it is taken:

    START    the FlinkDeployment can be scaled, its job runs, and nobody else scales it; else
             ABANDONED
    SUBMIT   the parallelism is written to the FlinkDeployment; the Flink Kubernetes Operator
             passes it on to the running job
    VERIFY   every vertex runs with it, and records pass or none wait; else the same two steps with
             the previous parallelism (direction BACK, ROLLED_BACK), tried several times

A change ends as ABANDONED at any step where the owner has deployed a program with other vertices.

The adaptive scheduler restarts the job from its newest checkpoint, under the same id; a job without
checkpoints would lose its state. The operator passes the key on only to a job that it knows to run.
Otherwise it upgrades the job, which without a savepoint (`upgradeMode: stateless`) loses its state.
So Weir refuses both kinds of job, and writes the key only while the operator reports RUNNING.

Flink 2.x rescales at the next checkpoint that completes, so that little input is read again
(FLIP-461). So that nobody waits for the job's interval, Weir triggers one as soon as Flink would
rescale at it: it has the slots, and its pause after the last restart is over. Flink 1.x rescales as
soon as it has the slots, from the newest checkpoint. If the slots are there, Weir first triggers a
checkpoint and waits for it. If not, the checkpoint would be old by the time of the rescale.

A job of Flink 2.x that is submitted or restarted loses the operator's overrides (FLINK-38770), so
for these versions Weir also sends the parallelism to the job, and sends it again whenever the job
has lost it.

Flink keeps the job's id, so Weir does not see when it stopped. Where Flink keeps a history of
rescales (2.3, `web.adaptive-scheduler.rescale-history.size`), that says for how long.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping

import structlog

from weir_operator.advise import flink_deployment
from weir_operator.advise.flink import SUCCEEDED, ExternalFlink, FlinkRescale, ScaledFlink
from weir_operator.advise.flink_deployment import FlinkDeployment
from weir_operator.advise.view import ExternalJob
from weir_operator.advise.watch import JobWatch
from weir_operator.api.client import KubernetesApi
from weir_operator.clock import Clock, wait_until
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.fence import Guard
from weir_operator.flink.answers import JobDetails
from weir_operator.flink.options import read_duration
from weir_operator.rescale.closing import WithdrawnError
from weir_operator.rescale.engine import EngineParts, Rescaler
from weir_operator.rescale.flow import Reading
from weir_operator.rescale.journal import RescaleJournal, Step
from weir_operator.runtime.protocol import Deployments

log = structlog.get_logger()

COOLDOWN = "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling"
"""Key of Flink's configuration: for how long after a restart it does not rescale."""
_COOLDOWN = 30.0  # seconds, of Flink's own
TRIGGERED_AGAIN = 10.0
"""Seconds after which another checkpoint is triggered, if Flink did not rescale at the last."""
CHECKPOINT_LIMIT = 10.0
"""Seconds for a checkpoint before the parallelism is written; without, more input is read again."""
FLOW_PERIOD = 15.0
"""Seconds for which a job is watched before it is scaled, until a record passes: a Flink that is
not Weir's counts anew every 10 s."""

CLOCKS_DIFFER = 1.0
"""Seconds by which the JobManager's clock may be behind Weir's."""

Vertices = Mapping[str, int]
"""Parallelism by vertex id."""


class NotRunningError(TemporaryError):
    """The Flink Kubernetes Operator does not report that the job runs."""


class InPlace:
    """Reads and sets the parallelism of one external job."""

    def __init__(
        self, api: KubernetesApi, watch: JobWatch, *, guard: Guard | None, clock: Clock
    ) -> None:
        self._api = api
        self._watch = watch
        self._guard = guard
        self._clock = clock
        # A parallelism that was read before another one is written must not be sent after that.
        self._sending = asyncio.Lock()
        self._triggered = -math.inf  # when a checkpoint was triggered last, by the monotonic clock

    async def check(self, *, dry_run: bool = False) -> FlinkDeployment:
        """Return the FlinkDeployment, which Weir can scale.

        Args:
            dry_run: Also try whether Weir may write to it.

        Raises:
            PermanentError: Weir cannot scale it; one sentence for each reason.
            TemporaryError: The API server or Flink did not answer.
        """
        flink, job = self._watch.flink, self._watch.job
        if flink is None or job is None:
            raise TemporaryError("The job of spec.flink.ref is not known yet")
        deployment = await self._deployment()
        found = flink_deployment.refusals(deployment) or tuple(
            refusal
            for refusal in (
                flink_deployment.refuse_flink(await flink.version(), await flink.configuration()),
                await _refuse_checkpoints(flink, job),
                await flink_deployment.find_autoscaler(
                    self._api, deployment, now=self._clock.now()
                ),
            )
            if refusal
        )
        if found:
            raise PermanentError("; ".join(found))
        if dry_run:
            now = deployment.overrides or _parallelism(job)
            await flink_deployment.write_overrides(self._api, deployment, now, dry_run=True)
        return deployment

    async def require_running(self) -> None:
        """Check that the job can be scaled, also with a try, and that the operator reports it runs.

        Raises:
            PermanentError, TemporaryError: See `check`.
            NotRunningError: The operator does not report that it runs.
        """
        _require_running(await self.check(dry_run=True))

    async def _deployment(self) -> FlinkDeployment:
        reference = self._watch.reference
        if reference is None:
            raise TemporaryError("The job of spec.flink.ref is not known at the moment")
        return await flink_deployment.read_flink_deployment(
            self._api, reference.namespace, reference.name
        )

    def vertices(self, deployments: Deployments) -> Vertices:
        """Return the parallelism of each vertex in a deployment of the operators.

        Raises:
            WithdrawnError: The job has other operators: its owner has deployed another program.
            TemporaryError: No job runs.
        """
        job = self._watch.job
        if job is None:
            raise TemporaryError("The job of spec.flink.ref is not running")
        if set(job.topology.operators) != set(deployments):
            raise WithdrawnError(
                f"Expected job {job.name!r} to have the operators {', '.join(deployments)}, got "
                f"{', '.join(job.topology.operators)}: its owner has deployed another program"
            )
        return {
            vertex.id: sum(deployments[name].values())
            for name, vertices in job.topology.vertices.items()
            for vertex in vertices
        }

    async def write(self, wanted: Vertices, *, is_back: bool = False) -> None:
        """Write the parallelism to the FlinkDeployment, where it is not there already.

        With `is_back`, it is also written to a job that does not run: the failed change may have
        stopped it.

        Raises:
            PermanentError: Weir cannot scale it any more.
            NotRunningError: The operator would upgrade the job; nothing was written.
            TemporaryError: It was changed at the same moment, or something did not answer.
        """
        async with self._sending:
            deployment = await self.check()
            if deployment.overrides != wanted:
                _require_running(deployment, is_back=is_back)
                await flink_deployment.write_overrides(self._api, deployment, wanted)
            await self._send(wanted)

    async def _send(self, wanted: Vertices) -> bool:
        """Send a job of Flink 2.x another parallelism; return whether it was sent."""
        job = await self._watch.run()
        reference, flink = self._watch.reference, self._watch.flink
        if reference is None or flink is None:
            raise TemporaryError("The job of spec.flink.ref is not known at the moment")
        # From 2.0 on, a job that is submitted again runs without the overrides (FLINK-38770).
        if not flink_deployment.rescales_at_checkpoints(await flink.version()):
            return False
        now = await flink.requirements(job.id)
        then = {vertex: wanted.get(vertex, number) for vertex, number in now.items()}
        if then == now:
            return False
        async with ScaledFlink(reference.rest_url, guard=self._guard) as client:
            await client.require(job.id, then)
        return True

    async def restore(self) -> bool:
        """Give a restarted job of Flink 2.x the parallelism of its FlinkDeployment again.

        Returns:
            Whether it had lost it.

        Raises:
            PermanentError: Flink refuses it.
            TemporaryError: The API server or Flink did not answer.
        """
        async with self._sending:
            overrides = (await self._deployment()).overrides
            return bool(overrides) and await self._send(overrides)

    async def trigger_rescale(self, wanted: Vertices) -> None:
        """Trigger a checkpoint where a job of Flink 2.x waits for one to rescale.

        Raises:
            PermanentError: Flink refuses it.
            TemporaryError: Flink did not answer.
        """
        reference, flink = self._watch.reference, self._watch.flink
        now = self._clock.monotonic()
        if reference is None or flink is None or now < self._triggered + TRIGGERED_AGAIN:
            return
        if not flink_deployment.rescales_at_checkpoints(await flink.version()):
            return
        job = await self._watch.run()
        if self._clock.now() < job.runs_since + await _cooldown_of(flink):
            return
        if not await _has_slots(flink, wanted):
            return
        self._triggered = now
        async with ScaledFlink(reference.rest_url, guard=self._guard) as client:
            await client.checkpoint(job.id)

    async def checkpoint_first(self, wanted: Vertices) -> None:
        """Complete a checkpoint of a Flink 1.x job that has its slots: little is read again.

        Returns all the same if none completes within `CHECKPOINT_LIMIT`.
        """
        reference, flink = self._watch.reference, self._watch.flink
        if reference is None or flink is None:
            return
        try:
            if flink_deployment.rescales_at_checkpoints(await flink.version()):
                return
            if not await _has_slots(flink, wanted):
                return
            job = await self._watch.run()
            before = await flink.checkpoints(job.id)

            async def completed() -> bool | None:
                now = await flink.checkpoints(job.id)
                if before is None or now is None:
                    return None
                return True if now.completed > before.completed else None

            async with ScaledFlink(reference.rest_url, guard=self._guard) as client:
                await client.checkpoint(job.id)
            await wait_until(completed, clock=self._clock, timeout=CHECKPOINT_LIMIT, period=0.1)
        except (TemporaryError, PermanentError) as error:
            log.info("no checkpoint before the rescale", failure=str(error))

    async def runs_with(self, wanted: Vertices) -> bool:
        """Return whether every vertex runs with its parallelism.

        Raises:
            WithdrawnError: The job has other vertices: its owner has deployed another program.
            TemporaryError: It has none yet, or something did not answer.
        """
        job = await self._watch.run()
        there = {vertex.id for vertex in job.vertices}
        if not there:
            raise TemporaryError(f"Flink does not show the vertices of job {job.name!r} yet")
        if there != set(wanted):
            raise WithdrawnError(
                f"Job {job.name!r} has other vertices now: its owner has deployed another program"
            )
        return not _differences(job, wanted)

    async def describe(self, wanted: Vertices, *, since: float) -> str:
        """Return which vertices do not run as wanted since a Unix time, one sentence."""
        job = await self._watch.run()
        found = ", ".join(_differences(job, wanted)) or "all of its tasks ran too late"
        rescales = await self._rescales(job.id, since=since)
        newest = max(rescales, key=lambda each: each.started, default=None)
        ended = f" (its newest rescale: {newest.reason or 'not ended'})" if newest else ""
        return (
            f"Job {job.name!r} ({job.state.value}) does not run with the new parallelism: "
            f"{found}{ended}; check whether its cluster has enough slots, and the events of the "
            "FlinkDeployment"
        )

    async def time_down(self, wanted: Vertices, *, since: float) -> float | None:
        """Return the seconds from the stop of the job until all its tasks ran.

        Returns `None` where Flink keeps no history of rescales, or where the change, which began
        at a Unix time, took several: one of them may be the restart after a failure.
        """
        flink, job = self._watch.flink, self._watch.job
        if flink is None or job is None:
            return None
        rescales = await self._rescales(job.id, since=since)
        made = [each for each in rescales if each.reason == SUCCEEDED]
        if len(made) != 1:
            return None
        try:
            details = await flink.rescale(job.id, made[0].id)
            ran = [await flink.ran_at(job.id, vertex) for vertex in wanted]
        except (TemporaryError, PermanentError) as error:
            # The change has succeeded: only for how long the job was down stays unknown.
            log.info("time of a rescale not read", failure=str(error))
            return None
        if details.stopped is None or details.parallelism != wanted:
            return None
        return max(ran) - details.stopped

    async def _rescales(self, job_id: str, *, since: float) -> tuple[FlinkRescale, ...]:
        """Return the rescales since a time, as far as Flink remembers them."""
        if self._watch.flink is None:
            return ()
        try:
            found = await self._watch.flink.rescales(job_id)
        except (TemporaryError, PermanentError) as error:
            # What else is known of the change must be said all the same.
            log.info("history of rescales not read", failure=str(error))
            return ()
        return tuple(each for each in found if each.started >= since - CLOCKS_DIFFER)


def _require_running(deployment: FlinkDeployment, *, is_back: bool = False) -> None:
    """Refuse to write the key for now, if the operator would upgrade the job for it."""
    reason = flink_deployment.explain_wait(deployment, is_back=is_back)
    if reason:
        raise NotRunningError(reason)


async def _refuse_checkpoints(flink: ExternalFlink, job: ExternalJob) -> str:
    """Return why a restart would lose the job's state; empty where it has periodic checkpoints."""
    interval = await flink.checkpoint_interval(job.id)
    if interval is None and await flink.job(job.id) is None:
        raise TemporaryError(f"Job {job.name!r} of spec.flink.ref was replaced at the same moment")
    if interval is not None and math.isfinite(interval):
        return ""
    return (
        f"Checkpoints of job {job.name!r}: expected an interval, got none, so the job would lose "
        "its state when it is scaled; set execution.checkpointing.interval in "
        "spec.flinkConfiguration of the FlinkDeployment"
    )


async def _has_slots(flink: ExternalFlink, wanted: Vertices) -> bool:
    """Return whether there is a slot for each subtask of the widest vertex.

    How groups share slots, only Flink knows.
    """
    slots = sum(each.slots for each in await flink.task_managers())
    return slots >= max(wanted.values())


async def _cooldown_of(flink: ExternalFlink) -> float:
    """Return the seconds after a restart in which Flink does not rescale."""
    text = (await flink.configuration()).get(COOLDOWN)
    seconds = None if text is None else read_duration(text)
    return _COOLDOWN if seconds is None else seconds


def _differences(job: JobDetails, wanted: Vertices) -> list[str]:
    return [
        f"{vertex.name} runs with {vertex.tasks.get('RUNNING', 0)} of {wanted[vertex.id]} subtasks"
        for vertex in job.vertices
        if vertex.id in wanted
        and (vertex.parallelism != wanted[vertex.id] or not vertex.is_running)
    ]


def _parallelism(job: ExternalJob) -> dict[str, int]:
    return {
        vertex.id: vertex.parallelism
        for vertices in job.topology.vertices.values()
        for vertex in vertices
    }


class InPlaceRescaler(Rescaler):
    """Executes the journal of a change of an external job."""

    def __init__(self, parts: EngineParts, *, in_place: InPlace, watch: JobWatch) -> None:
        super().__init__(parts)
        self._in_place = in_place
        self._watch = watch

    def can_resume(self, journal: RescaleJournal) -> bool:
        """Return whether the change is one of an external job."""
        return journal.in_place

    async def execute(
        self,
        journal: RescaleJournal,
        is_asked_for: Callable[[RescaleJournal], bool] = lambda journal: True,
        *,
        to_stop: bool = False,
    ) -> RescaleJournal:
        """Execute the remaining steps of `journal`, and return it at its end."""
        if not journal.in_place:
            journal = journal.model_copy(
                update={"in_place": True, "new_job": journal.old_job or journal.new_job}
            )
        return await super().execute(journal, is_asked_for, to_stop=to_stop)

    async def _start(self, journal: RescaleJournal) -> RescaleJournal:
        """Check that the job can be scaled, before anything is written."""
        if not self._is_asked_for(journal):
            raise WithdrawnError("The StreamApp asks for another deployment now")
        self._in_place.vertices(journal.target)
        await self._retried_until_running(self._in_place.require_running)
        journal = await self._note_flow(journal, FLOW_PERIOD)
        return journal.at(Step.SUBMIT, self._clock.now())

    async def _submit(self, journal: RescaleJournal) -> RescaleJournal:
        """Write the parallelism where the Flink Kubernetes Operator takes it."""
        wanted = await self._wanted(journal)
        if journal.is_back:
            await self._retried(lambda: self._in_place.write(wanted, is_back=True))
        else:
            await self._in_place.checkpoint_first(wanted)
            await self._retried_until_running(lambda: self._in_place.write(wanted))
        return journal.at(Step.VERIFY, self._clock.now())

    async def _retried_until_running(self, call: Callable[[], Awaitable[None]]) -> None:
        """Do something that needs a running job; give the change up if it does not run in time.

        Nothing was written then, and the deployment itself has not failed.
        """
        try:
            await self._retried(call)
        except NotRunningError as error:
            raise WithdrawnError(str(error)) from error

    async def _wanted(self, journal: RescaleJournal) -> Vertices:
        """Return the parallelism that the journal leads to, of a job that runs, or will again."""

        async def found() -> Vertices:
            if self._watch.job is None:  # it was lost from view: its owner may have replaced it
                await self._watch.refresh(whole=True)
            return self._in_place.vertices(journal.wanted)

        return await self._retried(found)

    async def _verify(self, journal: RescaleJournal) -> RescaleJournal:
        """Wait until every vertex runs with its parallelism, and records pass or none wait.

        It may need new TaskManagers.
        """
        wanted = await self._wanted(journal)

        async def runs() -> bool | None:
            if await self._in_place.runs_with(wanted):
                return True
            await self._in_place.restore()  # it may have been restarted just now
            await self._in_place.trigger_rescale(wanted)
            return None

        limit = self._settings.start_deadline + self._settings.submit_deadline
        if await self._until(runs, limit, period=1.0) is None:
            since = journal.created
            raise PermanentError(
                await self._retried(lambda: self._in_place.describe(wanted, since=since))
            )
        await self._retried(lambda: self._watch.refresh(whole=True))
        first: Reading | None = None

        async def read() -> Reading | None:
            nonlocal first
            job = self._watch.job
            reading = None if job is None else await self._jobs.reading(job.id)
            if reading is None or math.isnan(reading.records):
                return reading
            # The job keeps its id, so Flink may still show counts from before the restart.
            first = first or reading
            return reading.since(first)

        end = await self._verify_flow(journal, read)
        if end.step is not Step.DONE:
            return end
        down = await self._in_place.time_down(wanted, since=journal.created)
        return end.model_copy(update={"down_for": down})
