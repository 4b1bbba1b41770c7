"""A revision keeps its id through refactorings: every process of every job carries it.

Another id for the same manifest upgrades all jobs of a cluster when a newer Weir comes: each is
stopped with a savepoint and started again. Where a test here fails, do not write the new id into
it, but keep what is hashed as it was (a new field, for example, is left out where it has its
default); see `Revision.id`.
"""

from __future__ import annotations

from pathlib import Path

from weir_operator.flink.job_graph import JobGraph
from weir_operator.runtime.places import Place
from weir_operator.runtime.revision import AgentImage, Revision
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.wiring import assembly

SMALL = Place(
    node_selector={"weir.dev/pool": "small"},
    tolerations=({"key": "dedicated", "operator": "Equal", "value": "streams"},),
    memory=1024,
)
REVISION = Revision(
    entry_class="example.Trips",
    arguments=("--window", "5m"),
    parallelism_arguments={"match": "--match-parallelism"},
    processes={
        "image": "example/trips:1.4",
        "config": {"state.backend.type": "rocksdb"},
        "storage": {"claim": "trips-state"},
    },
    job_manager=Place(memory=1024, cpu="500m"),
    places={"small": SMALL},
    managed_memory={"match": 128},
)
MANIFEST = {
    "apiVersion": "weir.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "trips", "namespace": "streams"},
    "spec": {
        "flink": {
            "image": "example/trips:1.4",
            "job": {"entryClass": "example.Trips", "args": ["--window", "5m"]},
            "storage": {"claim": "trips-state"},
            "config": {"state.backend.type": "rocksdb"},
            "podTemplate": {
                "metadata": {"labels": {"team": "rides"}},
                "spec": {"serviceAccountName": "trips"},
            },
        },
        "objective": {"responseTime": "500ms"},
        "nodePools": [
            {"name": "small", "sizes": ["250m", "1"], "nodeSelector": {"weir.dev/pool": "small"}}
        ],
        "operators": [{"name": "match", "maxReplicas": 4, "managedMemory": "128Mi"}],
    },
}


def of_manifest():
    app = parse_manifest(MANIFEST)
    return assembly.revision_of(app, assembly.job_spec(app, beside=Path("/")))


def test_a_revision_has_the_id_that_processes_of_earlier_versions_carry():
    assert REVISION.id == "2598b8abdc"


def test_a_job_on_one_machine_has_the_id_that_its_processes_carry():
    assert REVISION.model_copy(update={"job_manager": None, "places": {}}).id == "2e445ed07c"


def test_a_revision_without_anything_has_its_id_too():
    assert Revision().id == "bf026da615"


def test_places_have_the_names_that_replicas_of_earlier_versions_carry():
    assert REVISION.fingerprint == "2598b8abdc-9ebbfd3ddc"
    assert REVISION.place_id("match", "small") == "8b4bb8f1aa"


def test_a_manifest_makes_the_revision_that_it_has_always_made():
    made = of_manifest()

    assert made.id == "ab28bd1c87"
    assert made.fingerprint == "ab28bd1c87-5354e55ff7"
    assert made.place_id("match", "small") == "9799e42d10"


def test_what_is_learned_of_a_job_does_not_rename_it():
    known = REVISION.model_copy(update={"graph": JobGraph(managed={"match": True}, streams=())})

    assert (known.id, known.fingerprint) == (REVISION.id, REVISION.fingerprint)


def test_what_operators_are_made_of_is_no_upgrade_but_is_told_apart():
    joined = REVISION.model_copy(update={"vertices": {"job": ("match", "sink")}})
    known = joined.model_copy(update={"graph": JobGraph()})

    assert joined.id == REVISION.id
    assert joined.fingerprint != REVISION.fingerprint
    assert joined.knowing(known).graph == JobGraph()
    assert REVISION.knowing(known).graph is None  # it is of other operators


def test_where_the_agent_came_from_is_kept_and_is_no_upgrade():
    ran = AgentImage(image="example/weir:1", digest="1" * 64)
    newer = AgentImage(image="example/weir:2", digest="2" * 64)
    running = REVISION.model_copy(update={"agent": ran})
    asked = REVISION.model_copy(update={"agent": newer})

    assert (asked.id, asked.fingerprint) == (REVISION.id, REVISION.fingerprint)
    assert asked.knowing(running) == running, "there is nothing to change"
    assert asked.knowing(REVISION).agent == newer
    assert Revision.model_validate_json(running.model_dump_json()) == running


def test_a_revision_of_before_agents_were_recorded_is_read():
    stored = REVISION.model_dump(mode="json", exclude={"agent"})

    assert Revision.model_validate(stored).agent is None
