"""What Weir adds to the CPU that a record takes: one job on a plain Flink and under Weir.

The job reads JSON, matches a pattern and keeps a count per key, as fast as it can
(`jobs/CountVisits.java`). It runs at a parallelism of one on one TaskManager of Flink's default
size: as Flink's own scripts would start it, and as `weir local` does, measured by its controller
all the while. What a user sets is the same on both sides. A third way has the two halves of the job
pinned, so that every record goes from one process to another. A fourth is a plain Flink with Weir's
agent, which pins the job, unmodified, as one operator and measures every task, and with nothing
else of Weir: what the agent itself takes.

Counted is the CPU of the TaskManagers, the compilers' threads left out, and beside it that of the
JobManager. The two of a pair run at the same time and are counted over the same time, from when
both have taken `WARM` records and have their code compiled, until both have taken `RECORDS` more:
what else the machine does slows both down alike. From pair to pair, they take turns to start first.
On a busy machine, the ratio varies by a tenth and more, although a pair shares the machine. So the
median over `CPU_PAIRS` (5) pairs decides nothing by itself: a goal counts as reached or missed only
where the 95 % confidence interval of the mean ratio (Student's t, on logarithms) lies on one side
of it. Beside it stand the ratio of the tasks' threads alone, without timers and collectors, and
that of the minima of both sides: other work only adds to them.

`CPU_WAYS` selects ways, `whole`, `pinned` and `agent`, separated by commas.

With `CPU_RATE` (such as 10000), the job takes so many records/s instead, and reads each record's
JSON `REPEATS` times: some 80 us of CPU at 10,000 records/s, so that a core is well used. Then the
goal is 1 %, because what the agent does per record is spread over a record's real work.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import signal
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import yaml
from scipy.stats import t as student

from benchmarks.choices import choose_count, choose_some
from benchmarks.figures import Figure
from benchmarks.flink.plain_flink import TASK_MANAGER, PlainFlink
from benchmarks.rows import RESULTS, write_outcomes
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.agent import build_agent
from weir_operator.flink.jars import HELPER, JARS, REPOSITORY, build_jar
from weir_operator.flink.programs import read_plan
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.local import processes

ABOUT = "CPU per record of a plain job under Weir, beside a plain Flink"
DURATION = "12 min"

FOLDER = RESULTS / "cpu-per-record"
WARM = 1_000_000
RECORDS = 2_000_000
MEMORY = 1728
"""MiB of a TaskManager's process: Flink's default."""
FEWEST = 3
"""Pairs without which no goal is judged: on a busy machine, one may be a tenth off."""
CONFIDENCE = 0.95
LIMITS = 1.03, 1.01
"""Goals of the ratio: as fast as the job can, and at a fixed rate."""
REPEATS = 100
"""Times that a record's JSON is read at a fixed rate."""
WARM_FOR, COUNTED_FOR = 40, 60
"""Seconds' worth of records at a fixed rate, instead of `WARM` and `RECORDS`."""
JOB = "1" * 32
OPERATOR = "job"
"""Of the job that the agent pins as one."""
OFFERED = {
    TASK_MANAGER: {
        "external-resources": f"op-{OPERATOR}",
        f"external-resource.op-{OPERATOR}.amount": "1",
    }
}
"""What the TaskManager of the agent's Flink has beside a plain one's, as Weir's have."""
USER: Mapping[str, str] = {"execution.checkpointing.interval": "10 s"}
"""What a user of either sets."""
LIMIT = 600.0
"""Seconds for both jobs to take so many records, or for their code to be compiled."""
QUIET, QUIET_FOR = 0.05, 5.0
"""The code counts as compiled where compilers took no more of the rest over so many seconds."""
COMPILERS = ("C1 Compiler", "C2 Compiler")
TASKS = ("Source: Sequenc", "KeyedProcess ->")
"""Beginnings of the names of threads, of which the kernel keeps 15 characters."""
PLAIN, WHOLE, PINNED, AGENT = (
    "a plain Flink",
    "under Weir",
    "under Weir, pinned",
    "with Weir's agent",
)
WAYS = {"whole": WHOLE, "pinned": PINNED, "agent": AGENT}


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """How many records the job takes."""

    rate: int = 0
    """Records/s; 0 for as many as it can."""

    @property
    def warm(self) -> int:
        """Records before anything is counted."""
        return self.rate * WARM_FOR or WARM

    @property
    def counted(self) -> int:
        """Records over which CPU is counted."""
        return self.rate * COUNTED_FOR or RECORDS

    def arguments(self, counter: Path) -> list[str]:
        """Return the job's arguments."""
        fixed = ["--rate", str(self.rate), "--repeat", str(REPEATS)] if self.rate else []
        return ["--counter", str(counter), *fixed]


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """A run: microseconds of CPU per record."""

    way: str
    task_managers: float
    tasks: float
    """Of the TaskManagers': by the threads that run the job's tasks."""
    others: float
    """CPU of the TaskManagers' other threads, in cores: it hardly grows with the records."""
    job_manager: float
    rate: float
    """Records/s, of half a machine."""
    load: float
    """Processes that wanted the machine's processors, mean over the last minute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What a job and its processes have done so far; CPU in seconds."""

    time: float
    records: int
    task_managers: float
    """All threads but the compilers."""
    tasks: float
    """Of those, the threads that run the job's tasks."""
    job_manager: float
    compilers: float
    """Threads of the TaskManagers that compile."""


