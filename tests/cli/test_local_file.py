import asyncio
import os

import pytest
import yaml
from typer.testing import CliRunner

from tests.operator.flink.output import committed_lines
from weir_cli.main import app
from weir_operator.errors import PermanentError
from weir_operator.local.program import (
    default_manifest,
    flink_configuration,
    is_program,
    load_app,
    with_objective,
    with_script,
    write_manifest,
)
from weir_operator.runtime.processes.folders import hold_app
from weir_operator.streamapp.loading import load_manifest, parse_manifest
from weir_operator.streamapp.models import Mode
from weir_operator.wiring import assembly


@pytest.fixture
def program(tmp_path):
    def program(name, text=""):
        path = tmp_path / name
        path.write_text(text)
        return path

    return program


@pytest.mark.parametrize(
    ("name", "app_name"),
    [
        ("query.sql", "query"),
        ("Überprüfen größer.jar", "uberprufen-grosser"),
        ("Word_Count-1.0.jar", "word-count-1-0"),
        ("--.py", "job"),
    ],
)
def test_a_program_alone_has_a_right_manifest_that_only_advises(program, name, app_name):
    made = parse_manifest(default_manifest(program(name)))

    assert made.metadata.name == app_name
    assert made.spec.mode is Mode.ADVISE
    assert [pool.name for pool in made.spec.node_pools] == ["local"]


def test_an_objective_lets_weir_scale_the_job(program):
    made = parse_manifest(with_objective(default_manifest(program("a.jar")), "500ms"))

    assert made.spec.mode is Mode.AUTO
    assert made.spec.objective.response_time.bound.seconds == 0.5


@pytest.mark.parametrize(("cores", "most"), [(1, 4), (2, 4), (8, 16)])
def test_a_program_alone_begins_as_one_operator_and_the_pool_has_room_for_busy_vertices(
    program, monkeypatch, cores, most
):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)

    made = parse_manifest(default_manifest(program("a.jar")))

    assert made.spec.operators == ()
    assert [pool.max_replicas for pool in made.spec.node_pools] == [most]


def test_a_trial_of_minutes_may_restart_more_often_than_a_job_of_years(program):
    budget = parse_manifest(default_manifest(program("a.jar"))).spec.application_manager

    assert budget.restart_budget.size == 20
    assert budget.restart_budget.refill_every.seconds == 120.0


def test_a_suffix_in_capitals_is_one_too_and_any_other_file_is_refused(program):
    assert is_program(program("QUERY.SQL"))
    assert default_manifest(program("JOB.PY"))["spec"]["flink"]["job"].keys() == {"python"}
    with pytest.raises(PermanentError, match=r"got '.*notes\.txt', which is none of these"):
        default_manifest(program("notes.txt"))


def test_the_mark_that_an_editor_puts_before_a_script_is_no_part_of_it(program):
    script = program("q.sql", "\ufeffINSERT INTO b SELECT x FROM a")

    app = with_script(parse_manifest(default_manifest(script)), script)

    assert assembly.job_spec(app, beside=script.parent).arguments[1].startswith("INSERT")


def test_a_second_weir_local_changes_nothing_of_the_first(program, tmp_path, monkeypatch):
    state, job = tmp_path / "state", str(program("orders.jar"))

    async def start(*arguments, **options):
        raise AssertionError("a JobManager was started")

    monkeypatch.setattr("weir_operator.local.graph.read_job", start)
    with hold_app(state, "default.orders"):
        manifest = state / "orders.yaml"
        manifest.write_text("the first one's")
        for options in ([], ["--fresh"]):
            done = CliRunner().invoke(
                app, ["local", job, "--job-args", "--low 40", "--state", str(state), *options]
            )

            assert done.exit_code == 1
            assert f"Process {os.getpid()} already runs StreamApp default.orders" in done.output
            assert manifest.read_text() == "the first one's"


def test_a_second_signal_ends_weir_with_one_sentence(program, tmp_path, monkeypatch):
    async def run_local(run, *, show, lock):
        raise asyncio.CancelledError

    monkeypatch.setattr("weir_operator.local.run.run_local", run_local)
    monkeypatch.setattr("weir_operator.cluster.process.logs.send_logs", lambda *_, **__: None)

    manifest = program("app.yaml", yaml.safe_dump(default_manifest(program("a.jar"))))
    done = CliRunner().invoke(
        app, ["local", str(manifest), "--state", str(tmp_path / "state"), "--json"]
    )

    assert done.exit_code == 130
    assert len(done.output.splitlines()) == 1
    assert "second signal" in done.output


def test_the_written_manifest_runs_the_same_job_from_anywhere(program, tmp_path):
    script = program("query.sql", "INSERT INTO b SELECT x FROM a")
    (tmp_path / "state").mkdir()

    written = write_manifest(default_manifest(script), tmp_path / "state")

    job = assembly.job_spec(load_app(written), beside=written.parent)
    assert job.arguments == ("query.sql", "INSERT INTO b SELECT x FROM a")


