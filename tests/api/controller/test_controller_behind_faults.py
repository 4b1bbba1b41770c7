"""A whole controller on a real API server with a bad network between: stories."""

from __future__ import annotations

from functools import partial

import pytest

from tests.api.fault_proxy import Cut, Drop, LoseAnswer, Refuse
from weir_operator.api.leader import LeaseSettings

pytestmark = pytest.mark.kubernetes_api


@pytest.fixture
def reach(control_plane, tmp_path, monkeypatch):
    """Let controllers that are started from now on reach the API server by way of `url`."""

    def by_way_of(url):
        folder = tmp_path / url.rpartition(":")[2]
        folder.mkdir(exist_ok=True)
        config = str(control_plane.kubeconfig(folder, url=url))
        monkeypatch.setenv("KUBECONFIG", config)
        monkeypatch.setattr(
            "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", config
        )

    return by_way_of


@pytest.fixture
async def far_bench(bench, proxy, reach):
    """The bench with the proxy between its controllers and the API server."""
    reach(proxy.url)
    yield bench
    proxy.heal()
    await bench.close()  # while the proxy is still there


def jobs_of(bench, name="trips"):
    """Return the jobs that run, and how many ever did."""
    world = bench.dependencies.of[name]
    return world.running(), len(world.jobs)


async def test_a_busy_server_delays_a_start_and_doubles_nothing(far_bench, proxy):
    proxy.inject(
        Refuse(path="streamapps", status=429, retry_after=0, times=4),
        Refuse(method="PUT", path="/status", status=500, times=3),
        LoseAnswer(method="PUT", path="/status", times=2),
        Refuse(method="PUT", path="/status", status=409, times=2),
        LoseAnswer(method="POST", path="/leases"),
    )
    far_bench.start()

    await far_bench.create()

    await far_bench.until_ready()
    assert proxy.waiting == []
    running, ever = jobs_of(far_bench)
    assert len(running) == ever == 1
    status = (await far_bench.app())["status"]
    assert status["controller"]["job_id"] == running[0]


async def test_a_controller_that_reaches_no_api_server_is_not_ready(far_bench, proxy):
    proxy.inject(Drop(path="/leases", times=None))
    running = far_bench.start()

    async def unready():
        if running.controller is None or running.controller.port is None:
            return None
        answer = await far_bench.ask(running, "readyz")
        return answer if "could not be written" in answer else None

    await far_bench.until(unready, "expected a controller that says what it cannot reach")
    proxy.heal()

    async def ready():
        return await far_bench.ask(running, "readyz") == "ok\n"

    await far_bench.until(ready, "expected a controller that is ready")


async def test_watches_that_are_cut_again_and_again_miss_nothing(far_bench, proxy):
    proxy.inject(Cut(path="watch=true", after=1, times=6))
    far_bench.start()
    for name in ("one", "two", "three"):
        await far_bench.create(name)

    for name in ("one", "two", "three"):
        await far_bench.until_ready(name=name)

    await far_bench.kube.merge(f"{far_bench.kube.stream_apps}/two", {"spec": {"mode": "Advise"}})

    async def seen():
        status = (await far_bench.app("two"))["status"]
        return status["observedGeneration"] == 2

    await far_bench.until(seen, "expected the change to be seen")
    assert proxy.count("GET", "watch=true") > 1, "no watch was cut"


async def test_a_server_that_is_started_again_is_found_again(bench, control_plane):
    await bench.bring_up()
    before = jobs_of(bench)

    control_plane.stop_api_server()
    control_plane.start_api_server()

    async def serves_stream_apps():
        return (await bench.kube.get(bench.kube.stream_apps)).status == 200

    await bench.until(serves_stream_apps, "expected the API server to be back")
    await bench.create("another")
    await bench.until_ready(name="another")
    assert jobs_of(bench) == before


async def test_a_watch_from_a_version_that_the_server_forgot_misses_nothing(bench, control_plane):
    await bench.bring_up()
    before = jobs_of(bench)
    path, known = bench.kube.stream_apps, (await bench.app())["metadata"]["resourceVersion"]

    control_plane.stop_api_server()
    control_plane.start_api_server()  # it knows no version before its start

    async def answers_gone():
        async for event in bench.kube.watch(path, known):
            return event.get("object", event).get("code") == 410
        return None

    await bench.until(answers_gone, "expected the server to refuse the old version")
    await bench.kube.merge(f"{path}/trips", {"spec": {"mode": "Advise"}})

    async def seen():
        return (await bench.app())["status"]["observedGeneration"] == 2

    await bench.until(seen, "expected the change to be seen")
    assert jobs_of(bench) == before


async def test_a_deletion_comes_to_its_end_though_every_step_fails_once(far_bench, proxy):
    far_bench.start()
    await far_bench.create()
    await far_bench.until_ready()
    proxy.inject(
        Refuse(method="POST", path="/events", status=500),
        Refuse(method="PATCH", path="/streamapps/trips", status=409),
        LoseAnswer(method="PATCH", path="/streamapps/trips"),
        LoseAnswer(method="PUT", path="/status"),
    )

    await far_bench.delete()

    assert proxy.waiting == []
    world = far_bench.dependencies.of["trips"]
    assert world.alive == {}
    assert len(world.positions) == 1, "one last savepoint"


async def test_a_controller_that_is_cut_off_stands_by_while_the_next_goes_on(
    bench, proxy, reach, monkeypatch
):
    quick = partial(LeaseSettings, duration=10, renew_deadline=4.0, retry_every=0.5)
    monkeypatch.setattr("weir_operator.cluster.process.process.LeaseSettings", quick)
    reach(proxy.url)
    bench.start("cut-off")
    await bench.create()
    await bench.until_ready()
    job = jobs_of(bench)
    reach(bench.kube.url)
    following = bench.start("next")

    async def stands_by():
        if following.controller is None or following.controller.port is None:
            return False
        return await bench.ask(following, "readyz") == "ok\n"  # it has read the Leases

    await bench.until(stands_by, "expected the next controller to stand by")
    reach(proxy.url)
    proxy.inject(Drop(times=None))
    lost = bench.running["cut-off"]

    async def seeks_another_term():
        return lost.terms == 2 and lost.controller.port is not None

    await bench.until(seeks_another_term, "expected the term to be over")
    asked = proxy.count("GET", "leases")

    async def asks_for_the_lease():
        return proxy.count("GET", "leases") > asked

    await bench.until(asks_for_the_lease, "expected it to stand by")
    reach(bench.kube.url)

    await bench.until_written_by("next")
    assert not lost.controller.leads, "it would steer beside the next one"
    assert jobs_of(bench) == job

    proxy.heal()
    await bench.stop("next")

    await bench.until_written_by("cut-off")
    await bench.create("another")
    await bench.until_ready(name="another")
    assert lost.terms == 2, "by another term in the same process"
    assert lost.failure is None
    assert jobs_of(bench) == job
