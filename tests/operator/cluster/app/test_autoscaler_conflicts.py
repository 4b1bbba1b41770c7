"""A second autoscaler on the same job is found and named, with the way to end it."""

import pytest

from tests.operator.advise.fakes import FakeCluster
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.api.client import RefusedByKubernetesError
from weir_operator.cluster.app.autoscaler_conflicts import (
    Scalers,
    find_other_autoscalers,
    foreign_workloads,
    read_scalers,
    refuse_scaling,
)
from weir_operator.streamapp.models import Mode

HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
SCALED = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
MINE = (("ReplicaSet", "trips-match-small"), ("Deployment", "trips-jobmanager"))
REF = {"ref": {"kind": "FlinkDeployment", "name": "trips"}}


def a_scaler(name, kind, target, *, owner=None):
    return {
        "metadata": {"name": name, "ownerReferences": [{"kind": owner}] if owner else []},
        "spec": {"scaleTargetRef": {"kind": kind, "name": target} if kind else {"name": target}},
    }


def find(app=None, *, workloads=MINE, scalers=None, **more):
    app = app or a_stream_app()
    return find_other_autoscalers(app, workloads=workloads, scalers=scalers or Scalers(), **more)


def test_a_job_that_weir_alone_scales_has_no_other_autoscaler():
    others = Scalers(horizontal=(a_scaler("web", "Deployment", "trips-match-small"),))

    assert find(scalers=others) == ()  # of that name, but of another kind


def test_an_hpa_on_a_workload_of_the_app_is_named():
    scalers = Scalers(horizontal=(a_scaler("busy", "ReplicaSet", "trips-match-small"),))

    (found,) = find(scalers=scalers)

    assert found.startswith("HorizontalPodAutoscaler busy scales ReplicaSet trips-match-")


@pytest.mark.parametrize(("mode", "refusal"), [(Mode.AUTO, "a; b"), (Mode.ADVISE, "")])
def test_scaling_is_refused_and_advice_is_not(mode, refusal):
    assert refuse_scaling(mode, {"b", "a"}) == refusal


def test_keda_is_named_once_though_it_makes_an_hpa_of_its_own():
    scalers = Scalers(
        scaled_objects=(a_scaler("lag", None, "trips-jobmanager"),),
        horizontal=(
            a_scaler("keda-hpa-lag", "Deployment", "trips-jobmanager", owner="ScaledObject"),
        ),
    )

    (found,) = find(scalers=scalers)

    assert found.startswith("ScaledObject lag ")


@pytest.mark.parametrize(
    "key", ["job.autoscaler.enabled", "kubernetes.operator.job.autoscaler.enabled"]
)
def test_flinks_own_autoscaler_is_told_of_and_advice_goes_on(key):
    app = a_stream_app(mode="Advise", flink=REF)

    (found,) = find(app, workloads=foreign_workloads(app), configuration={key: "true"})

    assert f"{key}: true" in found


def test_reactive_mode_is_an_autoscaler_too():
    (found,) = find(configuration={"scheduler-mode": "REACTIVE"})

    assert "scheduler-mode: reactive" in found


def test_an_autoscaler_that_is_switched_off_is_none():
    assert find(configuration={"job.autoscaler.enabled": "false"}) == ()


@pytest.mark.parametrize(
    ("ref", "kind", "target"),
    [
        ("FlinkDeployment", "FlinkDeployment", "trips"),
        ("FlinkDeployment", "Deployment", "trips-taskmanager"),
        ("FlinkBlueGreenDeployment", "FlinkDeployment", "trips-green"),
        ("FlinkBlueGreenDeployment", "Deployment", "trips-blue-taskmanager"),
    ],
)
def test_whatever_scales_a_flink_deployment_is_found(ref, kind, target):
    app = a_stream_app(mode="Advise", flink={"ref": {"kind": ref, "name": "trips"}})
    scalers = Scalers(horizontal=(a_scaler("hpa", kind, target),))

    (found,) = find(app, workloads=foreign_workloads(app), scalers=scalers)

    assert found.startswith("HorizontalPodAutoscaler hpa ")


def test_a_second_stream_app_for_the_same_job_is_named():
    app = a_stream_app(mode="Advise", flink=REF)

    (found,) = find(app, workloads=foreign_workloads(app), others={"trips-again"})

    assert found.startswith("StreamApp trips-again ")


async def test_a_cluster_without_keda_has_no_scaled_objects():
    hpa = a_scaler("hpa", "Deployment", "x")

    found = await read_scalers(FakeCluster({HPAS: [hpa]}), "default")

    assert found == Scalers(horizontal=(hpa,))


async def test_a_kind_that_may_not_be_read_has_none():
    class Closed(FakeCluster):
        async def list(self, path, labels="", fields=""):
            if path == SCALED:
                raise RefusedByKubernetesError("scaledobjects is forbidden", 403)
            return await super().list(path, labels, fields)

    found = await read_scalers(Closed({HPAS: []}), "default")

    assert found == Scalers()
