"""Whether Flink's own rescale in place keeps the pins of operators to TaskManagers, and its gap.

The example job trips on a Flink with the adaptive scheduler, six TaskManagers with one slot each,
of which each states its operator's external resource, and one more of `match`. The parallelism of
`match` goes from 2 to 1 and back by `PUT /jobs/:id/resource-requirements`, the job starts again
from its newest checkpoint, and after each change every task is looked for on a TaskManager of its
operator. Flink's periods of waiting are 0, and checkpoints are taken every second.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.flink.ledger import longest_gap, read_arrivals
from benchmarks.flink.plain_flink import TASK_MANAGER, PlainFlink
from benchmarks.flink.trips_cluster import BUILD
from weir_operator.clock import SystemClock, wait_until
from weir_operator.external.flink import ScaledFlink
from weir_operator.flink.answers import JobDetails
from weir_operator.flink.jars import REPOSITORY
from weir_operator.flink.rest import FlinkRest
from weir_operator.rescale.journal import new_id

ABOUT = "whether Flink's adaptive scheduler keeps operators on their TaskManagers, and its gap"
DURATION = "2 min"

TASK_MANAGERS = ("source", "match", "match", "aggregate", "aggregate", "sink", "match")
"""The operator of each, the last one to spare."""
PARALLELISM: Mapping[str, int] = {"source": 1, "match": 2, "aggregate": 2, "sink": 1}
CHANGES = 4
"""Of each job."""
STARTS = 2
"""Jobs that are started, each anew, because placement is luck."""
FLOWS = 2.5
"""Seconds between two changes, in which records flow."""
LIMIT = 60.0
_ADAPTIVE = "jobmanager.adaptive-scheduler."
USER: Mapping[str, str] = {
    "jobmanager.scheduler": "adaptive",
    f"{_ADAPTIVE}executing.cooldown-after-rescaling": "0 ms",
    f"{_ADAPTIVE}executing.resource-stabilization-timeout": "0 ms",
    f"{_ADAPTIVE}submission.resource-stabilization-timeout": "0 ms",
    "web.refresh-interval": "100 ms",
    "taskmanager.memory.managed.size": "0m",
    "env.java.opts.all": "-XX:TieredStopAtLevel=1",
}


def run() -> list[Figure]:
    """Start jobs, change their parallelism in place, and look where their tasks are."""
    return asyncio.run(_run())


async def _run() -> list[Figure]:
    folder = BUILD / "rescale-in-place"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    trace = folder / "trace.txt"
    trace.write_text("40\n")
    names = [TASK_MANAGER, *(f"{TASK_MANAGER}-{n}" for n in range(2, len(TASK_MANAGERS) + 1))]
    of = {f"tm-{number}": operator for number, operator in enumerate(TASK_MANAGERS)}
    pins = {name: _pin(each, of[each]) for name, each in zip(names, of, strict=True)}
    user = {**USER, "execution.checkpointing.dir": (folder / "checkpoints").as_uri()}
    wrong, tasks, again = 0, 0, 0
    gaps: list[float] = []
    flink = PlainFlink(
        folder=folder / "flink", memory=1024, count=len(TASK_MANAGERS), user=user, more=pins
    )
    async with flink, ScaledFlink(flink.url) as rest:
        jar = await rest.upload_jar(str(REPOSITORY / "build/jars/trips.jar"))
        for number in range(STARTS):
            job, out, spans = new_id(), folder / f"out-{number}", list[tuple[float, float]]()
            out.mkdir()
            await rest.run_jar(
                jar,
                job_id=job,
                entry_class="example.Trips",
                arguments=_arguments(trace, out),
            )
            await _until(rest, job, PARALLELISM)
            for turn in range(CHANGES):
                await asyncio.sleep(FLOWS)
                wanted = {**PARALLELISM, "match": 2 if turn % 2 else 1}
                began = time.time()
                await rest.require(job, await _by_vertex(rest, job, wanted))
                await _until(rest, job, wanted)
                spans.append((began, time.time()))
                placed = await _placed(rest, job, of)
                tasks += len(placed)
                wrong += sum(operator != place for operator, place in placed)
            await asyncio.sleep(FLOWS)
            await rest.cancel(job)
            await _ended(rest, job)
            arrivals = read_arrivals(out)
            gaps += [longest_gap(arrivals, began, end + 1.0) for began, end in spans]
            again += len(arrivals) - len({arrival.id for arrival in arrivals})
    return [
        Figure(figure="changes in place", value=len(gaps), unit=""),
        Figure(figure="tasks looked for", value=tasks, unit=""),
        Figure(
            figure="tasks that ran on a TaskManager of another operator",
            value=wrong,
            unit="",
            goal="exactly 0, or pins are not kept",
            holds=wrong == 0,
        ),
        Figure(figure="output gap in place, median", value=statistics.median(gaps), unit="s"),
        Figure(figure="output gap in place, longest", value=max(gaps), unit="s"),
        Figure(figure="records that the sink saw again", value=again, unit="records"),
    ]


def _pin(name: str, operator: str) -> dict[str, str]:
    resource = f"op-{operator}"
    return {
        "taskmanager.resource-id": name,
        "external-resources": resource,
        f"external-resource.{resource}.amount": "1",
    }


def _arguments(trace: Path, out: Path) -> list[str]:
    sizes = [
        word
        for name, size in PARALLELISM.items()
        for word in (f"--weir.parallelism.{name}", f"{size}")
    ]
    return [
        *("--trace", str(trace), "--at-end", "hold", "--out", str(out)),
        *("--service.match-ms", "10", "--service.aggregate-ms", "10", "--checkpoint-seconds", "1"),
        *("--weir.maxParallelism", "720", *sizes),
    ]


async def _details(rest: FlinkRest, job: str) -> JobDetails:
    details = await rest.job(job)
    if details is None:
        raise RuntimeError(f"Expected Flink to know job {job}")
    return details


async def _by_vertex(rest: FlinkRest, job: str, wanted: Mapping[str, int]) -> dict[str, int]:
    details = await _details(rest, job)
    return {vertex.id: wanted[_operator(vertex.name)] for vertex in details.vertices}


async def _placed(rest: FlinkRest, job: str, of: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the operator of every task, and of the TaskManager on which it runs."""
    details = await _details(rest, job)
    return [
        (_operator(vertex.name), of[subtask.task_manager])
        for vertex in details.vertices
        for subtask in await rest.subtasks(job, vertex.id)
        if subtask.task_manager is not None
    ]


async def _until(rest: FlinkRest, job: str, wanted: Mapping[str, int]) -> None:
    async def runs() -> bool | None:
        details = await rest.job(job)
        if details is None or not details.runs:
            return None
        sizes = {_operator(vertex.name): vertex.parallelism for vertex in details.vertices}
        return sizes == wanted or None

    await _wait(runs, f"job {job} to run with {wanted}")


async def _ended(rest: FlinkRest, job: str) -> None:
    async def over() -> bool | None:
        details = await rest.job(job)
        return details is None or details.state.is_over or None

    await _wait(over, f"job {job} to end")


async def _wait(probe: Callable[[], Awaitable[bool | None]], what: str) -> None:
    if await wait_until(probe, clock=SystemClock(), timeout=LIMIT, period=0.05) is None:
        raise RuntimeError(f"Expected {what} within {LIMIT:g} s")


def _operator(vertex: str) -> str:
    return vertex.removeprefix("Source: ")
