"""A job that knows nothing of Weir, scaled operator by operator by `weir local`."""

import pytest
import yaml
from typer.testing import CliRunner

from tests.decided_again import decide_again
from tests.operator.flink.output import committed_lines
from weir_cli.main import app
from weir_operator.flink.agent import build_agent
from weir_operator.flink.jars import REPOSITORY, build_jar, build_programs

SOURCE = REPOSITORY / "tests/operator/runtime/unmodified/Readings.java"
RECORDS = 4000


@pytest.fixture(scope="module")
def readings_jar(tmp_path_factory):
    build_agent()
    build_programs()
    jar = tmp_path_factory.mktemp("jars") / "readings.jar"
    return build_jar([SOURCE], jar, entry_class="Readings")


@pytest.mark.flink
@pytest.mark.timeout(900)  # many JVMs start, which takes minutes on a busy machine
def test_an_unmodified_job_is_scaled_by_operator_and_every_record_is_committed_once(
    tmp_path, readings_jar, run_locally
):
    out = tmp_path / "out"
    # Half of the records would keep one replica of `work` busy.
    arguments = [str(RECORDS), "60", "30", str(out)]
    printed = CliRunner().invoke(
        app, ["graph", str(readings_jar), "--job-args", " ".join(arguments)]
    )
    operators = yaml.safe_load(printed.output)["operators"]
    for operator in operators:
        operator["maxReplicas"] = min(operator.get("maxReplicas", 3), 3)
    manifest = {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "readings"},
        "spec": {
            "flink": {
                "job": {"jar": str(readings_jar), "args": arguments},
                "maxParallelism": 128,
            },
            "objective": {"responseTime": "500ms"},
            "nodePools": [{"name": "any", "sizes": ["1"]}],
            "operators": operators,
            "operatorManager": {"interval": "5s", "policy": {"name": "queueing"}},
            "applicationManager": {"restartBudget": {"size": 5}},
        },
    }

    told = run_locally(manifest)

    [work] = [each["name"] for each in operators if each["name"].startswith("work")]
    assert told.summary is not None
    assert told.summary.restarts >= 1
    assert any(
        sum(each.replicas.values()) >= 2
        for tick in told.ticks
        for each in tick.operators
        if each.name == work
    )
    # The agent has measured it: nothing is assumed of its service times.
    assert [each.message for each in told.events if "busy time" in each.message] == []
    assert sorted(map(int, committed_lines(out))) == list(range(RECORDS))
    decided = decide_again(tmp_path / "state/default.readings/records.sqlite")
    assert len(decided) >= 2
    assert [repr(again) for _, again in decided] == [repr(was) for was, _ in decided]


@pytest.mark.long
@pytest.mark.flink
@pytest.mark.timeout(900)
def test_without_operators_a_busy_vertex_is_separated_and_scaled_out_and_in(
    tmp_path, readings_jar, run_locally
):
    out = tmp_path / "out"
    records, slow = 9000, 5000
    manifest = {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "readings"},
        "spec": {
            "flink": {
                "job": {
                    "jar": str(readings_jar),
                    "args": [str(records), "60", "30", str(out), str(slow)],
                },
                "maxParallelism": 128,
            },
            "objective": {"responseTime": "500ms"},
            "nodePools": [{"name": "any", "sizes": ["1"]}],
            "operatorManager": {
                "interval": "5s",
                "policy": {"name": "queueing", "settings": {"scale_in_window": 2}},
            },
            "applicationManager": {"restartBudget": {"size": 20}},
        },
    }

    told = run_locally(manifest)

    work = [
        sum(each.replicas.values())
        for tick in told.ticks
        for each in tick.operators
        if each.name == "work"
    ]
    first, last = ({each.name for each in told.ticks[place].operators} for place in (0, -1))
    assert first == {"job"}
    assert len(last) >= 3
    assert max(work) >= 2
    assert work[-1] < max(work)
    assert sorted(map(int, committed_lines(out))) == list(range(records))
