"""`weir estimate` from a real Prometheus, from Parquet, and from Weir's own records."""

import json
import shutil
import socket
import subprocess
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
import yaml
from typer.testing import CliRunner

from benchmarks.policies.made_up_job import BEGIN, MadeUpJob, Run, serving, write_blocks
from tests.cli.recorded import a_tick
from weir_cli.main import app
from weir_operator.loop.record import RECORDS, RecordStore
from weir_operator.streamapp.loading import parse_manifest
from weir_policies.model.estimation import ServiceMeasurement
from weir_simulator.experiment import Experiment, NodeType, Objective, Operator, TraceSource
from weir_simulator.experiment_files import write_experiment
from weir_simulator.fitting.samples import IntervalSample, OperatorSample
from weir_simulator.traces import write_trace

HOURS = 3
START, END = "2026-09-21T00:00:00", "2026-09-21T03:00:00"
JOB = MadeUpJob(runs=(Run(end=3600.0 * HOURS, parallelism=8),), slots_each=2)


def weir(*arguments):
    return CliRunner().invoke(app, ["estimate", *map(str, arguments)])


def in_prometheus(series, folder):
    write_blocks(series, folder)
    return serving(folder, "--query.max-samples=40000")


@contextmanager
def in_victoria_metrics(series, folder):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    url = f"http://{address}"
    command = [
        "victoria-metrics",
        f"-storageDataPath={folder / 'data'}",
        f"-httpListenAddr={address}",
        "-retentionPeriod=100y",
        "-search.maxPointsPerTimeseries=100",
    ]
    samples = "\n".join(
        f"{each.name}{{{labels_of(each)}}} {value} {round(1000 * time)}"
        for each in series
        for time, value in zip(each.times.tolist(), each.values.tolist(), strict=True)
    )
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while not answers(f"{url}/health"):
            assert process.poll() is None, (folder / "log").read_text()
        requests.post(f"{url}/api/v1/import/prometheus", data=samples).raise_for_status()
        # What is imported can be read only after a flush.
        requests.get(f"{url}/internal/force_flush").raise_for_status()
        yield url
    finally:
        process.terminate()
        process.wait()


def labels_of(series):
    return ",".join(f'{name}="{value}"' for name, value in series.labels.items())


def answers(url):
    try:
        return requests.get(url).ok
    except requests.ConnectionError:
        return False


SERVERS = {
    "prometheus": (in_prometheus, ("prometheus", "promtool")),
    "victoria-metrics": (in_victoria_metrics, ("victoria-metrics",)),
}


@pytest.fixture(scope="module", params=SERVERS)
def server(request, tmp_path_factory):
    """Run a server with the made-up job, and another job; yield its address."""
    start, programs = SERVERS[request.param]
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing: apt-get install {request.param} (Debian)")
    other = MadeUpJob(name="fraud", runs=(Run(end=3600.0, job_id="f"),))
    series = [*JOB.series(), *other.series()]
    with start(series, tmp_path_factory.mktemp(request.param)) as url:
        yield url


@pytest.mark.prometheus
def test_the_bill_of_a_job_comes_from_a_server_that_limits_its_queries(server, tmp_path):
    report = tmp_path / "estimate.html"

    result = weir(
        "--prometheus", server, "--job", "trips", "--objective", "500ms", "--start", START,
        "--end", END, "--price", "0.5", "--json", "--report", report,
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    bill = json.loads(result.stdout)
    was, would = bill["lines"]
    assert bill["job"] == "trips"
    assert bill["hours"] == pytest.approx(HOURS, abs=0.05)
    assert was["costPerHour"]["value"] == pytest.approx(4 * 0.5)
    assert was["costPerMonth"]["value"] == pytest.approx(730 * 4 * 0.5)
    assert would["policy"] == "planner"
    assert 0 < would["costPerHour"]["low"] <= would["costPerHour"]["value"] < 1.5
    assert len(bill["assumptions"]) == 3
    page = report.read_text()
    assert "Estimate for trips" in page
    assert "As it was, per month" in page


@pytest.mark.prometheus
def test_the_streamapp_to_begin_with_is_printed(server):
    result = weir(
        "--prometheus", server, "--job", "trips", "--objective", "p95=500ms", "--start", START,
        "--end", END, "--policy", "queueing", "--streamapp",
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    manifest = yaml.safe_load(result.stdout)
    assert manifest["spec"]["mode"] == "Advise"
    assert manifest["spec"]["objective"]["responseTime"] == {"bound": "500ms", "statistic": "P95"}
    assert {each.name for each in parse_manifest(manifest).spec.operators} == {
        "source-trips", "match", "sink-out",
    }  # fmt: skip


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--job: expected one of fraud, trips, got none"),
        (["--job", "nonsense"], "--job: expected one of fraud, trips, got nonsense"),
        (["--job", "trips", "--match", "cluster=eu"], "with these labels"),
    ],
)
def test_a_job_that_is_not_clear_is_asked_for(server, arguments, sentence):
    result = weir(
        "--prometheus", server, "--objective", "500ms", "--start", START, "--end", END, *arguments
    )

    assert result.exit_code == 1
    assert sentence in result.stderr


