"""Jobs that know nothing of Weir, pinned and measured by its agent on real Flink.

Those with the mark `both_ends` also run on the oldest Flink that Weir knows. `make versions` runs
all on other versions than Weir's own, named by WEIR_FLINK_HOME.
"""

import os
import re
import subprocess
import uuid
import zipfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import numpy as np
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from tests.operator.flink.output import committed_lines
from tests.operator.runtime.waiting import until
from weir_operator.errors import TemporaryError
from weir_operator.flink.agent import DEFAULT_PARALLELISM, KEY_COUNTS, build_agent
from weir_operator.flink.agent import JAR as AGENT
from weir_operator.flink.answers import JobState
from weir_operator.flink.jars import JARS, REPOSITORY, build_jar, build_programs, flink_home
from weir_operator.flink.programs import JAR, Program, read_plan
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.scripts import SQL
from weir_operator.flink.topology import Topology, discover
from weir_operator.metrics.keys import MOST_KEYS, read_keys
from weir_operator.runtime.processes.runtime import LocalRuntime
from weir_operator.runtime.protocol import ReplicaSpec
from weir_operator.runtime.registration import registered
from weir_policies.model.keys import KeyShares, shares_of_groups

pytestmark = [pytest.mark.flink, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
RECORDS = 15_000
SLOW, FAST = 150, 1000
"""Records/s: a job must not end before it was rescaled, and need not take long after that."""
DUE = "due AS TO_TIMESTAMP_LTZ(id * 10, 3), WATERMARK FOR due AS due"
"""Event time: at the end of a source, Flink drops open windows of processing time."""
CHOSEN = os.environ.get("WEIR_FLINK_HOME")
OLDEST = "1.20.5"


def pytest_generate_tests(metafunc):
    both = metafunc.definition.get_closest_marker("both_ends") and not CHOSEN
    versions = [pytest.param(None, id="chosen")]
    if both:
        versions.append(pytest.param(OLDEST, id=OLDEST, marks=pytest.mark.long))
    metafunc.parametrize("flink", versions, indirect=True)


@pytest.fixture(scope="module", autouse=True)
def flink(request):
    """The Flink that runs the jobs; Weir's own jars are made for the installed one."""
    if not CHOSEN:
        build_programs()
    build_agent()
    with pytest.MonkeyPatch.context() as patch:
        if request.param is not None:
            subprocess.run(
                ["scripts/flink", request.param], cwd=REPOSITORY, check=True, timeout=600
            )
            patch.setenv("WEIR_FLINK_HOME", str(REPOSITORY / "build/flink" / request.param))
        yield


@pytest.fixture(scope="module")
def agent(flink):
    return JARS / AGENT


@pytest.fixture(scope="module")
def readings_jar(flink, tmp_path_factory):
    jar = tmp_path_factory.mktemp("jars") / "readings.jar"
    return build_jar([HERE / "Readings.java"], jar, entry_class="Readings")


@pytest.fixture(scope="module")
def example_jar(flink):
    """Flink's own example, as its authors published it."""
    [dist] = (flink_home() / "lib").glob("flink-dist-*.jar")
    # Not every release has its examples in Maven Central.
    version = "1.20.0" if dist.name.startswith("flink-dist-1.") else "2.3.0"
    folder = REPOSITORY / "build/downloads"
    jar = folder / f"flink-examples-streaming-{version}-TopSpeedWindowing.jar"
    if not jar.exists():
        artifact = f"org.apache.flink:flink-examples-streaming:{version}:jar:TopSpeedWindowing"
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
        subprocess.run([*command, f"-DoutputDirectory={folder}"], check=True, timeout=300)
    return jar


@dataclass
class Cluster:
    """A session cluster, and one job in it that is started again and again."""

    runtime: LocalRuntime
    rest: FlinkRest
    jar: str
    arguments: tuple[str, ...]
    entry_class: str | None = None
    job: str = ""
    restored_from: str | None = None

    def configuration(self, sizes):
        return {
            "weir.pin": "true",
            "parallelism.default": str(DEFAULT_PARALLELISM),
            **{f"weir.parallelism.{name}": str(n) for name, n in sizes.items()},
            **{f"weir.managed-memory.{name}": "32m" for name in sizes},
        }

    async def plan(self, sizes=None):
        return await read_plan(
            self.rest,
            self.jar,
            Program(
                entry_class=self.entry_class,
                arguments=self.arguments,
                configuration=self.configuration(sizes or {}),
            ),
        )

    async def provide(self, most):
        specs = [
            ReplicaSpec(operator=name, pool="large", size="1")
            for name, n in most.items()
            for _ in range(n)
        ]
        await self.runtime.start(specs)
        operators = await self.operators()

        async def joined():
            try:
                return len(await registered(self.rest, operators)) == len(specs)
            except TemporaryError:
                return False

        await until(joined)

    async def operators(self):
        return {each.id: each.operator for each in await self.runtime.replicas()}

    async def submit(self, sizes):
        self.job = uuid.uuid4().hex
        await self.rest.run_jar(
            self.jar,
            job_id=self.job,
            entry_class=self.entry_class,
            arguments=self.arguments,
            savepoint_path=self.restored_from,
            configuration=self.configuration(sizes),
        )

    async def run(self, sizes) -> Topology:
        """Submit the job, from the last savepoint if there is one, and wait until it runs."""
        await self.submit(sizes)

        async def runs():
            job = await self.rest.job(self.job)
            if job is not None and job.state is JobState.FAILED:
                pytest.fail(str(await self.rest.root_exception(self.job)))
            return job is not None and job.runs

        await until(runs)
        return await discover(self.rest, self.job, await self.operators())

    async def stop(self):
        trigger = uuid.uuid4().hex
        await self.rest.stop_with_savepoint(self.job, trigger_id=trigger)

        async def stopped():
            found = await self.rest.savepoint_status(self.job, trigger)
            assert found is None or found.failure is None, found
            return found is not None and found.path

        self.restored_from = await until(stopped)
        await self.ended()

    async def ended(self, state=JobState.FINISHED):
        async def over():
            job = await self.rest.job(self.job)
            return job is not None and job.state is state

        await until(over)

    async def gauges(self, operator):
        """Return the newest values of the agent's gauges, summed over an operator's tasks."""
        found: dict[str, float] = {}
        async with aiohttp.ClientSession() as session:
            for replica in await self.runtime.replicas():
                if replica.operator != operator:
                    continue
                async with session.get(f"{replica.metrics_url}/metrics") as answer:
                    page = await answer.text()
                for family in text_string_to_metric_families(page):
                    for sample in family.samples:
                        _, mark, name = sample.name.partition("job_task_weir_")
                        if mark:
                            found[name] = found.get(name, 0.0) + sample.value
        return found


@pytest_asyncio.fixture
async def open_cluster(settings_of):
    """Open a session cluster whose processes load an agent, with a job's jar."""
    async with AsyncExitStack() as stack:

        async def open_cluster(jar, *arguments, agent, entry_class=None):
            name = f"unmodified-{uuid.uuid4().hex[:6]}"
            runtime = await LocalRuntime.open(replace(settings_of(name), agent=agent, job_jar=jar))
            stack.push_async_callback(runtime.close)
            await runtime.ensure_job_manager()
            rest = await stack.enter_async_context(FlinkRest(runtime.rest_url))
            arguments = tuple(map(str, arguments))
            return Cluster(runtime, rest, await runtime.provide_jar(), arguments, entry_class)

        yield open_cluster


def pins(topology):
    """Return the parallelism of each vertex, by operator."""
    return {
        name: [each.parallelism for each in vertices]
        for name, vertices in topology.vertices.items()
    }


def ids(topology):
    return {name: [each.id for each in all_] for name, all_ in topology.vertices.items()}


@pytest.mark.long
async def test_flinks_own_example_is_pinned_and_rescaled_from_savepoints(
    open_cluster, agent, example_jar
):
    cluster = await open_cluster(example_jar, agent=agent)
    plan = await cluster.plan()
    source, window = plan.operators
    await cluster.provide({source: 2, window: 3})

    first = await cluster.run({source: 1, window: 2})
    await cluster.stop()
    second = await cluster.run({source: 2, window: 3})
    await cluster.stop()
    third = await cluster.run({source: 1, window: 1})

    assert (plan.agent, plan.groups) == ("ready", frozenset())
    assert [pins(each) for each in (first, second, third)] == [
        {source: [1], window: [2]},
        {source: [2], window: [3]},
        {source: [1], window: [1]},
    ]
    assert ids(first) == ids(second) == ids(third)
    assert ids(first) == {vertex.operator: [vertex.id] for vertex in plan.vertices}
    found = await cluster.rest.checkpoints(cluster.job)
    assert found is not None
    assert found.restored == cluster.restored_from


@pytest.mark.both_ends
async def test_every_record_of_an_unmodified_job_is_committed_once_over_rescales(
    open_cluster, agent, readings_jar, tmp_path
):
    out = tmp_path / "out"
    cluster = await open_cluster(readings_jar, RECORDS, SLOW, 2, out, agent=agent)
    plan = await cluster.plan()
    window = next(vertex for vertex in plan.vertices if "odd window" in vertex.name)
    maximum = {name: 2 for name in plan.operators} | {plan.operators[0]: 1, window.operator: 1}
    await cluster.provide(maximum)
    count, again = (next(v for v in plan.vertices if v.name == n) for n in ("count", "again"))
    work = next(vertex for vertex in plan.vertices if vertex.name.startswith("work"))

    topologies = []
    keys: dict[str, KeyShares] = {}
    timed: set[str] = set()
    for sizes in ({}, {"count": 2}, {work.operator: 2}):
        topologies.append(await cluster.run({**dict.fromkeys(maximum, 1), **sizes}))
        measured = await until_measured(cluster, work.operator)
        if not keys:
            keys, timed = await until_counted(cluster, topologies[0], least=640)
        await cluster.stop()
    cluster.arguments = tuple(map(str, (RECORDS, FAST, 0, out)))
    last = await cluster.run(maximum)
    await cluster.ended()

    # Records pass one to one from one keyed state into the other: they share slots.
    assert count.operator == again.operator
    assert window.limit == 1
    assert all(ids(each) == ids(last) for each in topologies)
    assert sorted(map(int, committed_lines(out))) == list(range(RECORDS))
    mean = measured["service_us_sum"] / measured["service_n"]
    variance = measured["service_us2_sum"] / measured["service_n"] - mean**2
    assert 2000 <= mean < 6000
    assert variance >= 0
    assert measured["age_n"] > 0
    assert 0 <= measured["age_us_sum"] / measured["age_n"] < 30e6
    assert measured["agent_stepped_back"] == 0
    # Readings are dealt by 64 keys in turn, each with 1.6 % of them.
    counted = keys[count.operator]
    expected = shares_of_groups(np.full(64, 1 / 64), len(counted.by_group))
    assert counted.by_group == pytest.approx(expected, abs=0.002)
    assert len(counted.heavy) == MOST_KEYS
    assert count.operator in timed


async def until_measured(cluster, operator, *, least=200):
    """Wait for so many service times of the job that runs; return its gauges."""

    async def measured():
        found = await cluster.gauges(operator)
        return found if found.get("service_n", 0) >= least else None

    return await until(measured)


async def until_counted(cluster, topology, *, least):
    """Wait until so many records were counted by key; return the keys of each operator.

    And the operators whose tasks say how long the records of their own key groups took.
    """

    async def counted():
        texts, timed = [], set()
        for operator, vertex in topology.keyed:
            subtasks = range(vertex.parallelism)
            found = await cluster.rest.task_texts(cluster.job, vertex.id, KEY_COUNTS, subtasks)
            timed |= {operator for text in found if re.search(r"^\. \w+ [1-9a-z]", text, re.M)}
            texts += found
        found = read_keys(texts, topology.operators)
        enough = found and min(each.counted for each in found.values()) >= least
        return (found, timed) if enough else None

    return await until(counted)


SCRIPT = """\
-- Counts; and a comment with a ';' and a quote that's open.
SET 'pipeline.name' = 'counts; and totals';
CREATE TABLE numbers (id BIGINT, {due}) WITH (
    'connector' = 'datagen', 'rows-per-second' = '{rate}', 'fields.id.kind' = 'sequence',
    'fields.id.start' = '1', 'fields.id.end' = '{records}');
/* Two sinks; /* one job. */
CREATE TABLE counts (k BIGINT, n BIGINT, total BIGINT) WITH (
    'connector' = 'filesystem', 'path' = '{out}/counts', 'format' = 'csv');
CREATE TABLE seen (id BIGINT, note STRING) WITH (
    'connector' = 'filesystem', 'path' = '{out}/seen', 'format' = 'csv');
SHOW TABLES;
{begin}
INSERT INTO counts SELECT id % 10, COUNT(*), SUM(id)
    FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(due), INTERVAL '1' SECOND))
    GROUP BY window_start, window_end, id % 10;
INSERT INTO seen SELECT id, 'it''s; ' || 'here' FROM numbers;
END;
"""


@pytest.fixture(scope="module")
def programs_jar():
    return JARS / JAR


@pytest.mark.both_ends
async def test_a_script_that_is_rescaled_twice_writes_every_row_once(
    open_cluster, agent, programs_jar, tmp_path
):
    # Flink has two forms that begin a set of statements.
    begin, other = "BEGIN STATEMENT SET;", "EXECUTE STATEMENT SET BEGIN"
    out = tmp_path / "out"
    script, same = (
        SCRIPT.format(records=RECORDS, rate=SLOW, due=DUE, out=out, begin=words)
        for words in (begin, other)
    )
    cluster = await open_cluster(programs_jar, "q.sql", script, agent=agent, entry_class=SQL)
    plan = await cluster.plan()
    plan_of_same = await replace(cluster, arguments=("q.sql", same)).plan()
    source, *others = plan.operators
    maximum = {source: 1, **{name: 1 if "commit" in name else 2 for name in others}}
    await cluster.provide(maximum)

    small = await cluster.run(dict.fromkeys(maximum, 1))
    await until_measured(cluster, others[0], least=20)
    keys, _ = await until_counted(cluster, small, least=20)
    await cluster.stop()
    large = await cluster.run(maximum)
    await until_measured(cluster, others[0], least=20)
    await cluster.stop()
    cluster.arguments = (
        "q.sql",
        SCRIPT.format(records=RECORDS, rate=FAST, due=DUE, out=out, begin=begin),
    )
    last = await cluster.run(dict.fromkeys(maximum, 1))
    await cluster.ended()

    # The planner numbers what it translates, over all jobs of a process: names differ by that.
    same_but_names, vertices = (
        [each.model_copy(update={"name": ""}) for each in planned.vertices]
        for planned in (plan_of_same, plan)
    )
    assert same_but_names == vertices
    assert (plan.agent, plan.groups) == ("ready", frozenset())
    assert [pins(each) for each in (small, large)] == [
        {name: [replicas] for name, replicas in sizes.items()}
        for sizes in (dict.fromkeys(maximum, 1), maximum)
    ]
    assert ids(small) == ids(large) == ids(last)
    [dealt] = keys.values()
    assert sum(dealt.by_group) == pytest.approx(1.0)
    counted = [tuple(map(int, line.split(","))) for line in committed_lines(out / "counts")]
    assert sum(n for _, n, _ in counted) == RECORDS
    assert sum(total for _, _, total in counted) == RECORDS * (RECORDS + 1) // 2
    rows = [line.split(",", 1) for line in committed_lines(out / "seen")]
    assert sorted(int(number) for number, _ in rows) == list(range(1, RECORDS + 1))
    assert {note.strip('"') for _, note in rows} == {"it's; here"}


async def test_an_agent_that_fails_leaves_the_job_to_flink_and_says_so(
    open_cluster, agent, readings_jar, tmp_path
):
    broken = tmp_path / "broken.jar"
    with zipfile.ZipFile(agent) as whole, zipfile.ZipFile(broken, "w") as rest:
        for name in whole.namelist():
            if name != "dev/weir/agent/Operators.class":
                rest.writestr(name, whole.read(name))
    cluster = await open_cluster(readings_jar, RECORDS, SLOW, 0, tmp_path / "out", agent=broken)
    plan = await cluster.plan()
    await cluster.provide({"any": 2})

    await cluster.submit({})

    async def runs():
        job = await cluster.rest.job(cluster.job)
        return job is not None and job.runs

    await until(runs)
    assert "Operators" in plan.agent
    assert plan.vertices == ()
    [output] = (cluster.runtime.folder / "jm").rglob("output.txt")
    assert "[weir-agent] stepped back at the graph of the job" in output.read_text()


async def test_a_batch_job_is_told_apart_before_it_runs(open_cluster, agent, example_jar):
    cluster = await open_cluster(example_jar, "--execution-mode", "BATCH", agent=agent)

    plan = await cluster.plan()

    assert plan.not_restartable == "a batch job, of which Flink takes no savepoint"
    assert await cluster.rest.jobs() == ()


async def test_what_cannot_be_is_refused_before_a_job_runs(
    open_cluster, agent, readings_jar, tmp_path
):
    cluster = await open_cluster(readings_jar, RECORDS, SLOW, 0, tmp_path / "out", agent=agent)

    limited, unknown = [await cluster.plan(sizes) for sizes in ({"odd-window": 2}, {"nobody": 1})]

    assert "Expected at most 1 replicas of odd-window" in limited.agent
    assert "got [nobody]" in unknown.agent
    assert await cluster.rest.jobs() == ()
