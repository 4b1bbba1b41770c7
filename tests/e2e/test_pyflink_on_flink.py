"""PyFlink programs that know nothing of Weir, scaled by `weir local`: `make pyflink`."""

import os

import pytest
import yaml
from typer.testing import CliRunner

from benchmarks.flink.unmodified_job import Unmodified, UnmodifiedJob
from tests.operator.flink.output import committed_lines
from weir_cli.main import app
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.agent import build_agent
from weir_operator.flink.jars import REPOSITORY, build_programs
from weir_operator.flink.scripts import CLIENT, PYTHON, WORKER, find_python_jar
from weir_operator.rescale.journal import Step
from weir_operator.rescale.settings import RescaleSettings

pytestmark = [pytest.mark.flink, pytest.mark.pyflink, pytest.mark.timeout(1500)]

PROGRAMS_HERE = REPOSITORY / "tests/e2e/python"
INTERPRETER = REPOSITORY / "build/pyflink/bin/python"
RECORDS = 12_000
SMALL_BUNDLES = {"python.fn-execution.bundle.size": "20"}
"""A function of 10 ms would else work through the default of 1000 for two control intervals, and
seem busy without input."""
LIMIT = 600.0


@pytest.fixture(scope="module", autouse=True)
def jars():
    build_agent()
    build_programs()


@pytest.fixture
def a_manifest(monkeypatch):
    monkeypatch.setenv("PYFLINK_CLIENT_EXECUTABLE", str(INTERPRETER))

    def a_manifest(name, *given):
        program, arguments = PROGRAMS_HERE / name, [str(each) for each in given]
        printed = CliRunner().invoke(
            app, ["graph", str(program), "--job-args", " ".join(arguments)]
        )
        assert printed.exit_code == 0, printed.output
        operators = yaml.safe_load(printed.output)["operators"]
        for operator in operators:
            operator["maxReplicas"] = 2 if operator["name"] == "work" else 1
        return {
            "apiVersion": "weir.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "python"},
            "spec": {
                "flink": {
                    "job": {"python": {"file": os.fspath(program)}, "args": arguments},
                    "maxParallelism": 128,
                    "config": SMALL_BUNDLES,
                },
                "objective": {"responseTime": "500ms"},
                "nodePools": [{"name": "any", "sizes": ["1"]}],
                "operators": operators,
                "operatorManager": {"interval": "5s", "policy": {"name": "queueing"}},
                "applicationManager": {"restartBudget": {"size": 5}},
            },
        }

    return a_manifest


def test_a_python_function_is_scaled_by_itself_and_every_record_is_committed_once(
    tmp_path, a_manifest, run_locally
):
    out = tmp_path / "out"
    # All records are there from the start, and a replica does a hundred a second at most.
    manifest = a_manifest("stream_of_numbers.py", RECORDS, 10, out)

    told = run_locally(manifest)

    assert told.summary is not None
    assert told.summary.restarts >= 1
    assert any(
        sum(each.replicas.values()) == 2
        for tick in told.ticks
        for each in tick.operators
        if each.name == "work"
    )
    assert sorted(map(int, committed_lines(out))) == list(range(1, RECORDS + 1))


@pytest.mark.parametrize(
    ("program", "given", "expected"),
    [
        ("stream_of_numbers.py", (RECORDS, 10), range(1, RECORDS + 1)),
        ("table_of_numbers.py", (2 * RECORDS,), range(2, 4 * RECORDS + 2, 2)),
    ],
    ids=["DataStream API", "Table API"],
)
async def test_a_python_program_is_rescaled_over_savepoints_and_every_record_is_committed_once(
    tmp_path, program, given, expected
):
    out = tmp_path / "out"
    job = Unmodified(
        name="python",
        jar=find_python_jar(),
        folder=tmp_path,
        entry_class=PYTHON,
        arguments=("--python", str(PROGRAMS_HERE / program), *map(str, given), str(out)),
        config={
            "env.java.opts.all": "-XX:TieredStopAtLevel=1",
            "heartbeat.timeout": "120000",  # many JVMs and interpreters start at once
            **SMALL_BUNDLES,
            **{CLIENT: str(INTERPRETER), WORKER: str(INTERPRETER)},
        },
        rescale=RescaleSettings(via="Savepoint", start_deadline=180.0, submit_deadline=120.0),
    )

    async with UnmodifiedJob(job) as run:
        small = dict.fromkeys(run.operators, 1)
        await run.start(small)
        ends = [await run.rescale(sizes) for sizes in (dict.fromkeys(small, 2), small)]
        ends.append(await run.rescale(dict.fromkeys(small, 2)))

        async def has_ended():
            progress = await run.jobs.progress(run.store.load().job_id or "")
            return (progress is not None and progress.state == "FINISHED") or None

        assert await wait_until(has_ended, clock=SystemClock(), timeout=LIMIT, period=1.0)

    assert [(end.step, end.by_checkpoint) for end in ends] == [(Step.DONE, False)] * 3
    assert sorted(map(int, committed_lines(out))) == list(expected)
