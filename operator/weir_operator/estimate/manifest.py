"""The StreamApp to begin with, in mode Advise, of a job that was estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir_operator.limits import Json
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.section import LONGEST_NAME
from weir_policies.model.node_types import NodeType
from weir_simulator.naming import plain_name


def describe_streamapp(
    job: str,
    *,
    namespace: str,
    bound: float,
    statistic: str,
    policy: str,
    node_types: Sequence[NodeType],
    replicas: Mapping[str, int],
) -> dict[str, Json]:
    """Return a manifest that `weir validate` accepts.

    Args:
        job: Name of the job; the FlinkDeployment is taken to be called like it.
        namespace: Where that is.
        bound: Seconds of the objective.
        statistic: As a manifest has it, such as `P95`.
        policy: Name.
        node_types: What was estimated with.
        replicas: The most of each operator.

    Raises:
        ManifestError: A node type cannot be one of a StreamApp.
    """
    name = plain_name(job, longest=LONGEST_NAME, otherwise="job")
    text = f"{bound * 1000:g}ms"
    time: Json = text if statistic == "Mean" else {"bound": text, "statistic": statistic}
    pools: dict[str, dict[str, Json]] = {}
    for each in node_types:
        pool, _, size = each.name.partition("/")
        size = size or "1"
        cores = float(size[:-1]) / 1000 if size.endswith("m") else float(size)
        found = pools.setdefault(pool, {"name": pool, "sizes": []})
        found["sizes"].append(size)
        if each.price > 0:
            found["price"] = f"{each.price / cores:.6f}".rstrip("0").rstrip(".")
        if len(node_types) > 1 and each.speedup != cores:
            found["speedup"] = f"{each.speedup / cores:g}"
        if each.pool_limit is not None:
            found["maxReplicas"] = each.pool_limit
    spec: dict[str, Json] = {
        "mode": "Advise",
        "flink": {"ref": {"kind": "FlinkDeployment", "name": name}},
        "objective": {"responseTime": time},
        "nodePools": list(pools.values()),
        "operators": [
            {"name": operator, "maxReplicas": most} for operator, most in replicas.items()
        ],
    }
    if policy != "planner":
        spec["operatorManager"] = {"policy": {"name": policy}}
    manifest = {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    parse_manifest(manifest)
    return manifest