@pytest.mark.prometheus
def test_an_id_names_a_job_as_well_as_its_name(server):
    result = weir(
        "--prometheus", server, "--objective", "1s", "--start", START, "--end", END,
        "--job", "f", "--policy", "queueing", "--json",
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["hours"] == pytest.approx(1, abs=0.05)


@pytest.fixture
def parquet(tmp_path):
    """The made-up job as a remote-write receiver stores it, in no order."""
    rows = [
        {
            "name": each.name,
            "labels": list(each.labels.items()),
            "time_ms": round(time * 1000),
            "value": value,
        }
        for each in MadeUpJob(runs=(Run(end=3600.0 * HOURS),), every=60).series()
        for time, value in zip(each.times.tolist(), each.values.tolist(), strict=True)
    ]
    schema = pa.schema(
        {
            "name": pa.string(),
            "labels": pa.map_(pa.string(), pa.string()),
            "time_ms": pa.int64(),
            "value": pa.float64(),
        }
    )
    path = tmp_path / "metrics.parquet"
    pq.write_table(pa.Table.from_pylist(rows[::-1], schema=schema), path)
    return path


def test_parquet_says_the_same(parquet):
    result = weir(parquet, "--objective", "500ms", "--policy", "queueing")

    assert result.exit_code == 0, result.output
    assert "trips, 3.0 hours from 2026-09-21 00:00 UTC" in result.stdout
    assert "By queueing, the job would have cost" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--objective", "1s"],
            "Expected either --prometheus URL or one APP|FILE|DIR, got neither",
        ),
        (["a/b", "--prometheus", "http://x", "--objective", "1s"], "got both"),
        (["a/b", "--objective", "fast"], "--objective: expected"),
        (["a/b", "--objective", "p50=1s"], "expected a statistic out of mean, p95, p99, got 'p50'"),
        (["a/b", "--objective", "1s", "--price", "cheap"], "--price: expected a price above 0"),
        (["a/b", "--objective", "1s", "--policy", "nonsense"], "nonsense"),
        (["a/b", "--objective", "1s", "--match", "x"], "--match: expected KEY=VALUE, got 'x'"),
        (["a/b", "--start", "-1h", "--end", "-2h"], "--start: expected a time before --end"),
        (["a/b", "--objective", "1s"], "Expected decision records of 'a/b'"),
        (["no.parquet", "--objective", "1s"], "no.parquet: expected Parquet of samples"),
        (
            ["--prometheus", "http://127.0.0.1:9", "--objective", "1s"],
            "Prometheus at 127.0.0.1:9 cannot be reached",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_its_remedy(tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)

    result = weir(*arguments)

    assert result.exit_code == 1
    assert sentence in result.stderr.replace("\n", " ")


def test_without_an_objective_nothing_is_simulated(parquet):
    result = weir(parquet)

    assert result.exit_code == 1
    assert "--objective: expected the response time that the job must meet" in result.stderr


def test_node_types_come_from_a_file(parquet, tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "nodeTypes:\n- {name: old/1, speedup: 1, price: 0.10}\n"
        "- {name: new/1, speedup: 2, price: 0.12}\n"
    )

    result = weir(parquet, "--objective", "1s", "--policy", "queueing", "--price", prices, "--json")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["lines"][0]["costPerHour"]["value"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nodeTypes: [{name: old/1, speedup: -1, price: 0.1}]", "nodeTypes.0.speedup"),
        ("nodeTypes: [{name: old/1, speedup: 1, price: 0}]", "prices above 0, got old/1"),
        ("nodeTypes: []", "prices above 0, got none"),
        ("prices: 1", "to be YAML with nodeTypes"),
    ],
)
def test_a_mistake_in_a_file_of_prices_names_its_place(tmp_path, text, sentence):
    prices = tmp_path / "prices.yaml"
    prices.write_text(text)

    result = weir("a/b", "--objective", "1s", "--price", prices)

    assert result.exit_code == 1
    assert sentence in result.stderr


def test_samples_without_vertices_are_refused(parquet):
    result = weir(parquet, "--objective", "1s", "--match", "task_name=nothing")

    assert result.exit_code == 1
    assert "expected samples of Flink's vertices, got none" in result.stderr


@pytest.mark.parametrize("objective", [(), ("--objective", "1s")])
def test_a_streamapp_is_estimated_from_its_records(tmp_path, objective):
    folder = tmp_path / "a.b"
    (folder / "fitted").mkdir(parents=True)
    write_trace(folder / "fitted" / "trace.txt", np.full(120, 100.0))
    experiment = Experiment(
        operators=(Operator(name="match", service_rate=100.0, max_replicas=10),),
        node_types=(NodeType(name="small/1", speedup=1.0, price=0.5),),
        objective=Objective(response_time=0.5),
        trace=TraceSource(file=folder / "fitted" / "trace.txt"),
    )
    write_experiment(experiment, folder / "fitted" / "experiment.yaml")
    store = RecordStore(folder / RECORDS)
    service = ServiceMeasurement(node_type="small/1", records=6000.0, mean=0.01, variance=1e-4)
    for minute in range(120):
        sample = OperatorSample(
            deployment={"small/1": 4}, arrived=100.0, taken=100.0, services=(service,)
        )
        interval = IntervalSample(
            time=BEGIN + 60.0 * minute,
            seconds=60.0,
            operators={"match": sample},
            response_time=0.02,
        )
        store.write([a_tick(interval.time, sample=interval)])
    store.close()

    result = weir(
        "a/b", "--state", tmp_path, "--start", START, "--policy", "queueing", "--json", *objective
    )

    assert result.exit_code == 0, result.output
    bill = json.loads(result.stdout)
    assert bill["job"] == "a/b"
    assert bill["objective"]["responseTime"] == (1.0 if objective else 0.5)
    assert bill["lines"][0]["costPerHour"]["value"] == pytest.approx(2.0)
    assert bill["lines"][0]["overObjective"]["value"] == 0.0
