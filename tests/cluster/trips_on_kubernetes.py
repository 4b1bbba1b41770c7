"""The example job as it runs on a cluster in a place of its own."""

from __future__ import annotations

from typing import Any

import yaml

from benchmarks.cluster.place import CLAIM, IMAGE, Place
from tests.cluster.jvm_options import FLINK_CONFIG
from weir_operator.flink.jars import REPOSITORY
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp

NAME = "trips"


RATE = 10.0
"""Records/s."""


def trips_app(place: Place) -> StreamApp:
    """Return the example's StreamApp as it runs in `place`."""
    manifest: dict[str, Any] = yaml.safe_load(
        (REPOSITORY / "examples/trips/streamapp.yaml").read_text()
    )
    manifest["metadata"] |= {"name": NAME, "namespace": place.namespace}
    flink = manifest["spec"]["flink"]
    flink["image"] = IMAGE
    flink["storage"] = {"claim": CLAIM}
    flink["config"] = FLINK_CONFIG
    flink["jobManager"] = {"cpu": "500m", "memory": "1Gi"}
    flink["job"] |= {"jar": "/opt/flink/usrlib/trips.jar"}
    flink["job"]["args"] = [
        *("--trace", "/opt/flink/usrlib/trace.txt", "--scale", str(RATE / 40)),
        *("--at-end", "hold", "--out", place.inside(place.state / "out")),
        *("--service.match-ms", "30", "--service.aggregate-ms", "20"),
    ]
    manifest["spec"]["rescale"] = {"startDeadline": "120s", "submitDeadline": "90s"}
    for pool in manifest["spec"]["nodePools"]:
        if pool["name"] == "large":
            pool["nodeSelector"] = {"weir.dev/pool": "large"}
            pool["sizes"] = ["500m", "1"]  # others use the cluster too
    for operator in manifest["spec"]["operators"]:
        if "fixed" not in operator:
            del operator["initial"]
    return parse_manifest(manifest)
