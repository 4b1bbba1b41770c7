"""The local runtime against real Flink: one cluster for the tests in the order they stand in."""

import asyncio
import os
import signal
import socket
from dataclasses import replace

import aiohttp
import psutil
import pytest
import pytest_asyncio

from tests.operator.runtime.waiting import until
from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import (
    AlreadySteeredError,
    PermanentError,
    ResizeRefusedError,
    TemporaryError,
)
from weir_operator.flink.answers import JobState
from weir_operator.flink.jars import build_programs
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.topology import discover, misplaced, waiting
from weir_operator.runtime.processes import processes
from weir_operator.runtime.processes.runtime import LocalRuntime
from weir_operator.runtime.protocol import ReplicaSpec
from weir_operator.runtime.registration import registered
from weir_operator.runtime.revision import Revision

pytestmark = [
    pytest.mark.flink,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]

FIRST, SECOND = "a" * 32, "b" * 32
SPECS = [
    ReplicaSpec(operator="numbers", pool="small", size="250m"),
    ReplicaSpec(operator="work", pool="small", size="250m"),
    ReplicaSpec(operator="work", pool="large", size="1"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime(settings_of):
    """A cluster of three TaskManagers that are registered."""
    runtime = await LocalRuntime.open(settings_of("shared"))
    try:
        assert await runtime.ensure_job_manager()
        ids = await runtime.start(SPECS)
        async with FlinkRest(runtime.rest_url) as rest:
            operators = {id_: spec.operator for id_, spec in zip(ids, SPECS, strict=True)}
            found = await all_registered(rest, operators)
        assert found == set(ids)
        yield runtime
    finally:
        await runtime.close()
    assert processes.find_under(settings_of("shared").root) == {}


@pytest_asyncio.fixture(loop_scope="module")
async def rest(runtime):
    async with FlinkRest(runtime.rest_url) as client:
        yield client


async def all_registered(rest, operators):
    """Wait until all of these are registered; a JobManager that starts answers nothing yet."""

    async def probe():
        try:
            found = await registered(rest, operators)
        except TemporaryError:
            return None
        return found if len(found) == len(operators) else None

    return await until(probe)


async def operators_of(runtime):
    return {replica.id: replica.operator for replica in await runtime.replicas()}


def savepoints_of(runtime):
    return (runtime.folder / "savepoints").as_uri()


async def test_replicas_are_alive_and_advertise_their_operator_alone(runtime, rest):
    replicas = {each.id: each for each in await runtime.replicas()}
    resources = {each.id: dict(each.extended_resources) for each in await rest.task_managers()}

    assert sorted(each.node_type for each in replicas.values()) == [
        "large/1",
        "small/250m",
        "small/250m",
    ]
    assert resources == {id_: {f"op-{each.operator}": 1.0} for id_, each in replicas.items()}


async def test_task_managers_start_from_the_archive_of_classes(settings_of, runtime):
    (archive,) = settings_of("shared").cache.glob("*.jsa")

    commands = [
        psutil.Process(identity.pid).cmdline()
        for configuration, identity in processes.find_under(runtime.folder).items()
        if configuration.parent.name != "jm"
    ]

    assert len(commands) == len(SPECS)
    assert all(f"-XX:SharedArchiveFile={archive}" in command for command in commands)


async def test_a_task_manager_with_another_pin_does_not_count_as_registered(runtime, rest):
    operators = await operators_of(runtime)

    found = await registered(rest, dict.fromkeys(operators, "work"))

    assert found == {id_ for id_, operator in operators.items() if operator == "work"}


async def test_a_job_runs_where_it_is_pinned_and_takes_checkpoints(runtime, rest):
    jar = await runtime.provide_jar()
    await rest.run_jar(jar, job_id=FIRST, arguments=["--weir.parallelism.work", "2"])
    await until(lambda: runs(rest, FIRST))

    topology = await discover(rest, FIRST, await operators_of(runtime))
    await until(lambda: completed(rest, FIRST))

    assert topology.operators == ("numbers", "work")
    assert all(edge.keyed for edge in topology.edges if edge.target == "work")
    assert await misplaced(rest, FIRST, await operators_of(runtime)) is None
    newest = (await runtime.snapshots(FIRST))[-1]
    assert newest is not None
    assert newest.startswith(str(runtime.folder / "checkpoints" / FIRST / "chk-"))


async def runs(rest, job_id):
    job = await rest.job(job_id)
    return job is not None and job.runs


async def completed(rest, job_id):
    checkpoints = await rest.checkpoints(job_id)
    return checkpoints is not None and checkpoints.newest


LONG_COLLECTION = 10.0
"""Seconds for which a JVM does nothing else; ten heartbeats are missed."""

CHECKPOINT_LIMIT = 180.0
"""Seconds in which a checkpoint completes, even where the pause cost the one before it: Flink gives
that one up after its time-out of two minutes."""


async def test_a_task_manager_that_collects_garbage_for_long_keeps_its_task(runtime, rest):
    replica = next(each for each in await runtime.replicas() if each.operator == "work")
    found = processes.find_under(runtime.folder)
    process = psutil.Process(
        next(each.pid for place, each in found.items() if place.parent.name == replica.id)
    )

    process.suspend()
    try:
        await asyncio.sleep(LONG_COLLECTION)
    finally:
        process.resume()
    before = await completed(rest, FIRST)
    after = await wait_until(
        lambda: completed_after(rest, FIRST, before),
        clock=SystemClock(),
        timeout=CHECKPOINT_LIMIT,
    )

    assert after, f"job {await rest.job(FIRST)}, exception {await rest.root_exception(FIRST)}"
    assert await rest.root_exception(FIRST) is None
    assert await registered(rest, {replica.id: "work"}) == {replica.id}


async def completed_after(rest, job_id, before):
    newest = await completed(rest, job_id)
    return newest if newest and newest != before else None


async def test_a_reporter_answers_where_the_runtime_says_with_weirs_labels(runtime):
    replica = (await runtime.replicas())[0]
    async with aiohttp.ClientSession() as session, session.get(replica.metrics_url) as answer:
        text = await answer.text()

    assert f'weir_operator="{replica.operator}",weir_pool="{replica.pool}"' in text
    assert 'weir_app="streams_shared"' in text


async def test_a_resize_changes_the_speed_file_and_nothing_else(runtime):
    replica = next(each for each in await runtime.replicas() if each.pool == "small")
    before = {each.id: each.started for each in await runtime.replicas()}

    await runtime.resize({replica.id: "500m"})

    after = {each.id: each for each in await runtime.replicas()}
    assert after[replica.id].size == "500m"
    assert {id_: each.started for id_, each in after.items()} == before
    assert speed_that_its_process_reads(runtime, replica.id) == "1.0\n"


def speed_that_its_process_reads(runtime, id_):
    for configuration, identity in processes.find_under(runtime.folder).items():
        if configuration.parent.name == id_:
            path = psutil.Process(identity.pid).environ()["WEIR_SPEED_FILE"]
            with open(path, encoding="utf-8") as file:
                return file.read()
    raise AssertionError(f"{id_} does not run")


async def test_a_resize_that_cannot_be_changes_nothing(runtime):
    before = await runtime.replicas()
    small = next(each.id for each in before if each.pool == "small")

    with pytest.raises(ResizeRefusedError, match="gone-1"):
        await runtime.resize({small: "500m", "gone-1": "500m"})
    with pytest.raises(PermanentError, match="got 'small/9'"):
        await runtime.resize({small: "9"})

    assert await runtime.replicas() == before


async def test_a_second_weir_is_refused_while_the_first_steers(settings_of, runtime):
    with pytest.raises(AlreadySteeredError, match=str(os.getpid())):
        await LocalRuntime.open(settings_of("shared"))


async def test_what_does_not_fit_is_not_started(settings_of, runtime):
    before = await runtime.replicas()

    with pytest.raises(PermanentError, match="64 processes"):
        await runtime.start(SPECS[:1] * 64)
    with pytest.raises(PermanentError, match="node type"):
        await runtime.start([ReplicaSpec(operator="work", pool="huge", size="1")])

    assert await runtime.replicas() == before


async def test_a_program_is_checked_on_the_job_manager_that_runs(runtime):
    asked = []

    async def check(rest_url, jar):
        async with FlinkRest(rest_url) as rest:
            assert jar in await rest.jars()
        asked.append(jar)
        raise PermanentError("It builds no job")

    refusal = await runtime.find_misfit(Revision(), {"any"}, check)

    assert refusal == "It builds no job"
    assert len(asked) == 1
    assert await runtime.find_misfit(Revision(), {"any"}) == ""
    assert len(asked) == 1


async def test_a_savepoint_of_a_job_that_goes_on_says_so(runtime, rest):
    build_programs()
    body = {"triggerId": SECOND, "cancel-job": False, "target-directory": savepoints_of(runtime)}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{runtime.rest_url}/jobs/{FIRST}/savepoints", json=body) as answer,
    ):
        assert answer.status == 202, await answer.text()

    progress = await until(lambda: ended_savepoint(rest, FIRST, SECOND))

    assert await runtime.savepoint_stopped_job(progress.path) is False


async def test_a_stop_with_savepoint_and_a_removal_leave_what_is_wanted(runtime, rest):
    victim = next(each.id for each in await runtime.replicas() if each.pool == "large")

    await rest.stop_with_savepoint(FIRST, trigger_id=FIRST)
    await rest.stop_with_savepoint(FIRST, trigger_id=FIRST)
    progress = await until(lambda: ended_savepoint(rest, FIRST))
    await runtime.stop([victim, "tm-never-was-0"])

    assert progress.failure is None
    assert progress.path.startswith(savepoints_of(runtime).replace("file:///", "file:/"))
    assert victim not in {each.id for each in await rest.task_managers()}
    assert victim not in {each.id for each in await runtime.replicas()}


async def test_a_savepoint_that_stopped_its_job_says_so(runtime, rest):
    progress = await until(lambda: ended_savepoint(rest, FIRST))

    assert await runtime.savepoint_stopped_job(progress.path) is True


async def test_a_savepoint_that_cannot_be_read_says_nothing(runtime):
    with pytest.raises(TemporaryError, match="cannot be read"):
        await runtime.savepoint_stopped_job(f"{savepoints_of(runtime)}/savepoint-none")


async def ended_savepoint(rest, job_id, trigger=None):
    progress = await rest.savepoint_status(job_id, trigger or job_id)
    return None if progress is None or progress.in_progress else progress


async def test_a_job_that_lacks_a_task_manager_waits_and_gets_it(runtime, rest):
    (jar,) = await rest.jars()
    progress = await until(lambda: ended_savepoint(rest, FIRST))
    arguments = ["--weir.parallelism.work", "2"]

    await rest.run_jar(jar, job_id=SECOND, arguments=arguments, savepoint_path=progress.path)
    await rest.run_jar(jar, job_id=SECOND, arguments=arguments, savepoint_path=progress.path)
    sentence = await until(lambda: waiting(rest, SECOND))
    (added,) = await runtime.start(SPECS[2:])
    await until(lambda: runs(rest, SECOND))

    assert "work" in sentence
    assert int(added.rsplit("-", 1)[1]) > len(SPECS)
    assert sorted(job.id for job in await rest.jobs()) == [FIRST, SECOND]


async def test_a_lost_job_manager_is_started_again_and_found_by_the_task_managers(runtime, rest):
    before = await runtime.replicas()
    restored = await until(lambda: checkpoint_in_storage(runtime, SECOND))
    kill(runtime, "jm")

    started = await runtime.ensure_job_manager()

    operators = {each.id: each.operator for each in before}
    found = await all_registered(rest, operators)
    assert started
    assert found == set(operators)
    assert await rest.job(SECOND) is None
    jar = await runtime.provide_jar()
    third = "d" * 32
    await rest.run_jar(
        jar, job_id=third, arguments=["--weir.parallelism.work", "2"], savepoint_path=restored
    )
    await until(lambda: runs(rest, third))
    await rest.cancel(third)
    await until(lambda: is_over(rest, third))
    await rest.cancel(third)


async def checkpoint_in_storage(runtime, job_id):
    found = await runtime.snapshots(job_id)
    return found[-1] if found else None


async def is_over(rest, job_id):
    job = await rest.job(job_id)
    return job is not None and job.state is JobState.CANCELED


def kill(runtime, folder):
    found = processes.find_under(runtime.folder)
    identity = next(each for path, each in found.items() if path.parent.name == folder)
    os.kill(identity.pid, signal.SIGKILL)
    psutil.Process(identity.pid).wait(30)


async def test_a_job_manager_whose_port_was_taken_starts_with_another(settings_of):
    settings = settings_of("taken")
    first = await LocalRuntime.open(settings)
    taken = int(first.rest_url.rsplit(":", 1)[1])
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", taken))
        stranger.listen()

        try:
            started = await first.ensure_job_manager()
            async with FlinkRest(first.rest_url) as rest:
                version = await rest.version()
        finally:
            await first.close()

    assert started
    assert int(first.rest_url.rsplit(":", 1)[1]) != taken
    assert version == "2.3.0"


async def test_a_job_manager_that_cannot_start_says_why(settings_of):
    settings = replace(settings_of("broken"), config={"heartbeat.interval": "soon"})
    runtime = await LocalRuntime.open(settings)

    with pytest.raises(PermanentError, match=r"streams\.broken exited at once: .*soon"):
        await runtime.ensure_job_manager()

    await runtime.close()
