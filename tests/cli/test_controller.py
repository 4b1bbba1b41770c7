import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from tests.pipelines.known_history import KnownJob, write_day
from weir_cli.controller import open_history
from weir_cli.main import app
from weir_operator.errors import TemporaryError
from weir_pipelines.store import Partition


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Leave the logging of the tests' process as it is."""
    monkeypatch.setattr("weir_operator.cluster.process.logs.send_logs", lambda **_: None)


def test_a_prometheus_label_without_a_value_is_refused_with_an_example(tmp_path):
    options = ["--state", str(tmp_path), "--prometheus", "http://p", "--prometheus-label", "north"]

    result = CliRunner().invoke(app, ["controller", *options])

    assert result.exit_code == 1
    assert "expected KEY=VALUE, got 'north'" in result.output


def test_two_ways_to_log_in_to_prometheus_are_refused(tmp_path, monkeypatch):
    started = []

    async def note(settings):
        started.append(settings)

    monkeypatch.setattr("weir_operator.cluster.process.running.run_on_cluster", note)
    options = [
        *("--state", str(tmp_path), "--prometheus", "http://p"),
        *("--prometheus-token-file", "token", "--prometheus-basic-auth", "password"),
    ]

    result = CliRunner().invoke(app, ["controller", *options])

    assert result.exit_code == 1
    assert "--prometheus-basic-auth" in result.output
    assert started == []


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
    assert "Expected write access to /proc" in said
    assert "choose another state folder" in said


COUNT_FILES = """
import resource, sys
from weir_cli.main import app
from weir_operator.cluster.process import running

async def count(settings):
    files = [open("/dev/null") for _ in range(300)]
    print("opened", len(files))

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512))
running.run_on_cluster = count
app(["controller", "--state", sys.argv[1]])
"""


def test_the_controller_opens_more_files_than_the_system_allows_at_first(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", COUNT_FILES, tmp_path], capture_output=True, text=True, check=False
    )

    assert ran.stdout == "opened 300\n", ran.stderr


def test_a_folder_of_history_is_where_the_controller_looks_for_more_of_a_job(tmp_path, monkeypatch):
    write_day(
        tmp_path / "tables",
        Partition("streams/trips", datetime.now(UTC).date() - timedelta(days=1)),
        KnownJob(rate=lambda _: 40.0),
    )
    told = []

    async def note(settings):
        told.append(settings)

    monkeypatch.setattr("weir_operator.cluster.process.running.run_on_cluster", note)

    CliRunner().invoke(
        app, ["controller", "--state", str(tmp_path), "--history", str(tmp_path / "tables")]
    )

    [settings] = told
    where = {"operators": ["match"], "node_types": ["small/1"]}
    assert len(settings.history.read("streams/trips", **where).samples.intervals) == 288
    assert settings.history.seasons("streams/trips") == {}
    with pytest.raises(TemporaryError, match="expected arrivals of 'other', got none"):
        settings.history.read("other", **where)


def test_history_that_cannot_be_read_is_not_used_and_a_mistake_of_weirs_own_is_not_hidden(
    tmp_path, monkeypatch
):
    history = open_history(tmp_path)
    foreign = tmp_path / "profiles/v1/app=streams%2Ftrips/day=yesterday/profiles.parquet"
    foreign.parent.mkdir(parents=True)
    foreign.touch()

    with pytest.raises(TemporaryError, match="day=yesterday: expected a folder of a day"):
        history.seasons("streams/trips")

    monkeypatch.setattr("weir_pipelines.history.read_seasons", lambda *_, **__: int("a mistake"))
    with pytest.raises(ValueError, match="a mistake"):
        history.seasons("streams/trips")
