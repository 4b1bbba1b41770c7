"""A controller that has lost its Lease has no program run by a JobManager."""

from __future__ import annotations

import pytest

from tests.operator.runtime.pods.test_manifests import pods_of
from weir_operator.api.client import KubernetesApi
from weir_operator.api.leader import LeaseLostError
from weir_operator.flink.jars import build_programs
from weir_operator.runtime.pods.nodes import NodeNotices
from weir_operator.runtime.pods.runtime import KubernetesRuntime


@pytest.fixture
def fenced():
    build_programs()

    async def lost():
        raise LeaseLostError("lost")

    api = KubernetesApi().guarded(lost)
    return KubernetesRuntime(api, pods_of(), NodeNotices(api))


@pytest.mark.parametrize(
    "work",
    [
        lambda runtime: runtime.snapshots("a" * 32),
        lambda runtime: runtime.remove_empty_folders(["a" * 32]),
    ],
    ids=["looks", "removes"],
)
async def test_no_program_is_run_once_the_lease_is_lost(fenced, work):
    with pytest.raises(LeaseLostError):
        await work(fenced)
