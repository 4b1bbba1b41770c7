"""A job on a cluster whose operators `weir graph` has found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from benchmarks.cluster.place import CLAIM, IMAGE, Place
from tests.cluster.jvm_options import FLINK_CONFIG
from weir_operator.flink.jars import build_programs

RESCALE = {"startDeadline": "180s", "submitDeadline": "90s", "savepointDeadline": "60s"}
"""The machine may be busy."""


def find_operators(*program: str) -> list[dict[str, Any]]:
    """Ask `weir graph` for the operators of a program with its arguments."""
    build_programs()
    printed = subprocess.run(
        [str(Path(sys.executable).with_name("weir")), "graph", *program],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    found: list[dict[str, Any]] = yaml.safe_load(printed.stdout)["operators"]
    return found


def stream_app(place: Place, name: str, job: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the StreamApp; the image has Flink alone."""
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name, "namespace": place.namespace},
        "spec": {
            "mode": "Auto",
            "flink": {
                "image": IMAGE,
                "config": FLINK_CONFIG,
                "job": job,
                "storage": {"claim": CLAIM},
                "maxParallelism": 128,
                "jobManager": {"cpu": "500m", "memory": "1Gi"},
            },
            "nodePools": [{"name": "any", "sizes": ["250m"], "memory": "1Gi"}],
            "operatorManager": {"interval": "8s"},
            "applicationManager": {"restartBudget": {"size": 5, "refillEvery": "20s"}},
            "rescale": RESCALE,
            **spec,
        },
    }