def run() -> list[Figure]:
    """Run all pairs."""
    pairs = choose_count("CPU_PAIRS", 5)
    ways, load = _chosen_ways(), Load(rate=chosen_rate())
    jar = build_jar(
        [
            HELPER,
            REPOSITORY / "examples/trips/Draws.java",
            REPOSITORY / "benchmarks/jobs/CountVisits.java",
        ],
        JARS / "visits.jar",
        entry_class="example.CountVisits",
    )
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    spent: list[tuple[Spent, Spent]] = []
    for key in ways:
        for number in range(pairs):
            spent.append(asyncio.run(_measure(WAYS[key], jar, f"{key}-{number}", number, load)))
            write_outcomes("cpu-per-record", [asdict(each) for pair in spent for each in pair])
    limit = LIMITS[load.rate > 0]
    return [figure for key in ways for figure in figures_of(WAYS[key], spent, limit=limit)]


def result_name() -> str:
    """Return the name of the result: the agent by itself, and a fixed rate, have their own."""
    name = "cpu-of-agent" if _chosen_ways() == ["agent"] else "cpu-per-record"
    return f"{name}-at-{chosen_rate()}" if chosen_rate() else name


def chosen_rate() -> int:
    """Return the records/s that the caller chose; 0 for as many as the job can take."""
    return choose_count("CPU_RATE", 1) if "CPU_RATE" in os.environ else 0


def _chosen_ways() -> list[str]:
    return choose_some("CPU_WAYS", tuple(WAYS))


def figures_of(
    way: str, pairs: Sequence[tuple[Spent, Spent]], *, limit: float = LIMITS[0]
) -> list[Figure]:
    """Return the figures of all pairs of this way and a plain Flink.

    Args:
        way: The other side of the pairs that count; pairs of other ways are left out.
        pairs: A plain Flink's run and the other.
        limit: What the ratio is held to.
    """
    mine = [(plain, other) for plain, other in pairs if other.way == way]
    judged = limit if way != PINNED and len(mine) >= FEWEST else None
    return [
        *_ratios(f"CPU of TaskManagers {way}, of a plain Flink's", mine, "task_managers", judged),
        *_ratios(f"CPU of their tasks {way}, of a plain Flink's", mine, "tasks", None),
        *(
            Figure(
                figure=f"{each.way}, beside {way}: CPU per record of {what}",
                value=statistics.median(getattr(pair[place], name) for pair in mine),
                unit="us",
            )
            for place, each in enumerate(mine[0])
            for what, name in (
                ("TaskManagers", "task_managers"),
                ("their tasks", "tasks"),
                ("the JobManager", "job_manager"),
            )
        ),
        *(
            Figure(
                figure=f"{each.way}, beside {way}: CPU of TaskManagers apart from tasks",
                value=statistics.median(pair[place].others for pair in mine),
                unit="cores",
            )
            for place, each in enumerate(mine[0])
        ),
        Figure(
            figure=f"{way}: load average beside it, median",
            value=statistics.median(other.load for _, other in mine),
            unit="",
        ),
    ]


