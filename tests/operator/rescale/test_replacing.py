"""Replicas that are to go are replaced first; those that find no place end the change."""

import math

import pytest

from tests.operator.rescale.bench import Bench
from tests.operator.rescale.fakes import (
    ControllerDied,
)
from weir_operator.cluster.status.conditions import judge_progress
from weir_operator.rescale.journal import Step
from weir_operator.rescale.replicas import deployments_of, missing_replicas, stale_replicas
from weir_operator.rescale.settings import FULL_FOR, RescaleSettings
from weir_operator.rescale.status import add_node_time, expected_node_time
from weir_operator.runtime.places import Place
from weir_operator.runtime.protocol import Replica
from weir_operator.runtime.revision import Revision

TWO = {"match": {"small/250m": 2}}


def a_replica(key, size="250m", revision="", place=""):
    return Replica(
        id=key,
        operator="match",
        pool="small",
        size=size,
        started=0.0,
        metrics_url="",
        revision=revision,
        place=place,
    )


async def test_replicas_that_have_a_place_and_start_slowly_are_waited_for_longer():
    bench = await Bench().started(TWO)
    bench.world.slow_until = bench.clock.now() + 2.5 * RescaleSettings().start_deadline

    end = await bench.change({"match": {"small/250m": 3}})

    assert end.step is Step.DONE


async def test_replicas_that_have_a_place_and_never_register_are_given_up():
    bench = await Bench().started(TWO)
    bench.world.slow_until = math.inf

    end = await bench.change({"match": {"small/250m": 3}})

    assert end.step is Step.ABANDONED
    assert end.pending == ()


async def test_a_replaced_replica_goes_only_after_another_has_its_place():
    bench = await Bench().started(TWO)
    first, second = sorted(bench.world.alive)

    end = await bench.change(TWO, replace=(first,))

    assert end.step is Step.DONE
    assert first not in bench.world.alive
    assert second in bench.world.alive
    assert deployments_of(bench.world.alive.values()) == TWO
    assert bench.exact()


async def test_a_replacement_that_finds_no_place_leaves_everything_as_it_was():
    bench = await Bench().started(TWO)
    before = sorted(bench.world.alive)
    bench.world.full_pools = {"small": 2}

    end = await bench.change(TWO, replace=(before[0],))

    assert end.step is Step.ABANDONED
    assert sorted(bench.world.alive) == before
    assert bench.store.load().failed == ()
    assert bench.exact()


async def leave(bench, node):
    """Replace the replica on a node by one elsewhere."""
    [leaving] = [each.id for each in bench.world.alive.values() if each.node == node]
    return await bench.change(TWO, replace=(leaving,), avoid=(node,))


async def started_on(*nodes):
    bench = Bench()
    bench.world.nodes = nodes
    return await bench.started(TWO)


def nodes_of(bench):
    return sorted(each.node for each in bench.world.alive.values())


async def test_what_takes_the_place_of_a_replica_that_leaves_a_node_avoids_it():
    bench = await started_on("n1", "n2")

    end = await leave(bench, "n1")

    assert end.step is Step.DONE
    assert nodes_of(bench) == ["n2", "n2"]
    assert bench.exact()


async def test_the_node_is_avoided_after_a_restart_of_the_controller_too():
    bench = await started_on("n1", "n2")
    bench.store.die_after = len(bench.store.history) + 1
    with pytest.raises(ControllerDied):
        await leave(bench, "n1")
    bench.store.die_after = None
    left = bench.store.load().rescale
    assert left is not None

    end = await bench.engine().execute(left)

    assert end.step is Step.DONE
    assert nodes_of(bench) == ["n2", "n2"]


async def test_a_node_that_cannot_be_left_leaves_everything_as_it_was_and_its_pool_open():
    bench = await started_on("n1", "n2")
    before = sorted(bench.world.alive)
    bench.world.nodes = ("n2",)

    end = await leave(bench, "n2")

    assert end.step is Step.ABANDONED
    assert sorted(bench.world.alive) == before
    assert (bench.store.load().full, bench.store.load().failed) == ((), ())
    assert bench.exact()


async def test_a_node_that_an_autoscaler_adds_is_waited_for_as_long_as_the_pool_says():
    bench = await Bench(provisioning={"large": 300.0}).started(TWO)
    bench.world.full_pools = {"large": 0}
    bench.world.nodes_added_at = bench.clock.now() + 240.0

    end = await bench.change({"match": {"small/250m": 2, "large/1": 1}})

    assert end.step is Step.DONE
    assert bench.store.load().full == ()
    assert bench.store.load().node_times == {"large": (pytest.approx(240.0, abs=2.0),)}
    assert bench.exact()


