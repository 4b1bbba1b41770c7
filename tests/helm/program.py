"""The program `helm` for the tests: given, found, kept from an earlier run, or built from source.

Taken from the path that `HELM` names; else from the PATH, where that is a Helm 3; else from
`build/helm`; else built there from the Go module that `go/go.mod` pins, once for each content of
that file. It has a module of its own because Helm and the API server of the tests ask for different
versions of the same libraries.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api import assets
from tests.api.assets import MissingProgramError

_REPOSITORY = Path(__file__).parents[2]
CHART = _REPOSITORY / "helm/weir"
KUBERNETES = "1.34.2"
"""The version that charts are rendered for."""
_MODULE = Path(__file__).parent / "go"
_PACKAGE = "helm.sh/helm/v3/cmd/helm"


def find_or_build_helm(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the program, built first where this machine has none.

    Raises:
        MissingProgramError: It is not where `HELM` says, or must be built and there is no Go.
        RuntimeError: The build failed; holds the end of what it wrote.
    """
    given = environment.get("HELM")
    if given:
        if not Path(given).is_file():
            raise MissingProgramError(
                f"expected Helm at HELM={given}, found nothing: correct the path, or unset it to "
                "have it built"
            )
        return Path(given)
    found = shutil.which("helm", path=environment.get("PATH"))
    if found and _is_helm_3(found):
        return Path(found)
    pinned = (_MODULE / "go.mod").read_bytes() + (_MODULE / "go.sum").read_bytes()
    built = _REPOSITORY / "build/helm" / hashlib.sha256(pinned).hexdigest()[:12] / "helm"
    if not built.is_file():
        if shutil.which("go") is None:
            raise MissingProgramError(
                "Go was not found, which Helm is built with: install it (on Debian golang-go), or "
                "name a Helm 3 in HELM"
            )
        assets.build_program(module=_MODULE, package=_PACKAGE, output=built)
    return built


def render_chart(namespace: str, *options: str) -> list[dict[str, Any]]:
    """Return the objects of the chart as the release `weir`; without Helm, the test is skipped."""
    try:
        helm = find_or_build_helm()
    except MissingProgramError as error:
        pytest.skip(str(error))
    command = [str(helm), "template", "weir", str(CHART), "--namespace", namespace,
               "--kube-version", KUBERNETES, *options]  # fmt: skip
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [each for each in yaml.safe_load_all(text) if each is not None]


def _is_helm_3(program: str) -> bool:
    version = subprocess.run([program, "version", "--short"], capture_output=True, text=True,
                             check=False)  # fmt: skip
    return version.stdout.startswith("v3.")