def _ratios(
    name: str, pairs: Sequence[tuple[Spent, Spent]], field: str, limit: float | None
) -> list[Figure]:
    """Return what the pairs say of the ratio of a field; a verdict where the pairs allow one."""
    plain, other = ([float(getattr(pair[place], field)) for pair in pairs] for place in (0, 1))
    ratios = [ours / theirs for theirs, ours in zip(plain, other, strict=True)]
    low, high = interval_of(ratios)
    holds = None
    if limit is not None and low is not None and high is not None:
        holds = True if high <= limit else False if low > limit else None
    values = {
        "pairs": len(ratios),
        f"{CONFIDENCE:.0%} interval of the mean, from": low,
        f"{CONFIDENCE:.0%} interval of the mean, to": high,
        "min": min(ratios),
        "max": max(ratios),
        "minimum of one side, of the other's": min(other) / min(plain),
    }
    return [
        Figure(
            figure=f"{name}: median",
            value=statistics.median(ratios),
            unit="",
            goal=None if limit is None else f"at most {limit:g}, with {CONFIDENCE:.0%} confidence",
            holds=holds,
        ),
        *(Figure(figure=f"{name}: {what}", value=value, unit="") for what, value in values.items()),
    ]


def interval_of(ratios: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the confidence interval of the geometric mean; `None` for fewer than two ratios."""
    if len(ratios) < 2:
        return None, None
    logarithms = [math.log(each) for each in ratios]
    middle = statistics.fmean(logarithms)
    error = statistics.stdev(logarithms) / math.sqrt(len(ratios))
    reach = float(student.ppf((1 + CONFIDENCE) / 2, len(ratios) - 1)) * error
    return math.exp(middle - reach), math.exp(middle + reach)


async def _measure(way: str, jar: Path, name: str, number: int, load: Load) -> tuple[Spent, Spent]:
    """Run a plain Flink and another way at the same time."""
    clock = SystemClock()
    plain, other = FOLDER / f"plain-{name}", FOLDER / f"state/default.{name}"
    plain.mkdir()
    if way == AGENT:
        other.mkdir(parents=True)
    counters = {plain: FOLDER / f"{name}.plain", other: FOLDER / f"{name}.weir"}

    async def until(condition: Callable[[], bool]) -> None:
        async def look() -> bool | None:
            return condition() or None

        if not await wait_until(look, clock=clock, timeout=LIMIT):
            raise RuntimeError(f"Expected the jobs to go on within {LIMIT:g} s; see {FOLDER}")

    def have_taken(records: Mapping[Path, int]) -> bool:
        return all(_records(counters[place]) >= minimum for place, minimum in records.items())

    def look_at(place: Path) -> Look:
        return _look(place, counters[place], clock.now())

    async with AsyncExitStack() as stack:
        # The job that runs first would be in the way of processes that start.
        flink = await stack.enter_async_context(PlainFlink(folder=plain, memory=MEMORY, user=USER))
        client = await stack.enter_async_context(FlinkRest(flink.url))
        uploaded = await client.upload_jar(str(jar))
        counting = load.arguments(counters[plain])
        if way == AGENT:
            pinned = PlainFlink(
                folder=other, memory=MEMORY, user=USER, agent=build_agent(), more=OFFERED
            )
            agents = await stack.enter_async_context(pinned)
            beside = await stack.enter_async_context(FlinkRest(agents.url))
            arguments = load.arguments(counters[other])
            submit_other = await _prepare_pinned(beside, jar, arguments)
            if number % 2:
                await client.run_jar(uploaded, job_id=JOB, arguments=counting)
                await submit_other()
            else:
                await submit_other()
                await client.run_jar(uploaded, job_id=JOB, arguments=counting)
        else:
            app = manifest(name, jar, load.arguments(counters[other]), pinned=way == PINNED)
            await stack.enter_async_context(_run_under_weir(name, app))
            await until(lambda: have_taken({other: 1}))
            await client.run_jar(uploaded, job_id=JOB, arguments=counting)
        await until(lambda: have_taken({plain: load.warm, other: load.warm}))
        warming = clock.now() + LIMIT
        while True:
            before = {place: look_at(place) for place in counters}
            await clock.sleep(QUIET_FOR)
            begun = {place: look_at(place) for place in counters}
            if all(_is_compiled(before[place], begun[place]) for place in counters):
                break
            if clock.now() > warming:
                raise RuntimeError(f"Expected compiled code within {LIMIT:g} s; see {FOLDER}")
        await until(
            lambda: have_taken(
                {place: look.records + load.counted for place, look in begun.items()}
            )
        )
        ended = {place: look_at(place) for place in counters}
    return _spent(PLAIN, begun[plain], ended[plain]), _spent(way, begun[other], ended[other])


async def _prepare_pinned(
    rest: FlinkRest, jar: Path, arguments: Sequence[str]
) -> Callable[[], Awaitable[None]]:
    """Return what submits the job with all its vertices pinned as one operator.

    Raises:
        RuntimeError: The agent cannot pin it, or TaskManagers offer it nothing.
    """
    uploaded = await rest.upload_jar(str(jar))
    settings = {"weir.pin": "true", "parallelism.default": "1"}
    plan = await read_plan(
        rest, uploaded, entry_class=None, arguments=arguments, configuration=settings
    )
    offers = [each.managed_memory for each in await rest.task_managers()]
    if plan.agent != "ready" or not offers:
        raise RuntimeError(f"Expected an agent that pins the job, got {plan.agent!r}")
    pins = {
        f"weir.vertices.{OPERATOR}": " ".join(plan.operators),
        f"weir.parallelism.{OPERATOR}": "1",
        f"weir.managed-memory.{OPERATOR}": f"{min(offers)}m",
    }
    return partial(
        rest.run_jar, uploaded, job_id=JOB, arguments=arguments, configuration=settings | pins
    )


def _spent(way: str, begun: Look, ended: Look) -> Spent:
    records, seconds = ended.records - begun.records, ended.time - begun.time
    whole, tasks = ended.task_managers - begun.task_managers, ended.tasks - begun.tasks
    return Spent(
        way=way,
        task_managers=whole / records * 1e6,
        tasks=tasks / records * 1e6,
        others=(whole - tasks) / seconds,
        job_manager=(ended.job_manager - begun.job_manager) / records * 1e6,
        rate=records / seconds,
        load=os.getloadavg()[0],
    )


def _is_compiled(before: Look, now: Look) -> bool:
    """Return whether the compilers of the TaskManagers have next to nothing to do."""
    work = now.task_managers - before.task_managers
    return now.compilers - before.compilers <= QUIET * work


@asynccontextmanager
async def _run_under_weir(name: str, app: Mapping[str, Any]) -> AsyncIterator[None]:
    """Run a StreamApp by `weir local` until the block is left."""
    file = FOLDER / f"{name}.yaml"
    file.write_text(yaml.safe_dump(dict(app)))
    with file.with_suffix(".jsonl").open("w") as told:
        weir = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "weir_cli.main", "local", str(file)),
            *("--json", "--state", str(FOLDER / "state"), "--duration", "1h"),
            stdout=told,
            cwd=REPOSITORY,
        )
        try:
            yield
        finally:
            if weir.returncode is None:
                weir.send_signal(signal.SIGINT)
            await weir.wait()


def manifest(name: str, jar: Path, arguments: Sequence[str], *, pinned: bool) -> dict[str, Any]:
    """Return the StreamApp: measured and decided on, and never changed."""
    one = {"any/2": 1}
    pins = ["--pinned", "true"] if pinned else []
    operators = [{"name": name, "fixed": one} for name in ("parse", "count")]
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name},
        "spec": {
            "flink": {
                "job": {"jar": str(jar), "args": [*arguments, *pins]},
                "config": dict(USER),
            },
            "objective": {"responseTime": "1s"},
            # As many cores as the machine has: what the JVM chooses by them is then the same.
            "nodePools": [{"name": "any", "sizes": ["2"], "memory": f"{MEMORY}Mi"}],
            "operatorManager": {"interval": "10s", "policy": {"name": "hold"}},
            **({"operators": operators} if pinned else {}),
        },
    }


def _records(counter: Path) -> int:
    """Return how many records a job has taken; 0 before it runs."""
    return int.from_bytes(counter.read_bytes(), "big") if counter.exists() else 0


def _look(folder: Path, counter: Path, now: float) -> Look:
    """Return what a job's processes, whose configuration lies in this folder, have done so far."""
    task_managers = tasks = job_manager = compilers = 0.0
    for place, identity in processes.find_under(folder).items():
        for name, seconds in cpu_of_threads(identity.pid):
            if {"jm", "jobmanager"} & set(place.relative_to(folder).parts):
                job_manager += seconds
            elif name.startswith(COMPILERS):
                compilers += seconds
            else:
                task_managers += seconds
                tasks += seconds * name.startswith(TASKS)
    return Look(
        time=now,
        records=_records(counter),
        task_managers=task_managers,
        tasks=tasks,
        job_manager=job_manager,
        compilers=compilers,
    )


def cpu_of_threads(pid: int) -> Iterator[tuple[str, float]]:
    """Yield the name of every thread of a process and the CPU seconds that it has taken."""
    for thread in psutil.Process(pid).threads():
        try:
            name = Path(f"/proc/{pid}/task/{thread.id}/comm").read_text().strip()
        except FileNotFoundError:
            continue  # it has ended meanwhile
        yield name, thread.user_time + thread.system_time
