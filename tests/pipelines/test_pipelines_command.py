import datetime

import pytest
from typer.testing import CliRunner

from weir_cli import main
from weir_pipelines import prometheus
from weir_pipelines import session as session_module
from weir_pipelines.errors import SourceError
from weir_pipelines.ingest import Scraped
from weir_pipelines.metrics import METRICS, RECORDS_IN, RECORDS_OUT
from weir_simulator.traces import read_trace

DAY = "2026-03-02"
START = datetime.datetime(2026, 3, 2, 10, tzinfo=datetime.UTC).timestamp()


def run(*arguments):
    return CliRunner().invoke(main.app, ["pipelines", *map(str, arguments)])


@pytest.fixture
def dump(tmp_path):
    """Ten minutes of a source that reads 20 records/s, as OpenMetrics text."""
    labels = 'weir_app="streams_trips",weir_operator="read",task_name="Source",job_id="j"'
    lines = [
        f"{METRICS[role]}{{{labels}}} {rate * second} {START + second}"
        for role, rate in ((RECORDS_IN, 0), (RECORDS_OUT, 20))
        for second in range(0, 605, 5)
    ]
    file = tmp_path / "dump.txt"
    file.write_text("\n".join([*lines, "# EOF", ""]))
    return file


class FakeServer:
    """Applications that read 20 records/s; the first of them is refused, as by a real server."""

    key = "server"
    address = "http://it"
    names = ("a_bad", "streams_trips")

    def __init__(self, settings):
        """Know of the same applications whoever asks, and however."""

    def apps(self, start, end):
        return self.names

    def samples(self, app, start, end):
        if app == "a_bad":
            raise SourceError("refused: found duplicate series")
        seconds = range(int(start), int(end), 30)
        labels = {"weir_app": app, "weir_operator": "read", "task_name": "Source", "job_id": "j"}
        for role, rate in ((RECORDS_IN, 0), (RECORDS_OUT, 20)):
            yield Scraped(
                name=METRICS[role],
                labels=labels,
                times_ms=[1000 * second for second in seconds],
                values=[float(rate * second) for second in seconds],
            )


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(prometheus, "PrometheusHistory", FakeServer)


@pytest.fixture
def lasting_session(spark, monkeypatch):
    """Have the command work in the session of all tests, and leave it open."""
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(session_module, "open_session", lambda **settings: spark)


@pytest.mark.usefixtures("lasting_session")
def test_samples_become_tables_and_a_trace(dump, tmp_path):
    tables, trace = tmp_path / "tables", tmp_path / "trace.txt"

    imported = run("import", dump, "--tables", tables)
    worked = run("run", "arrivals", "quality", "--tables", tables, "--from", DAY)
    traced = run("trace", trace, "--app", "streams_trips", "--operator", "read", "--tables", tables)

    assert imported.output.splitlines()[-1] == f"streams_trips {DAY}: imported"
    assert worked.output.splitlines()[-2:] == [
        f"streams_trips {DAY}: arrivals",
        f"streams_trips {DAY}: quality",
    ]
    assert traced.exit_code == 0, traced.output
    assert read_trace(trace) == pytest.approx([20.0] * 10)


