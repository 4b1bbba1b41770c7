"""What pods are made of follows the revision that runs, not the manifest of today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operator.runtime.pods.test_manifests import manifest, pods_for, pods_of, replica_set
from weir_operator.flink.job_graph import JobGraph
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.wiring import assembly


def changed(**pool):
    found = manifest()
    found["spec"]["nodePools"][0] |= pool
    return parse_manifest(found)


def revision_of(app):
    return assembly.revision_of(app, assembly.job_spec(app, beside=Path("/")))


def test_a_place_follows_the_revision_and_not_the_manifest_of_today():
    before = revision_of(changed())
    today = pods_for(changed(nodeSelector={"weir.dev/pool": "other"}, memory="4Gi"))

    spec = replica_set(today.with_revision(before))["spec"]["template"]["spec"]

    assert spec["nodeSelector"] == {"weir.dev/pool": "small"}
    assert spec["containers"][0]["resources"]["limits"]["memory"] == "1024Mi"


def memory_of(graph, operator, pool="large", managed=None):
    found = manifest()
    found["spec"]["operators"][0]["managedMemory"] = managed
    found["spec"]["operators"][0]["maxReplicas"] = 300
    app = parse_manifest(found)
    pods = pods_for(app)
    revision = revision_of(app).model_copy(update={"graph": graph})
    return pods.with_revision(revision).memory_of(operator, pool)


def test_managed_memory_goes_to_the_operators_that_use_it():
    graph = JobGraph(managed={"match": True, "sink": False})

    assert memory_of(graph, "match").managed == memory_of(None, "match").managed > 0
    assert memory_of(graph, "sink").managed == 0
    assert memory_of(None, "sink").managed > 0


def test_managed_memory_that_the_manifest_asks_for_is_had_whoever_uses_it():
    graph = JobGraph(managed={"match": False, "sink": False})

    for pool in ("small", "large"):
        assert memory_of(graph, "match", pool, managed="100Mi").managed == 100


def test_managed_memory_is_the_same_in_pools_that_differ():
    assert memory_of(None, "match", "large").managed == memory_of(None, "match", "small").managed
    assert memory_of(None, "match", "large").process == 2048
    assert memory_of(None, "match", "small").process == 1024


def test_network_memory_follows_the_streams_of_the_graph():
    graph = JobGraph(
        managed={"match": False, "sink": False},
        streams=(("match", "match", 3), ("match", "sink", 1)),
    )

    # 2 buffers of 32 KiB for each of 3 * 300 + 1 subtasks at the other end and 8 for each of 4
    # streams, in both directions; a sink hears from 300.
    assert memory_of(graph, "match").network == -(-2 * (2 * 901 + 8 * 4) // 32)
    assert memory_of(graph, "sink").network == -(-2 * (2 * 300 + 8) // 32)
    # Unread, each is taken to send to all.
    assert memory_of(None, "sink").network == -(-2 * (2 * 301 + 8 * 2) // 32)


def test_a_pool_that_the_revision_does_not_know_is_as_the_manifest_has_it():
    before = revision_of(changed())
    known = before.model_copy(update={"places": {"large": before.places["large"]}})

    pods = pods_of().with_revision(known)

    assert pods.place_named("small").node_selector == {"weir.dev/pool": "small"}


@pytest.mark.parametrize(
    "pool",
    [
        {"nodeSelector": {"weir.dev/pool": "other"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"memory": "768Mi"},
    ],
    ids=["nodeSelector", "tolerations", "memory"],
)
def test_a_changed_pool_is_another_place_and_says_so_on_its_pods(pool):
    before, after = revision_of(changed()), revision_of(changed(**pool))

    labels = replica_set(pods_of().with_revision(after))["spec"]["template"]["metadata"]["labels"]

    assert after.place_id("match", "small") != before.place_id("match", "small")
    assert after.place_id("match", "large") == before.place_id("match", "large")
    assert labels["weir.dev/place"] == after.place_id("match", "small")


def test_price_sizes_and_limits_of_a_pool_are_no_other_place():
    before = revision_of(changed())
    after = revision_of(changed(price="1", sizes=["250m"], maxReplicas=3, speedup="2"))

    assert after == before


@pytest.mark.parametrize(
    "flink",
    [
        {"jobManager": {"cpu": "1"}},
        {"jobManager": {"memory": "2Gi"}},
        {"jobManager": {"pool": "large"}},
        {"storage": {"uri": "s3://state"}},
    ],
    ids=["cpu", "memory", "pool", "storage"],
)
def test_another_job_manager_or_storage_is_another_revision(flink):
    before = revision_of(parse_manifest(manifest()))
    after = revision_of(parse_manifest(manifest(**flink)))

    pods = pods_of().with_revision(after)

    assert after.id != before.id
    assert pods.revision == after.id
    assert pods.make == pods_of(**flink).make


def test_a_revision_that_names_no_storage_has_that_of_the_manifest():
    named = revision_of(changed())
    silent = named.model_copy(update={"processes": {"image": "example/trips:1"}})

    assert pods_of().with_revision(silent).make.claim == "state"
