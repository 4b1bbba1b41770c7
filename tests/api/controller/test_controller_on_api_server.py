"""The controller's process against a real API server: status, deletion, restarts, two at once."""

from __future__ import annotations

from functools import partial

import pytest

from weir_operator.cluster.status.store import read_journal

pytestmark = pytest.mark.kubernetes_api


async def test_an_app_is_brought_up_and_its_status_says_so(bench):
    bench.start()

    await bench.create()

    ready = await bench.until_ready()
    status = (await bench.app())["status"]
    assert ready["status"] == "True"
    assert ready["observedGeneration"] == status["observedGeneration"] == 1
    assert status["replicas"] == sum(each["replicas"] for each in status["operators"])
    assert read_journal(status)["step"] == "Done"
    assert status["controller"]["job_id"] == bench.dependencies.of["trips"].running()[0]


async def test_a_deleted_app_ends_with_a_savepoint_that_an_event_names(bench):
    await bench.bring_up()

    await bench.delete()

    world = bench.dependencies.of["trips"]
    [path] = world.positions
    assert world.alive == {}
    assert path in (await bench.events())["FinalSavepoint"]


@pytest.mark.parametrize("content", [b"no database " * 1000, b"\xff\x00" * 5000])
async def test_an_app_whose_records_are_damaged_is_brought_up_and_can_be_deleted(bench, content):
    records = bench.folder / "one" / f"{bench.kube.namespace}.trips" / "records.sqlite"
    records.parent.mkdir(parents=True)
    records.write_bytes(content)
    await bench.bring_up()
    kept = await bench.until_condition("RecordsKept", "Recorded")
    await bench.stop()
    records.write_bytes(content)
    bench.start()
    await bench.until_ready()

    await bench.delete()

    events = await bench.events()
    assert kept["status"] == "True"
    assert "records.sqlite.damaged" in events["RecordsDamaged"]
    assert bench.dependencies.of["trips"].positions
    assert events["FinalSavepoint"]


async def test_of_two_controllers_one_works_and_the_other_takes_over_when_it_ends(bench):
    bench.start("one")
    await bench.create()
    await bench.until_ready()
    standby = bench.start("two")
    await bench.create("second")
    await bench.until_ready(name="second")
    idle = standby.controller.port is not None and not standby.controller.leads

    await bench.stop("one")
    await bench.create("third")

    await bench.until_ready(name="third")
    assert idle
    assert (await bench.app("third"))["status"]["controller"]["writer"].startswith("two/")
    for world in bench.dependencies.of.values():
        assert len(world.running()) == 1


async def test_a_pause_is_shown_and_taken_back_without_a_new_life_of_the_loops(bench):
    bench.start()
    await bench.create()
    before = await bench.until_ready()
    path = f"{bench.kube.stream_apps}/trips"

    await bench.kube.merge(path, {"metadata": {"annotations": {"weir.dev/paused": "true"}}})
    await bench.until_condition("Paused", "PausedByAnnotation")
    await bench.kube.merge(path, {"metadata": {"annotations": {"weir.dev/paused": None}}})
    await bench.until_condition("Paused", "NotPaused")

    after = await bench.condition("Ready")
    assert after["lastTransitionTime"] == before["lastTransitionTime"]


async def test_a_policy_that_nobody_knows_is_told_and_the_running_job_left_alone(bench):
    await bench.bring_up()
    [job] = bench.dependencies.of["trips"].running()

    await bench.kube.merge(
        f"{bench.kube.stream_apps}/trips",
        {"spec": {"operatorManager": {"policy": {"name": "oracle"}}}},
    )

    condition = await bench.until_ready("InvalidSpec")
    assert "oracle" in condition["message"]
    assert condition["observedGeneration"] == 2
    assert bench.dependencies.of["trips"].running() == [job]
    await bench.kube.merge(
        f"{bench.kube.stream_apps}/trips",
        {"spec": {"operatorManager": {"policy": {"name": "planner"}}}},
    )
    await bench.until_ready("JobRunning")
    assert bench.dependencies.of["trips"].running() == [job]


async def test_an_app_whose_spec_is_refused_is_steered_and_saved_by_the_spec_before(bench):
    await bench.bring_up()
    [job] = bench.dependencies.of["trips"].running()
    await bench.stop()
    looser = {"paths": [{"sink": "alerts", "responseTime": "1h"}]}
    await bench.kube.merge(f"{bench.kube.stream_apps}/trips", {"spec": {"objective": looser}})

    bench.start()

    condition = await bench.until_condition("Ready", "InvalidSpec")
    assert "paths[0]" in condition["message"]
    assert bench.dependencies.of["trips"].running() == [job]
    await bench.delete()

    [path] = bench.dependencies.of["trips"].positions
    assert path in (await bench.events())["FinalSavepoint"]


async def test_one_app_whose_flink_hangs_delays_no_other(bench):
    bench.dependencies.hanging.add("hung")
    bench.start()
    await bench.create("hung")
    await bench.until_ready("Starting", name="hung")

    await bench.create("quick")

    await bench.until_ready(name="quick")
    assert (await bench.condition("Ready", "hung"))["reason"] == "Starting"


