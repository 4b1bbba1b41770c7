import pytest
from typer.testing import CliRunner

from tests.cli.small_experiment import SMALL
from weir_cli.main import app

EXPERIMENT = (
    SMALL
    + """\
trace: {kind: taxi, slots: 50}
policy: {name: queueing}
"""
)


def weir(*arguments):
    return CliRunner().invoke(app, ["frontier", *map(str, arguments)])


def test_prices_stand_in_a_table(experiment):
    result = weir(
        experiment, "--bounds", "5ms, 50ms", "--violations", "50,5", "--seeds", 1, "--slots", 40,
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["5.0", "ms", "impossible", "impossible"] in rows
    assert any(row[:2] == ["50", "ms"] and float(row[2]) >= float(row[3]) for row in rows if row)
    assert "No deployment meets 5.0 ms at all" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--bounds", "50"], "--bounds: expected"),
        (
            ["--violations", "often"],
            "--violations: expected percentages from 0 to 100, got 'often'",
        ),
        (["--policy", "nonsense"], "nonsense"),
        (["--slots", "20", "--policy", "mdp"], "Policy mdp cannot run this: "),
    ],
)
def test_what_cannot_be_is_one_sentence(experiment, tmp_path, arguments, sentence):
    result = weir(experiment, *arguments, "--out", tmp_path / "out")

    assert result.exit_code == 1
    assert sentence in result.stderr
    assert not (tmp_path / "out").exists()