async def test_the_status_names_who_waits_for_a_place_until_it_has_one():
    bench = await Bench(provisioning={"large": 300.0}).started(TWO)
    bench.world.full_pools = {"large": 0}
    bench.world.nodes_added_at = bench.clock.now() + 60.0

    end = await bench.change({"match": {"small/250m": 2, "large/1": 1}})

    waits = [status.rescale.waits_for for status in bench.store.history if status.rescale]
    [reason] = {each for each in waits if each}
    assert reason == "match in pool large: 0/3 nodes are available"
    assert waits[-1] == end.waits_for == ""
    waiting = end.model_copy(update={"step": Step.START, "waits_for": reason})
    assert judge_progress(waiting).message.endswith(f". Kubernetes has no room for {reason}")


async def test_nodes_that_took_long_before_are_waited_for_longer_and_the_message_says_so():
    bench = await Bench(provisioning={"large": 100.0}).started(TWO)
    kept = bench.store.load().model_copy(update={"node_times": {"large": (80.0, 160.0, 90.0)}})
    await bench.store.save(kept)
    bench.world.full_pools = {"large": 0}
    began = bench.clock.now()

    end = await bench.change({"match": {"small/250m": 2, "large/1": 1}})

    assert end.step is Step.ABANDONED
    assert 240.0 <= bench.clock.now() - began < 242.0
    assert "in pool large, 3 earlier waits for a node took up to 160 s" in (end.failure or "")


def test_fast_nodes_never_shorten_the_wait_that_the_pool_states():
    settings = RescaleSettings(provisioning={"large": 300.0})

    assert settings.node_patience("large", {"large": (70.0, 80.0)}) == 300.0
    assert settings.node_patience("large", {"large": (250.0,)}) == 375.0
    assert settings.node_patience("small", {"small": (250.0,)}) == 0.0


def test_the_expected_time_of_a_node_ignores_one_of_ten():
    times = add_node_time({}, ["large"], 500.0)
    for seconds in range(61, 70):
        times = add_node_time(times, ["large"], seconds)
    assert expected_node_time(times["large"]) == 69.0
    for _ in range(20):
        times = add_node_time(times, ["large"], 90.0)
    assert times["large"] == (90.0,) * 20
    assert math.isnan(expected_node_time(()))


async def test_a_node_that_never_comes_is_waited_for_no_longer_than_the_pool_says():
    bench = await Bench(provisioning={"large": 300.0}).started(TWO)
    bench.world.full_pools = {"large": 0}
    began = bench.clock.now()

    end = await bench.change({"match": {"small/250m": 2, "large/1": 1}})

    assert end.step is Step.ABANDONED
    assert end.pending == (("match", "large"),)
    assert 300.0 <= bench.clock.now() - began < 302.0


async def test_a_pool_without_new_nodes_ends_the_wait_for_one_that_gets_some():
    bench = await Bench(provisioning={"large": 300.0}).started(TWO)
    bench.world.full_pools = {"large": 0, "small": 2}
    began = bench.clock.now()

    end = await bench.change({"match": {"small/250m": 3, "large/1": 1}})

    assert end.step is Step.ABANDONED
    assert bench.clock.now() - began < 2 * RescaleSettings().start_deadline


async def test_replicas_without_a_place_end_the_change_and_name_operator_and_pool():
    bench = await Bench().started(TWO)
    bench.world.full_pools = {"large": 0}

    end = await bench.change({"match": {"small/250m": 2, "large/1": 1}})

    [full] = bench.store.load().full
    assert end.step is Step.ABANDONED
    assert end.pending == (("match", "large"),)
    assert (full.operator, full.pool) == ("match", "large")
    assert "0/3 nodes" in full.reason
    assert full.until == bench.clock.now() + FULL_FOR
    assert bench.store.load().failed == ()
    assert deployments_of(bench.world.alive.values()) == TWO
    assert bench.exact()


def test_what_is_missing_is_started_at_the_sizes_that_nobody_has():
    alive = [a_replica("a", size="500m")]
    wanted = {"match": {"small/250m": 1, "small/500m": 1}}

    [spec] = missing_replicas(alive, wanted)

    assert spec.size == "250m"


NEW = Revision(places={"small": Place(memory=1024)})


def test_replicas_of_another_revision_are_stale_and_those_of_none_are_not():
    alive = [a_replica("a", revision="old"), a_replica("b", revision=NEW.id), a_replica("c")]

    assert stale_replicas(alive, NEW, ()) == ("a",)
    assert stale_replicas(alive, None, ("b",)) == ("b",)


def test_replicas_of_another_place_are_stale_and_those_that_name_none_are_not():
    there = NEW.place_id("match", "small")
    alive = [a_replica("a", place="elsewhere"), a_replica("b", place=there), a_replica("c")]

    assert stale_replicas(alive, NEW, ()) == ("a",)
