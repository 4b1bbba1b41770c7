"""`weir replay` finds the records, and answers bad input with one sentence."""

import json

import pytest
from typer.testing import CliRunner

from tests.cli.recorded import START, write_records
from tests.pages import charts_of
from weir_cli import main


def replay(state, *arguments, columns="100"):
    return CliRunner().invoke(
        main.app,
        ["replay", "trips", "--state", str(state), *arguments],
        env={"COLUMNS": columns},
    )


@pytest.fixture
def state(tmp_path):
    write_records(tmp_path / "state/default.trips", 6)
    return tmp_path / "state"


def test_the_recorded_policy_comes_to_what_was_done(state):
    result = replay(state)

    assert result.exit_code == 0
    assert "In equal deployments, 6 of 6 decisions are the same" in result.output
    assert "Neither side ever proposed another deployment." in result.output


def test_programs_get_json_alone_on_stdout_and_people_a_page(state, tmp_path):
    page = tmp_path / "new" / "replay.html"

    result = replay(
        state, "--policy", "threshold-cheapest", "--json", "--since", "2026-05-04T17:08:00",
        "--until", "2026-05-04T17:11:00", "--report", str(page),
    )  # fmt: skip

    found = json.loads(result.stdout)
    assert [each["time"] for each in found["intervals"]] == [START + 60 * n for n in (3, 4, 5, 6)]
    assert found["policy"] == "threshold-cheapest"
    assert any("2 intervals" in notice for notice in found["notices"])
    [recorded, replayed] = charts_of(page)["Accumulated cost"]["data"]
    assert (len(recorded["x"]), len(replayed["x"])) == (4, 4)


def test_a_policy_that_never_proposed_a_change_is_noticed_with_its_reason(state):
    found = json.loads(replay(state, "--policy", "flink-autoscaler", "--json").stdout)

    [notice] = [each for each in found["notices"] if "0 of 6 decisions" in each]
    [*_, last] = found["intervals"]
    assert last["decisions"][0]["would"]["reason"] in notice


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "nobody"], "Expected a policy out of"),
        (["--objective", "soon"], "--objective: expected"),
        (["--since", "teatime"], "Expected --since as"),
        (["--until", "teatime"], "Expected --until as"),
        (["--since", "-1m", "--until", "-2m"], "--since: expected a time before --until"),
        (["--since", "2026-05-04T17:10:30"], "at least 3 intervals with decisions"),
        (["--until", "2020-01-01T00:00:00"], "at least 3 intervals with decisions"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(state, arguments, said):
    result = replay(state, *arguments, columns="300")

    assert result.exit_code == 1
    [sentence] = [line for line in result.output.splitlines() if "Error" in line]
    assert said in sentence
    assert "Traceback" not in result.output


def test_an_app_without_records_is_answered_with_where_they_were_looked_for(tmp_path):
    result = replay(tmp_path)

    assert result.exit_code == 1
    assert "name the StreamApp as NAMESPACE/NAME" in result.output


def test_too_few_intervals_are_refused(tmp_path):
    write_records(tmp_path / "state/default.trips", 2)

    result = replay(tmp_path / "state")

    assert result.exit_code == 1
    assert "got 2; let the job run for longer" in result.output
