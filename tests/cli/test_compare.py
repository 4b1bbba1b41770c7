import json

from typer.testing import CliRunner

from tests.cli.small_experiment import SMALL
from weir_cli.main import app

EXPERIMENT = (
    SMALL
    + """\
trace: {kind: taxi, slots: 50}
policy: {name: ql-pds}
seeds: [1, 2]
"""
)


def weir(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def test_policies_stand_side_by_side_in_a_table_and_a_report(experiment, tmp_path):
    out = tmp_path / "out"

    result = weir(experiment, "--policy", "ql-pds, ql-pds-plus", "--out", out)

    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].strip() == "small"
    assert sum(line.strip().startswith("ql-pds ") for line in lines) == 1
    assert sum(line.strip().startswith("ql-pds-plus ") for line in lines) == 1
    assert lines[-1] == str(out / "report.html")
    assert "<h2>small</h2>" in (out / "report.html").read_text()


def test_the_json_has_means_and_intervals(experiment, tmp_path):
    result = weir(experiment, "--policy", "ql-pds", "--out", tmp_path / "out", "--json")

    [row] = json.loads(result.stdout)
    assert (row["experiment"], row["policy"], row["seeds"]) == ("small", "ql-pds", [1, 2])
    assert row["refusal"] is None
    assert row["replicas"].keys() == {"t1", "t2"}
    for measure in ("averageCost", "violations", "reconfigurations", "resources"):
        assert row[measure].keys() == {"mean", "halfWidth"}
        assert row[measure]["halfWidth"] >= 0


def test_files_of_one_name_are_told_apart_by_their_paths(experiment, tmp_path):
    other = tmp_path / "other" / "small.yaml"
    other.parent.mkdir()
    other.write_text(EXPERIMENT)

    result = weir(experiment, other, "--out", tmp_path / "out", "--json")

    assert [row["experiment"] for row in json.loads(result.stdout)] == [
        str(experiment), str(other)
    ]  # fmt: skip


def test_every_file_is_judged_before_anything_runs(experiment, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text(EXPERIMENT.replace("serviceRate: 180", "serviceRate: fast"))

    result = weir(experiment, bad, "--out", tmp_path / "out")

    assert result.exit_code == 1
    assert f"{bad}:1: operators[0].serviceRate: expected a number, got 'fast'" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_report_that_cannot_be_written_is_one_sentence(experiment, tmp_path):
    (tmp_path / "file").touch()

    result = weir(experiment, "--out", tmp_path / "file")

    assert result.exit_code == 1
    assert "cannot be written: " in result.stderr
    assert "choose another --out" in result.stderr
