import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from datetime import date

import pytest
from typer.testing import CliRunner

from tests.cli.small_experiment import SMALL
from tests.pipelines.known_history import KnownJob, write_day
from weir_cli.main import app
from weir_pipelines.store import Partition
from weir_simulator.arrivals import arrival_rates
from weir_simulator.experiment_files import load_experiment

EXPERIMENT = (
    SMALL
    + """\
trace: {kind: taxi, slots: 200}
policy: {name: ql-pds}
"""
)


def weir(*arguments):
    return CliRunner().invoke(
        app, ["tune", *map(str, arguments), "--algorithm", "random", "--workers", "1"]
    )


def test_the_result_is_an_experiment_and_a_verdict(experiment, tmp_path):
    out = tmp_path / "out"

    result = weir(
        experiment, "--evaluations", 2, "--violations", 100, "--restarts", 1440, "--out", out
    )

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == str(out / "tuned.yaml")
    assert "Better than before" in result.stdout or "Not better" in result.stdout
    found = load_experiment(out / "tuned.yaml")
    assert found.operators[0].budget is not None


def test_a_streamapp_is_tuned_in_the_simulator_that_was_fitted_to_it(tmp_path):
    fitted = tmp_path / "state" / "streams.trips" / "fitted"
    fitted.mkdir(parents=True)
    (fitted / "experiment.yaml").write_text(EXPERIMENT)

    result = weir(
        "streams/trips", "--state", tmp_path / "state", "--evaluations", 2, "--out", tmp_path
    )

    assert result.exit_code == 0, result.output
    assert load_experiment(tmp_path / "tuned.yaml").operators[0].name == "op"


def test_a_streamapp_that_nothing_was_fitted_to_is_refused_with_what_to_do(tmp_path):
    result = weir("trips", "--state", tmp_path)

    assert result.exit_code == 1
    assert "expected an experiment file, or a StreamApp in" in result.output
    assert "until the condition ModelFitted is true" in result.output


def test_the_json_is_the_whole_result(experiment, tmp_path):
    result = weir(experiment, "--evaluations", 2, "--out", tmp_path, "--json")

    whole = json.loads(result.stdout)
    assert len(whole["evaluations"]) == 2
    assert whole["best"]["budgets"].keys() == {"op"}
    # What is in force is what the file says, not the naive baseline.
    assert whole["incumbent"]["weights"]["violations"] == 0.6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--surrogate", "luck"], "--surrogate: expected one of numpy, botorch, got 'luck'"),
        (["--warm-start", "nothing.yaml"], "nothing.yaml"),
        (["--deadline", "soon"], "--deadline: expected"),
        (["--slots", "201"], "Expected at most 200 slots per evaluation"),
    ],
)
def test_what_cannot_be_is_one_sentence(experiment, tmp_path, arguments, sentence):
    result = weir(experiment, *arguments, "--out", tmp_path / "out")

    assert result.exit_code == 1
    assert sentence in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_unknown_algorithm_is_refused_with_those_that_exist(experiment, tmp_path):
    result = CliRunner().invoke(app, ["tune", str(experiment), "--algorithm", "luck"])

    assert result.exit_code == 1
    assert "--algorithm: expected one of joint, " in result.stderr


def test_a_search_begins_with_the_results_that_are_named(experiment, tmp_path):
    study = tmp_path / "study"
    weir(experiment, "--evaluations", 3, "--study", study, "--out", tmp_path / "first")
    tighter = tmp_path / "tighter.yaml"
    tighter.write_text(EXPERIMENT.replace("50ms", "40ms"))
    results = ["--warm-start", tmp_path / "first" / "tuned.yaml", "--warm-start", study]

    result = weir(tighter, *results, "--evaluations", 3, "--out", tmp_path / "second", "--json")

    assert result.exit_code == 0, result.output
    best = json.loads((study / "result.json").read_text())["best"]
    began = [each["point"] for each in json.loads(result.stdout)["evaluations"]]
    assert best["weights"] in [point["weights"] for point in began]
    assert all(point["budgets"]["op"] == pytest.approx(0.04) for point in began)


def test_ctrl_c_keeps_the_best_so_far(experiment, tmp_path):
    study = tmp_path / "study"
    command = [
        sys.executable, "-m", "weir_cli.main", "tune", str(experiment), "--algorithm", "random",
        "--workers", "1", "--evaluations", "100000", "--study", str(study), "--json",
        "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _wait_for(study / "evaluations" / "00002.json", process)

        os.kill(process.pid, signal.SIGINT)

        stdout, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, stderr
    result = json.loads(stdout)
    assert result["ended"] == "stopped"
    assert 3 <= len(result["evaluations"]) < 100_000
    assert (tmp_path / "out" / "tuned.yaml").exists()


SLOW_TO_START = """\
import os, pathlib, sys, time
from weir_cli.main import main

folder = pathlib.Path(sys.argv[0]).parent
if __name__ == "__main__":
    main()
else:  # in a process that is being started, before its imports for evaluations
    (folder / "importing").touch()
    while not (folder / "go on").exists():
        time.sleep(0.02)
"""


def test_ctrl_c_while_the_processes_are_started_ends_none_of_them(experiment, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SLOW_TO_START)
    command = [
        sys.executable, str(script), "tune", str(experiment), "--algorithm", "random",
        "--workers", "2", "--evaluations", "100000", "--json", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        _wait_for(tmp_path / "importing", process)

        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        (tmp_path / "go on").touch()

        stdout, stderr = process.communicate(timeout=240)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0, stderr
    assert "KeyboardInterrupt" not in stderr
    result = json.loads(stdout)
    assert result["ended"] == "stopped"
    assert len(result["evaluations"]) == 2


def _wait_for(path, process):
    """Look until a file is there; fails where the process ends before."""
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def tune_on_history(experiment, folder, out):
    """Run `weir tune` on a day of a known job, of 20 ms a record, in a folder of tables."""
    job = KnownJob(rate=lambda time: 40 + 20 * math.sin(time / 10_000))
    write_day(folder / "tables", Partition("streams/trips", date(2026, 3, 2)), job)
    return weir(
        *(experiment, "--history", folder / "tables", "--app", "streams/trips"),
        *("--evaluations", 2, "--slots", 200, "--out", out),
    )


def test_it_is_tuned_in_a_simulator_that_is_fitted_to_history(experiment, tmp_path):
    experiment.write_text(EXPERIMENT.replace("name: op,", "name: match,").replace("t1", "small"))
    out = tmp_path / "out"

    result = tune_on_history(experiment, tmp_path, out)

    assert result.exit_code == 0, result.output
    assert "Days of history used: 1, 2026-03-02" in result.stderr
    fitted = load_experiment(out / "fitted.yaml")
    assert fitted.operators[0].service_rate == pytest.approx(50, rel=0.01)
    assert arrival_rates(fitted.trace).size == 1440
    assert load_experiment(out / "tuned.yaml").trace.file == out / "trace.txt"


def test_a_file_belongs_to_no_application_so_one_must_be_named(experiment, tmp_path):
    result = weir(experiment, "--history", tmp_path)

    assert result.exit_code == 1
    assert "--app: expected the application whose history" in result.output