async def test_an_installation_beside_another_leaves_its_apps_alone_until_that_is_gone(bench):
    await bench.bring_up()

    bench.start("two", lease="other")

    async def told():
        return (await bench.events()).get("ManagedElsewhere")

    message = await bench.until(told, "expected the second one to tell")
    assert f"{bench.kube.namespace}/weir-controller, which is active" in message
    assert (await bench.app())["status"]["controller"]["writer"].startswith("one/")

    await bench.stop("one")
    await bench.until_written_by("two")
    assert len(bench.dependencies.of["trips"].running()) == 1


async def test_two_installations_of_different_namespaces_leave_each_others_apps_alone(
    bench, bench_beside
):
    """Neither touches an app of the other, nor takes it over when the other one has ended."""
    places = {"north": bench, "south": bench_beside}
    for name, each in places.items():
        each.start(name)
        await each.create(name)
    for name, each in places.items():
        await each.until_ready(name=name)

    await bench.delete("north")

    await bench.stop("north")
    await bench_beside.create("late")
    await bench_beside.until_ready(name="late")

    assert [*bench.dependencies.of] == ["north"]
    assert [*bench_beside.dependencies.of] == ["south", "late"]
    assert bench_beside.dependencies.of["south"].positions == {}, "no savepoint: it runs on"
    south = await bench_beside.app("south")
    assert south["metadata"]["finalizers"]
    assert south["status"]["controller"]["writer"].startswith("south/")
    assert south["status"]["controller"]["home"] == (
        f"{bench_beside.kube.namespace}/weir-controller"
    )
    page = await bench_beside.ask(bench_beside.running["south"], "metrics")
    assert "weir_apps 2.0" in page


async def test_health_and_metrics_tell_of_a_controller_that_works(bench):
    running = bench.start()
    await bench.create()
    await bench.until_ready()

    healthy, ready, metrics = [
        await bench.ask(running, path) for path in ("healthz", "readyz", "metrics")
    ]

    assert (healthy, ready) == ("ok\n", "ok\n")
    labels = f'{{app="trips",namespace="{bench.kube.namespace}"'
    assert f"weir_reconcile_age_seconds{labels}" in metrics
    assert "weir_leader 1.0" in metrics


async def test_a_pause_that_the_watch_lost_is_found_by_listing(bench, monkeypatch):
    monkeypatch.setattr("weir_operator.cluster.process.process.LIST_EVERY", 0.5)
    monkeypatch.setattr("weir_operator.cluster.process.handlers.Resource", NothingSeen)
    await bench.bring_up()

    paused = {"metadata": {"annotations": {"weir.dev/paused": "true"}}}
    await bench.kube.merge(f"{bench.kube.stream_apps}/trips", paused)

    await bench.until_condition("Paused", "PausedByAnnotation")


class NothingSeen:
    """Stands for a watch that shows nothing."""

    @staticmethod
    def of(body):
        raise RuntimeError("the watch is dead")


async def test_an_app_that_is_deleted_with_its_state_leaves_none(bench):
    bench.start()
    await bench.create(deletionPolicy="Delete")
    await bench.until_ready()
    world = bench.dependencies.of["trips"]
    world.checkpoint()

    await bench.delete()

    assert (world.positions, world.running(), world.alive) == ({}, [], {})
    assert not list((bench.folder / "one").glob("*.trips"))


async def test_a_job_that_gives_no_savepoint_keeps_its_app_until_patience_ends(bench, monkeypatch):
    world = await bench.bring_up()
    world.checkpoint()
    await bench.until_checkpointed()
    world.refuse_calls = 10**6

    await bench.kube.ask("DELETE", f"{bench.kube.stream_apps}/trips")
    condition = await bench.until_condition("Ready", "FinalSavepointFailed")
    assert "The JobManager did not answer" in condition["message"]
    [waits] = await bench.until(partial(bench.messages, "DeletionWaits"), "expected DeletionWaits")
    assert "The JobManager did not answer" in waits
    monkeypatch.setattr("weir_operator.cluster.app.finalizer.SAVEPOINT_TIMEOUT", 0.0)

    await bench.until_gone()
    assert any("/checkpoints/" in told for told in await bench.messages("FinalSavepointFailed"))
    assert await bench.messages("FinalSavepoint") == []
    assert world.alive == {}
    assert 'weir_final_savepoints_total{outcome="Failed"} 1.0' in await bench.ask(
        bench.running["one"], "metrics"
    )


async def test_a_job_that_came_to_its_end_runs_again_by_an_edit(bench):
    bench.start()
    made = await bench.create()
    await bench.until_ready()
    world = bench.dependencies.of["trips"]
    world.finish()
    condition = await bench.until_ready("JobFinished")

    again = {"spec": {"flink": {"job": made["spec"]["flink"]["job"] | {"restoreNonce": 1}}}}
    await bench.kube.merge(f"{bench.kube.stream_apps}/trips", again)
    await bench.until_ready("JobRunning")

    assert "spec.flink.job.restoreNonce" in condition["message"]
    assert len(world.running()) == 1


async def test_a_job_whose_state_is_gone_says_where_it_was_and_what_to_do(bench):
    world = await bench.bring_up()
    world.checkpoint()
    await bench.until_checkpointed()
    [job] = world.running()
    world.stored[job].clear()
    world.lose_job_manager(recovers=False)

    degraded = await bench.until_condition("Degraded", "Failed")
    ready = await bench.until_condition("Ready", "ReconcileFailed")

    for condition in (degraded, ready):
        assert f"/checkpoints/{job}/chk-1" in condition["message"]
        assert "spec.flink.job.restoreNonce" in condition["message"]
    assert world.running() == []
