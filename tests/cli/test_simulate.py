import json

import pytest
from typer.testing import CliRunner

from tests.cli.small_experiment import SMALL
from weir_cli.main import app

EXPERIMENT = (
    SMALL
    + """\
rate: {levels: 30, max: 650}
trace: {file: rates.txt}
policy: {name: ql-pds, parameters: {}}
seeds: [4, 5]
"""
)
KEYS = {
    "averageCost", "violations", "reconfigurations", "resources", "replicas", "slotsPerSecond",
    "policy", "seed", "slots",
}  # fmt: skip


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "rates.txt").write_text("100\n150\n120\n300\n" * 10)
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT)
    return path


def weir(*arguments):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def test_the_json_has_what_was_promised(experiment):
    result = weir(experiment, "--json")

    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer.keys() == KEYS
    assert answer["replicas"].keys() == {"t1", "t2"}
    assert (answer["policy"], answer["seed"], answer["slots"]) == ("ql-pds", 4, 40)
    assert answer["slotsPerSecond"] > 0
    assert 0 < answer["averageCost"] < 1


def test_people_get_a_table(experiment):
    result = weir(experiment)

    assert "experiment.yaml: ql-pds, seed 4" in result.stdout
    assert "average cost" in result.stdout
    assert "replicas on t2" in result.stdout


def test_policy_seed_and_trace_may_be_replaced(experiment, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("10\n20\n30\n")

    result = weir(experiment, "--policy", "ql-pds-plus", "--seed", 9, "--trace", other, "--json")

    answer = json.loads(result.stdout)
    assert (answer["policy"], answer["seed"], answer["slots"]) == ("ql-pds-plus", 9, 3)


def test_a_mistake_is_told_with_line_field_and_remedy(experiment):
    experiment.write_text(EXPERIMENT.replace("50ms", "50"))

    result = weir(experiment)

    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {experiment}:3: objective.responseTime: expected a duration, such as 50ms, 90s, "
        "2m or 1h30m, got 50; add its unit, for example 50ms or 50s\n"
    )
