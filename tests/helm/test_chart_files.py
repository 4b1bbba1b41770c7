"""Files of the chart that are made from others are fresh."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

import pytest

from tests.helm.program import CHART

SCRIPT = CHART.parents[1] / "scripts/chart.py"


@pytest.fixture
def script(tmp_path):
    """The script, at work on a copy of the chart and the CRD."""
    for folder in ("helm", "crds", "scripts"):
        shutil.copytree(SCRIPT.parents[1] / folder, tmp_path / folder)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(tmp_path / "scripts/chart.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


def test_a_changed_crd_and_a_changed_value_make_them_stale(script, tmp_path):
    script()
    crd = tmp_path / "crds/weir.dev_streamapps.yaml"
    crd.write_text(crd.read_text() + "# changed\n")
    values = tmp_path / "helm/weir/values.yaml"
    values.write_text(values.read_text().replace("logFormat: json", "logFormat: text"))

    checked, written, checked_again = script("--check"), script(), script("--check")

    assert checked.returncode == 1
    assert checked.stdout.splitlines() == [
        "helm/weir/files/crds/weir.dev_streamapps.yaml is stale: write it again with make chart",
        "helm/weir/README.md is stale: write it again with make chart",
    ]
    assert written.returncode == checked_again.returncode == 0
    assert '| `"text"` |' in (tmp_path / "helm/weir/README.md").read_text()


def test_a_value_without_a_comment_is_an_error():
    spec = importlib.util.spec_from_file_location("chart_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = "# Told.\na: 1\n\nsection:\n  b: 2\n"

    with pytest.raises(ValueError, match=r"section\.b has no comment"):
        list(module.documented_values(text))