def test_a_script_that_is_edited_while_its_job_runs_is_not_what_a_restart_submits(program):
    script = program("query.sql", "INSERT INTO b SELECT x FROM a")
    app = with_script(parse_manifest(default_manifest(script)), script)

    script.write_text("INSERT INTO b SELECT 1")

    job = assembly.job_spec(app, beside=script.parent)
    assert job.arguments == ("query.sql", "INSERT INTO b SELECT x FROM a")


def test_arguments_that_name_files_are_found_from_anywhere(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program("trace.txt")

    made = default_manifest(program("a.py"), arguments=("--trace", "trace.txt", "--n", "3"))

    assert made["spec"]["flink"]["job"]["args"] == [
        *("--trace", str(tmp_path / "trace.txt"), "--n", "3")
    ]


def test_a_script_takes_no_arguments(program):
    made = parse_manifest(default_manifest(program("q.sql", "INSERT INTO b SELECT 1")))

    with pytest.raises(PermanentError, match="no arguments for a SQL script, got '--a'; remove"):
        assembly.job_spec(made, beside=program("q.sql").parent, extra=("--a",))


def test_a_script_that_is_not_there_is_named(tmp_path):
    manifest = default_manifest_of_sql("missing.sql")
    (tmp_path / "app.yaml").write_text(yaml.safe_dump(manifest))

    with pytest.raises(PermanentError, match=r"flink\.job\.sql\.file: .* got 'missing\.sql'"):
        load_app(tmp_path / "app.yaml")


def default_manifest_of_sql(path):
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "trips"},
        "spec": {
            "flink": {"job": {"sql": {"file": path}}},
            "objective": {"responseTime": "200ms"},
            "nodePools": [{"name": "small"}],
        },
    }


def test_a_pyflink_program_without_pyflink_is_refused_with_what_is_missing(program):
    app = parse_manifest(default_manifest(program("job.py")))

    with pytest.raises(PermanentError) as refusal:
        flink_configuration(app)

    assert "python.client.executable" in str(refusal.value)
    assert "which has no PyFlink; install apache-flink" in str(refusal.value)


def test_an_interpreter_that_is_not_there_is_named(program, monkeypatch):
    monkeypatch.setenv("PYFLINK_CLIENT_EXECUTABLE", "/no/python")
    app = parse_manifest(default_manifest(program("job.py")))

    with pytest.raises(PermanentError, match="got '/no/python', which does not run"):
        flink_configuration(app)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["local", "nowhere.sql"], "Expected a manifest, a jar, a SQL script or a PyFlink program"),
        (["graph", "nowhere.jar"], "Expected a manifest, a jar, a SQL script or a PyFlink program"),
        (["local", "app.yaml", "--objective", "1s"], "set the field in the manifest instead"),
        (["local", "app.yaml", "--entry-class", "A"], "set the field in the manifest instead"),
        (["local", "q.sql", "--objective", "fast"], "spec.objective.responseTime"),
        (["local", "q.sql", "--job-args", "--a"], "no value together with sql"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    program, tmp_path, monkeypatch, options, sentence
):
    monkeypatch.chdir(tmp_path)
    program("q.sql", "INSERT INTO b SELECT 1")

    done = CliRunner().invoke(app, options)

    assert done.exit_code == 1
    assert sentence in done.output
    assert list(tmp_path.iterdir()) == [tmp_path / "q.sql"]


SCRIPT = """\
CREATE TABLE numbers (id BIGINT) WITH (
    'connector' = 'datagen', 'rows-per-second' = '100', 'fields.id.kind' = 'sequence',
    'fields.id.start' = '1', 'fields.id.end' = '1500');
CREATE TABLE seen (id BIGINT) WITH (
    'connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv');
INSERT INTO seen SELECT id FROM numbers;
"""


@pytest.mark.long
@pytest.mark.flink
@pytest.mark.timeout(600)
def test_a_script_alone_runs_to_its_end_and_writes_every_row(program, tmp_path):
    out = tmp_path / "out"
    script = program("all.sql", SCRIPT.format(out=out))

    done = CliRunner().invoke(
        app, ["local", str(script), "--state", str(tmp_path / "state"), "--duration", "8m"]
    )

    assert done.exit_code == 0, done.output
    assert "to scale it, add an objective" in done.output
    manifest = load_manifest(tmp_path / "state/all.yaml")
    assert manifest.spec.operators == ()
    assert sorted(map(int, committed_lines(out))) == list(range(1, 1501))


@pytest.mark.flink
@pytest.mark.timeout(300)
def test_a_script_that_is_no_job_is_refused_before_anything_starts(program, tmp_path):
    script = program("q.sql", "CREATE TABLE a (x INT) WITH ('connector' = 'datagen');\nTABLE a;")

    done = CliRunner().invoke(app, ["local", str(script), "--state", str(tmp_path / "state")])

    assert done.exit_code == 1
    assert "spec.flink.job.sql: q.sql, line 2: expected statements of a job" in done.output
    assert not (tmp_path / "state").exists()