@pytest.mark.usefixtures("lasting_session")
def test_old_samples_are_removed_once_they_are_worked_up_and_the_trace_stays(dump, tmp_path):
    tables, trace = tmp_path / "tables", tmp_path / "trace.txt"
    run("import", dump, "--tables", tables)

    kept = run("run", "--tables", tables, "--keep-days", "1")
    worked = run(
        "run", "arrivals", "service", "--tables", tables, "--from", DAY, "--keep-days", "1"
    )
    pruned = run("run", "--tables", tables, "--keep-days", "1")
    traced = run("trace", trace, "--app", "streams_trips", "--operator", "read", "--tables", tables)

    assert f"streams_trips {DAY}: kept old samples" in kept.output
    assert (worked.exit_code, "samples" in worked.output) == (0, False)
    assert f"streams_trips {DAY}: samples removed" in pruned.output
    assert pruned.exit_code == 1  # nothing of yesterday is there to be worked up
    assert traced.exit_code == 0, traced.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    {
        "an unknown job": (["run", "weather"], "JOB: expected some of arrivals"),
        "no samples": (["run", "--from", DAY], "expected samples of 2026-03-02"),
        "no day": (["run", "--from", "Monday"], "--from: expected a day such as"),
        "days backwards": (
            ["run", "--from", DAY, "--to", "2026-03-01"], "--to: expected 2026-03-02 or later"
        ),
        "two ways to say days": (
            ["run", "--from", DAY, "--days", "2"], "--days: expected no --from"
        ),
        "no pair": (["run", "--from", DAY, "--conf", "a"], "--conf: expected KEY=VALUE"),
    }.values(),
    ids=[
        "an unknown job", "no samples", "no day", "days backwards", "two ways to say days",
        "no pair",
    ],
)  # fmt: skip
def test_wrong_input_is_refused_before_spark_is_started(tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.setattr(session_module, "open_session", None)

    refused = run(*arguments, "--tables", tmp_path / "tables")

    assert refused.exit_code == 1
    assert sentence in refused.output


def test_a_day_that_is_there_from_another_file_is_imported_only_with_again(dump, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(dump.read_text().replace('job_id="j"', 'job_id="k"'))
    tables = tmp_path / "tables"
    run("import", dump, "--tables", tables)

    same = run("import", dump, "--tables", tables)
    refused = run("import", other, "--tables", tables)
    replaced = run("import", other, "--tables", tables, "--again")

    assert (same.exit_code, refused.exit_code, replaced.exit_code) == (0, 1, 0)
    assert f"streams_trips {DAY}: expected a day that is not in series yet" in refused.output
    assert "--again" in refused.output


def test_a_file_without_metrics_of_flink_is_refused(tmp_path):
    file = tmp_path / "dump.txt"
    file.write_text('up{job="x"} 1 1772445605\n')

    refused = run("import", file, "--tables", tmp_path / "tables")

    assert refused.exit_code == 1
    assert "expected samples of Flink's metrics with the label weir_app" in refused.output


@pytest.mark.usefixtures("server")
def test_an_application_that_the_server_refuses_costs_the_others_nothing(tmp_path):
    exported = run("export", "--prometheus", "http://it", "--from", DAY, "--tables", tmp_path)

    assert exported.exit_code == 1
    assert f"streams_trips {DAY}: exported" in exported.output
    assert "a_bad: refused: found duplicate series" in exported.output
    assert "Expected the whole history, but a_bad is incomplete;" in exported.output


@pytest.mark.usefixtures("server", "lasting_session")
def test_a_night_works_up_what_was_given_and_fails_for_what_was_not(tmp_path):
    night = run("run", "arrivals", "--prometheus", "http://it", "--from", DAY, "--tables", tmp_path)

    assert night.exit_code == 1
    assert f"streams_trips {DAY}: arrivals" in night.output
    assert night.output.splitlines()[-1].startswith("Error: Expected the whole history")


@pytest.mark.usefixtures("server")
def test_a_night_without_any_history_yet_succeeds_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(FakeServer, "names", ())
    monkeypatch.setattr(session_module, "open_session", None)

    night = run("run", "--prometheus", "http://it", "--from", DAY, "--tables", tmp_path)

    assert night.exit_code == 0, night.output
    assert night.output.splitlines()[-1] == (
        f"nothing to process: http://it has no samples of {DAY} to {DAY}"
    )


@pytest.mark.usefixtures("server")
def test_a_night_in_which_all_is_refused_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(FakeServer, "names", ("a_bad",))
    monkeypatch.setattr(session_module, "open_session", None)

    night = run("run", "--prometheus", "http://it", "--from", DAY, "--tables", tmp_path)

    assert night.exit_code == 1
    assert "but a_bad is incomplete" in night.output
