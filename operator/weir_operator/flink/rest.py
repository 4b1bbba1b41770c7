"""Flink's REST interface, limited to one session cluster with one job.

Verified on Flink 2.3.0:

- `jobId` of a submission and `triggerId` of a stop are chosen by the caller, so a request whose
  answer was lost is found again. A second stop under one trigger changes nothing; a second
  submission under one job id is refused as a duplicate, also after that job has ended.
- A stop for a job that Flink does not know is accepted; only the savepoint's status shows that.
- `formatType: NATIVE` is accepted for a stop and reported back by the checkpoint statistics.
- After the JobManager was lost, its jars, jobs and triggers are unknown.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import aiohttp

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.fence import Guard
from weir_operator.flink import answers
from weir_operator.flink.answers import (
    Checkpoints,
    JobDetails,
    JobFailure,
    JobSummary,
    SavepointProgress,
    Subtask,
    TaskManager,
)
from weir_operator.flink.causes import (
    find_misfitting_state,
    find_missing_class,
    root_cause,
)
from weir_operator.flink.scripts import read_failure, read_refusal
from weir_operator.flink.transport import (
    FlinkTransport,
    NotKnownToFlinkError,
    RefusedByFlinkError,
)
from weir_operator.limits import Json

T = TypeVar("T")
U = TypeVar("U")

UPLOAD_LIMIT = 120.0
"""Seconds for a jar of some hundred MB on a busy machine."""
CLAIM_MODE = "NO_CLAIM"
"""Of what a job is restored from: Flink must neither own nor delete what Weir may have to go back
to."""
SUBMIT_LIMIT = 60.0
"""Seconds for a submission: the job's `main` runs inside the request. One that outlives its
controller's term does no harm: the next controller submits under the same id, of which Flink takes
one."""
FAILURES = 16
"""Of a job that are asked for; Flink remembers as many (`web.exception-history-size`)."""
DISPOSAL_PERIOD = 0.1
"""Seconds between two questions after a disposal."""


class FlinkRest:
    """A client of one JobManager; every call has a time limit."""

    def __init__(self, base_url: str, *, timeout: float = 10.0, guard: Guard | None = None) -> None:
        """Prepare a client; the first call connects.

        Args:
            base_url: Such as `http://127.0.0.1:8081`.
            timeout: Seconds for every call but uploads and submissions, which may take longer.
            guard: Asked before each request that changes something.
        """
        self._timeout = timeout
        self._transport = FlinkTransport(base_url, timeout=timeout, guard=guard)
        self._ask = self._transport.ask

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the connections."""
        await self.close()

    async def close(self) -> None:
        """Release the connections."""
        await self._transport.close()

    # -- the cluster ------------------------------------------------------------------------------

    async def version(self, *, timeout: float | None = None) -> str:
        """Return Flink's version; the cheapest proof that the JobManager answers."""
        return await self._ask(
            "GET", "/overview", lambda answer: str(answer["flink-version"]), timeout=timeout
        )

    async def task_managers(self) -> tuple[TaskManager, ...]:
        """Return the TaskManagers that are registered now.

        Raises:
            TemporaryError: The JobManager cannot tell yet: for a moment after its start, it answers
                that its ResourceManager is not to be found.
        """
        try:
            return await self._ask("GET", "/taskmanagers", answers.read_task_managers)
        except NotKnownToFlinkError as error:
            raise TemporaryError(str(error)) from error

    # -- jobs -------------------------------------------------------------------------------------

    async def jobs(self) -> tuple[JobSummary, ...]:
        """Return all jobs that the JobManager remembers, ended ones included."""
        return await self._ask("GET", "/jobs/overview", answers.read_jobs)

    async def job(self, job_id: str) -> JobDetails | None:
        """Return a job with its vertices and edges, `None` where Flink does not know it."""
        return await self._find(f"/jobs/{job_id}", answers.read_job, None)

    async def subtasks(self, job_id: str, vertex_id: str) -> tuple[Subtask, ...]:
        """Return where the subtasks of a vertex run."""
        return await self._ask("GET", f"/jobs/{job_id}/vertices/{vertex_id}", answers.read_subtasks)

    async def metric_sums(
        self, job_id: str, vertex_id: str, endings: Sequence[str]
    ) -> dict[str, float]:
        """Return metrics of the functions in a vertex, summed over its subtasks.

        Args:
            job_id: The job.
            vertex_id: The vertex.
            endings: Names of the metrics, without the function's: `numRecordsIn`.

        Returns:
            Sums by full name, such as `Source__trips.numRecordsIn`; empty where Flink has not
            collected them yet, or no longer has them.
        """
        path = f"/jobs/{job_id}/vertices/{vertex_id}/subtasks/metrics"
        wanted = tuple(f".{ending}" for ending in endings)
        known = await self._find(path, answers.read_metric_names, ())
        ids = ",".join(quote(each, safe="") for each in known if each.endswith(wanted))
        if not ids:
            return {}
        return await self._find(f"{path}?get={ids}&agg=sum", answers.read_metric_sums, {})

    async def task_texts(
        self, job_id: str, vertex_id: str, name: str, subtasks: Iterable[int]
    ) -> tuple[str, ...]:
        """Return a metric that is a text of these subtasks of a vertex.

        It is as old as the last question for any metric of the job, ten seconds at least. Subtasks
        without it are left out, and the answer is empty where Flink has not collected it yet.
        """
        ids = ",".join(f"{subtask}.{quote(name, safe='')}" for subtask in subtasks)
        path = f"/jobs/{job_id}/vertices/{vertex_id}/metrics?get={ids}"
        return await self._find(path, answers.read_texts, ())

    async def root_exception(self, job_id: str) -> str | None:
        """Return the newest reason why the job failed or restarted, one line."""
        path = f"/jobs/{job_id}/exceptions?maxExceptions=1"
        failures = await self._ask("GET", path, answers.read_failures)
        return failures[0].cause if failures else None

    async def failures(self, job_id: str) -> tuple[JobFailure, ...]:
        """Return the failures of the job that Flink remembers, the newest first."""
        path = f"/jobs/{job_id}/exceptions?maxExceptions={FAILURES}"
        return await self._find(path, answers.read_failures, ())

    async def cancel(self, job_id: str) -> None:
        """Ask for cancellation; a job that has ended or is unknown is left alone."""
        try:
            await self._ask(
                "PATCH",
                f"/jobs/{job_id}?mode=cancel",
                _nothing,
                what=f"the cancellation of job {job_id}",
            )
        except NotKnownToFlinkError:
            return
        except RefusedByFlinkError as refusal:
            if "terminal state" not in refusal.trace:
                raise

    # -- jars -------------------------------------------------------------------------------------

    async def upload_jar(self, path: str) -> str:
        """Upload a jar and return the id under which it can be run.

        Raises:
            PermanentError: The file cannot be read.
        """
        try:
            content = await asyncio.to_thread(Path(path).read_bytes)
        except OSError as error:
            raise PermanentError(f"Expected a readable jar at {path}, got: {error}") from error
        form = aiohttp.FormData()
        form.add_field(
            "jarfile",
            io.BytesIO(content),  # bytes of more than 1 MiB would be sent in one go
            filename=Path(path).name,
            content_type="application/x-java-archive",
        )
        stored = await self._ask(
            "POST",
            "/jars/upload",
            lambda answer: str(answer["filename"]),
            form=form,
            timeout=UPLOAD_LIMIT,
            what=f"the upload of {Path(path).name}",
        )
        return stored.rsplit("/", 1)[-1]

    async def jars(self) -> tuple[str, ...]:
        """Return the ids of the jars that the JobManager holds."""
        return await self._ask(
            "GET", "/jars", lambda answer: tuple(str(jar["id"]) for jar in answer["files"])
        )

    async def delete_jar(self, jar_id: str) -> None:
        """Delete an uploaded jar; an unknown one is already gone."""
        # Flink answers 400 for a jar that it does not have, so look first.
        if jar_id in await self.jars():
            await self._ask("DELETE", f"/jars/{quote(jar_id)}", _nothing)

    async def run_jar(
        self,
        jar_id: str,
        *,
        job_id: str,
        entry_class: str | None = None,
        arguments: Sequence[str] = (),
        parallelism: int | None = None,
        savepoint_path: str | None = None,
        configuration: Mapping[str, str] | None = None,
    ) -> None:
        """Submit a job under an id of the caller's; a second submission changes nothing.

        Args:
            jar_id: As `upload_jar` returned it.
            job_id: 32 hexadecimal digits.
            entry_class: `None` takes the class that the jar's manifest names.
            arguments: Program arguments, one per element.
            parallelism: Default parallelism; `None` takes the cluster's.
            savepoint_path: Savepoint or retained checkpoint to start from. State that no operator
                takes is an error, never dropped.
            configuration: Keys of the job's configuration, above the cluster's.

        Raises:
            PermanentError: The program or its savepoint is at fault.
            TemporaryError: No answer in time; the job may have been started all the same. Or a
                catalog of a SQL script does not answer.
        """
        body = _program(entry_class, arguments, parallelism, configuration)
        body |= {"jobId": job_id, "allowNonRestoredState": False}
        if savepoint_path is not None:
            body |= {"savepointPath": savepoint_path, "claimMode": CLAIM_MODE}
        try:
            await self._ask(
                "POST",
                f"/jars/{quote(jar_id)}/run",
                _nothing,
                body=body,
                timeout=SUBMIT_LIMIT,
                what=f"the submission of job {job_id}",
            )
        except RefusedByFlinkError as refusal:
            failure = read_failure(refusal.trace)
            if failure is not None:
                raise TemporaryError(failure) from refusal
            if not _is_duplicate(refusal.trace):
                sentence = _describe_why_it_does_not_run(refusal.trace, entry_class, savepoint_path)
                raise RefusedByFlinkError(sentence, refusal.trace) from refusal

    async def plan_jar(
        self,
        jar_id: str,
        *,
        entry_class: str,
        arguments: Sequence[str],
        parallelism: int | None = None,
        configuration: Mapping[str, str] | None = None,
    ) -> None:
        """Run a program's `main` in the JobManager for its plan; no job is submitted.

        Raises:
            RefusedByFlinkError: The program ended with an exception; `trace` has it.
            TemporaryError: No answer in time.
        """
        body = _program(entry_class, arguments, parallelism, configuration)
        await self._ask(
            "POST", f"/jars/{quote(jar_id)}/plan", _nothing, body=body, timeout=SUBMIT_LIMIT
        )

    # -- savepoints and checkpoints ---------------------------------------------------------------

    async def stop_with_savepoint(self, job_id: str, *, trigger_id: str) -> None:
        """Ask for a stop with a savepoint in native format; a second call changes nothing.

        Args:
            job_id: The job.
            trigger_id: 32 hexadecimal digits, under which `savepoint_status` answers.
        """
        body: dict[str, Json] = {"triggerId": trigger_id, "drain": False, "formatType": "NATIVE"}
        await self._ask(
            "POST",
            f"/jobs/{job_id}/stop",
            _nothing,
            body=body,
            what=f"the stop of job {job_id} with a savepoint",
        )

    async def savepoint_status(self, job_id: str, trigger_id: str) -> SavepointProgress | None:
        """Return the state of a savepoint, `None` if Flink does not know the trigger."""
        path = f"/jobs/{job_id}/savepoints/{trigger_id}"
        return await self._find(path, answers.read_savepoint, None)

    async def checkpoints(self, job_id: str) -> Checkpoints | None:
        """Return the job's checkpoints, `None` where Flink does not know the job."""
        return await self._find(f"/jobs/{job_id}/checkpoints", answers.read_checkpoints, None)

    async def _find(self, path: str, read: Callable[[Json], T], otherwise: U) -> T | U:
        try:
            return await self._ask("GET", path, read)
        except NotKnownToFlinkError:
            return otherwise

    async def dispose_savepoint(self, path: str) -> None:
        """Delete a savepoint and wait until it is gone; a missing one is already gone.

        Raises:
            PermanentError: Flink could not delete it, for the reason given.
            TemporaryError: It took longer than the client's time limit.
        """
        trigger = await self._ask(
            "POST",
            "/savepoint-disposal",
            lambda answer: str(answer["request-id"]),
            body={"savepoint-path": path},
            what=f"the deletion of savepoint {path}",
        )
        asked = f"/savepoint-disposal/{trigger}"
        try:
            async with asyncio.timeout(self._timeout):
                while (
                    progress := await self._ask("GET", asked, answers.read_disposal)
                ).in_progress:
                    await asyncio.sleep(DISPOSAL_PERIOD)
        except TimeoutError as error:
            raise TemporaryError(
                f"Flink did not delete savepoint {path} within {self._timeout:g} s"
            ) from error
        if progress.failure is not None and "FileNotFoundException" not in progress.failure:
            raise PermanentError(f"Flink cannot delete savepoint {path}: {progress.failure}")


