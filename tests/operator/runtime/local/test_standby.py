"""TaskManagers that wait for an operator, on real Flink; and what a next Weir does with them."""

import psutil
import pytest

from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.jars import build_standby_agent
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.local import processes
from weir_operator.runtime.local.folders import ReplicaRecord
from weir_operator.runtime.local.runtime import LocalRuntime
from weir_operator.runtime.protocol import ReplicaSpec
from weir_operator.runtime.registration import registered

pytestmark = [pytest.mark.long, pytest.mark.flink, pytest.mark.timeout(600)]

LIMIT = 180.0
WORK = ReplicaSpec(operator="work", pool="small", size="250m")


@pytest.fixture(scope="module", autouse=True)
def agent():
    """Build the agent unless it is fresh."""
    build_standby_agent()


async def warm(runtime, wanted):
    """Ask for TaskManagers that wait until they are warm; return their ids."""

    async def ask():
        await runtime.keep_standby(wanted)
        found = await runtime.standby()
        return found if len(found) == sum(wanted.values()) else None

    found = await wait_until(ask, clock=SystemClock(), timeout=LIMIT)
    assert found is not None
    return found


def process_of(runtime, id_):
    [found] = [
        identity
        for folder, identity in processes.find_under(runtime.folder).items()
        if folder.parent.name == id_
    ]
    return psutil.Process(found.pid)


async def is_registered(runtime, id_, operator):
    async def ask():
        async with FlinkRest(runtime.rest_url) as rest:
            return await registered(rest, {id_: operator}) or None

    return await wait_until(ask, clock=SystemClock(), timeout=LIMIT)


async def test_one_that_waits_is_bound_and_registers_as_the_same_process(settings_of):
    runtime = await LocalRuntime.open(settings_of("bound"))
    try:
        await runtime.ensure_job_manager()
        [waiting] = await warm(runtime, {"small": 1})
        before = process_of(runtime, waiting)
        listed = await runtime.replicas()

        [taken, cold] = await runtime.start([WORK, WORK])
        joined = await is_registered(runtime, taken, "work")
        after = process_of(runtime, taken)
        replicas = {each.id: each for each in await runtime.replicas()}
        left = await runtime.standby()
    finally:
        await runtime.close()

    assert listed == ()
    assert taken == waiting
    assert cold != waiting
    assert joined
    assert after == before
    assert (replicas[taken].operator, replicas[taken].node_type) == ("work", "small/250m")
    assert replicas[taken].from_standby
    assert not replicas[cold].from_standby
    assert left == ()
    assert processes.find_under(runtime.folder) == {}


async def test_what_waits_outlives_its_weir_and_goes_when_nobody_wants_it(settings_of):
    first = await LocalRuntime.open(settings_of("adopted"))
    [waiting] = await warm(first, {"small": 1})
    await first.detach()

    second = await LocalRuntime.open(settings_of("adopted"))
    try:
        adopted = await second.standby()
        await second.keep_standby({})
        left = processes.find_under(second.folder)
    finally:
        await second.close()

    assert adopted == (waiting,)
    assert left == {}


async def test_one_whose_binding_was_cut_short_is_ended_by_the_next_weir(settings_of):
    first = await LocalRuntime.open(settings_of("half-bound"))
    [waiting] = await warm(first, {"small": 1})
    folder = first._app.task_manager(waiting)
    folder.record_replica(
        ReplicaRecord(operator="work", pool="small", size="250m", started=7.0, metrics=(1,)),
        speed=0.5,
    )
    await first.detach()

    second = await LocalRuntime.open(settings_of("half-bound"))
    left, replicas = processes.find_under(second.folder), await second.replicas()
    await second.close()

    assert left == {}
    assert replicas == ()


async def test_one_of_another_pool_is_not_taken(settings_of):
    runtime = await LocalRuntime.open(settings_of("other-pool"))
    try:
        await runtime.ensure_job_manager()
        waiting = await warm(runtime, {"large": 1})

        [started] = await runtime.start([WORK])

        assert started not in waiting
        assert await runtime.standby() == waiting
    finally:
        await runtime.close()
