import json

import pytest
from typer.testing import CliRunner

from weir_cli.main import app
from weir_simulator.traces import read_trace


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.txt"
    path.write_text("10\n20\n30\n40\n")
    return path


def weir(*arguments):
    return CliRunner().invoke(app, ["traces", *map(str, arguments)])


def test_inspect_prints_the_statistics_for_people(trace):
    result = weir("inspect", trace)

    assert result.exit_code == 0
    assert "25.0 records/s" in result.output
    assert "autocorrelation, lag 1" in result.output


def test_inspect_prints_json_for_programs(trace):
    result = weir("inspect", trace, "--json")

    statistics = json.loads(result.output)
    assert statistics["slots"] == 4
    assert statistics["mean"] == 25.0
    assert statistics["quantiles"]["0.5"] == 25.0
    assert statistics["autocorrelations"] == {"1": pytest.approx(0.3333, abs=1e-3)}


def test_a_trace_without_change_has_null_for_its_autocorrelation_in_json(tmp_path):
    flat = tmp_path / "flat.txt"
    flat.write_text("5\n5\n5\n")

    result = weir("inspect", flat, "--json")

    assert json.loads(result.output)["autocorrelations"] == {"1": None}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["cut", "--start", 1, "--slots", 2], [20.0, 30.0]),
        (["cut", "--slots", 1], [10.0]),
        (["scale", "--max", 4], [1.0, 2.0, 3.0, 4.0]),
        (["compress", "--slots", 2], [15.0, 35.0]),
    ],
)
def test_a_changed_trace_is_written(trace, tmp_path, arguments, expected):
    out = tmp_path / "out.txt"
    command, *options = arguments

    result = weir(command, trace, out, *options)

    assert result.exit_code == 0, result.output
    assert read_trace(out).tolist() == pytest.approx(expected)
    assert result.output.startswith(f"{out}: {len(expected)} slots, mean ")


def test_a_trace_may_be_changed_in_place(trace):
    weir("scale", trace, trace, "--max", 80)

    assert read_trace(trace).tolist() == [20.0, 40.0, 60.0, 80.0]


def test_a_changed_trace_is_described_as_json_when_asked(trace, tmp_path):
    out = tmp_path / "out.txt"

    result = weir("compress", trace, out, "--slots", 2, "--json")

    described = json.loads(result.output)
    assert (described["file"], described["slots"]) == (str(out), 2)


@pytest.mark.parametrize("kind", ["taxi", "tweets"])
def test_synth_gives_the_same_trace_for_the_same_seed(tmp_path, kind):
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))

    weir("synth", kind, first, "--slots", 100, "--seed", 3)
    weir("synth", kind, second, "--slots", 100, "--seed", 3)
    weir("synth", kind, other, "--slots", 100, "--seed", 4)

    assert read_trace(first).size == 100
    assert first.read_text() == second.read_text() != other.read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["cut", "{trace}", "{absent}/out.txt", "--slots", 1],
        ["inspect", "{absent}"],
        ["cut", "{trace}", "{out}", "--slots", 5],
        ["cut", "{trace}", "{trace}", "--slots", 1],
        ["synth", "taxi", "{out}", "--slots", 0],
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_one(trace, tmp_path, arguments):
    places = {"trace": trace, "absent": tmp_path / "absent", "out": tmp_path / "out.txt"}

    result = weir(*(str(argument).format(**places) for argument in arguments))

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out.txt").exists()
