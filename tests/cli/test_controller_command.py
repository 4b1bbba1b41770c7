"""`weir controller` refuses what it cannot work with, in a sentence."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from weir_cli.main import app


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Leave the logging of the tests' process as it is."""
    monkeypatch.setattr("weir_operator.cluster.logs.send_logs_to_stderr", lambda **_: None)


def test_a_prometheus_label_without_a_value_is_refused_with_an_example(tmp_path):
    options = ["--state", str(tmp_path), "--prometheus", "http://p", "--prometheus-label", "north"]

    result = CliRunner().invoke(app, ["controller", *options])

    assert result.exit_code == 1
    assert "expected KEY=VALUE, got 'north'" in result.output


def test_without_a_cluster_it_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(
        "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none")
    )

    result = CliRunner().invoke(app, ["controller", "--state", str(tmp_path)])

    assert result.exit_code == 1
    assert "set KUBECONFIG" in result.output


def test_a_state_folder_that_is_there_and_cannot_be_written_is_refused_at_the_start():
    result = CliRunner().invoke(app, ["controller", "--state", "/proc"])

    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "Expected /proc to be writable" in said
    assert "choose another state folder" in said