def _program(
    entry_class: str | None,
    arguments: Sequence[str],
    parallelism: int | None,
    configuration: Mapping[str, str] | None,
) -> dict[str, Json]:
    body: dict[str, Json] = {"programArgsList": list(arguments)}
    if entry_class is not None:
        body["entryClass"] = entry_class
    if parallelism is not None:
        body["parallelism"] = parallelism
    if configuration:
        body["flinkConfiguration"] = dict(configuration)
    return body


def _nothing(answer: Json) -> None:
    """Take an answer that says nothing but that the request was accepted."""


def _describe_why_it_does_not_run(
    trace: str, entry_class: str | None, savepoint_path: str | None
) -> str:
    refusal = read_refusal(trace)
    if refusal is not None:
        return refusal
    missing = find_missing_class(trace, entry_class)
    if missing is not None:
        return missing
    misfit = find_misfitting_state(trace)
    if misfit is not None and savepoint_path is not None:
        return (
            f"spec.flink.job: the state of the last run ({savepoint_path}) does not fit this "
            f"program: {misfit}; start without that state: weir local --fresh, or on a cluster "
            "initialSavepoint: null and another restoreNonce"
        )
    if "Main-Class" in trace and "program-class" in trace:
        return (
            "spec.flink.job.entryClass: expected the class whose main to run, got "
            "nothing, and the jar's manifest names none; add it"
        )
    return (
        "spec.flink.job: expected a program that submits its job, got "
        f"{root_cause(trace)}; correct the program, its args, or its initial state"
    )


def _is_duplicate(trace: str) -> bool:
    return "DuplicateApplicationSubmissionException" in trace or (
        "DuplicateJobSubmissionException" in trace
    )
