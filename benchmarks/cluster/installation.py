"""Weir on a cluster as a user installs it: the definition, and the chart by Helm.

All nodes must have the image `weir:dev`, or the one that `WEIR_TEST_CONTROLLER_IMAGE` names.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import yaml

from weir_operator.api.client import KubernetesApi
from weir_operator.flink.jars import REPOSITORY

IMAGE = os.environ.get("WEIR_TEST_CONTROLLER_IMAGE", "weir:dev")
RELEASE = "weir"
CRD = "streamapps.weir.dev"


async def apply_definition(api: KubernetesApi) -> None:
    """Apply the definition of StreamApps; it is the cluster's, and stays."""
    crd = yaml.safe_load((REPOSITORY / "crds/weir.dev_streamapps.yaml").read_text())
    await api.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}", crd)


def install_chart(
    namespace: str, *, watched: str, values: Mapping[str, Any], helm: str | Path = "helm"
) -> None:
    """Install the chart without the definition, and wait until its controller is ready."""
    repository, _, tag = IMAGE.rpartition(":")
    given = {
        "image": {"repository": repository, "tag": tag},
        "watchNamespaces": [watched],
        "state": {"enabled": False},
        "crds": {"enabled": False},
        **values,
    }
    _run_with("install", given, "--create-namespace", namespace=namespace, helm=helm)


def upgrade_chart(namespace: str, values: Mapping[str, Any]) -> None:
    """Change values of the installed chart, and wait until its controllers are ready."""
    _run_with("upgrade", values, "--reuse-values", namespace=namespace, helm="helm")


def _run_with(
    command: str, values: Mapping[str, Any], *more: str, namespace: str, helm: str | Path
) -> None:
    with NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        run_helm(
            *(command, RELEASE, str(REPOSITORY / "helm/weir"), "-f", file.name),
            *("--wait", "--timeout", "3m", *more),
            namespace=namespace,
            helm=helm,
        )


def run_helm(*arguments: str, namespace: str, helm: str | Path = "helm") -> None:
    command = [str(helm), *arguments, "--namespace", namespace]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
