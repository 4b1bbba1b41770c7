"""The frame of the benchmarks: it lists them, runs one, and writes every figure down."""

import json
import shutil
import sys

import pytest

SUMS = """
from benchmarks.figures import Figure, at_least, at_most

ABOUT = "That sums come out"
DURATION = "no time"

def run() -> list[Figure]:
    return [
        at_most(figure="two and two", value=4.0, unit="s", limit=4.0),
        at_least(figure="three and three", value=6.0, unit="", limit={least}),
        Figure(figure="four and four", value=8.0, unit="%"),
        at_most(figure="infinity and one", value=None, unit="s", limit=1.0),
    ]
"""


@pytest.fixture
def bench(root, run, tmp_path):
    """Run the real frame over one small benchmark, `small-sums`, in a folder of its own."""
    folder = tmp_path / "benchmarks"
    (folder / "sums").mkdir(parents=True)
    for part in ("__main__.py", "figures.py", "registry.py", "results.py"):
        shutil.copy(root / "benchmarks" / part, folder)
    (folder / "sums" / "small_sums.py").write_text(SUMS.format(least=6.0))

    def run_benchmarks(*arguments):
        return run([sys.executable, "-m", "benchmarks", *arguments], cwd=tmp_path, COLUMNS="120")

    return run_benchmarks


def test_without_a_name_the_benchmarks_are_listed(bench):
    listed = bench()

    assert listed.returncode == 0, listed.stderr
    assert "small-sums" in listed.stdout
    assert "That sums come out" in listed.stdout
    assert "no time" in listed.stdout


def test_every_figure_is_written_with_its_goal_and_verdict(bench, tmp_path):
    bench("small-sums")

    assert written_by(tmp_path)["figures"] == [
        row("two and two", 4.0, "s", "at most 4 s", holds=True),
        row("three and three", 6.0, "", "at least 6", holds=True),
        row("four and four", 8.0, "%", None, holds=None),
        row("infinity and one", None, "s", "at most 1 s", holds=False),
    ]


def test_a_result_says_how_it_came_about(bench, tmp_path):
    bench("small-sums")

    written = written_by(tmp_path)
    assert len(written["load"]) == 2
    assert written["date"]
    assert written["commit"] is None  # the folder is in no repository


def test_a_result_names_the_commit_and_what_is_not_in_it(bench, tmp_path, run):
    git = ["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@example.org"]
    run([*git, "init", "--quiet"])
    run([*git, "add", "."])
    run([*git, "commit", "--quiet", "-m", "All"])
    commit = run([*git, "rev-parse", "HEAD"]).stdout.strip()

    bench("small-sums")
    clean = written_by(tmp_path)["commit"]
    (tmp_path / "benchmarks" / "other.py").write_text("")
    bench("small-sums")
    changed = written_by(tmp_path)["commit"]

    assert clean == commit
    assert changed == f"{commit}-dirty"


@pytest.mark.parametrize("variable", ["CHAOS_SEED", "LIVE_PART", "PLANNER_PART", "WEIR_NEIGHBOURS"])
def test_a_result_says_what_a_variable_chose(bench, tmp_path, monkeypatch, variable):
    monkeypatch.setenv(variable, "7")

    bench("small-sums")

    assert written_by(tmp_path)["settings"][variable] == "7"


def test_a_missed_goal_ends_with_status_1(bench):
    ended = bench("small-sums")

    assert ended.returncode == 1
    assert "not measured" in ended.stdout


def test_an_unknown_benchmark_is_refused_in_one_sentence(bench):
    refused = bench("large-sums")

    assert refused.returncode == 2
    assert refused.stderr == "Expected a benchmark out of ['small-sums'], got 'large-sums'\n"


def test_an_incomplete_benchmark_is_refused_by_name(bench, tmp_path):
    (tmp_path / "benchmarks" / "sums" / "half.py").write_text('ABOUT = "Nothing yet"\n')

    refused = bench()

    assert refused.returncode == 2
    assert refused.stderr == "Expected benchmarks/sums/half.py to have ['DURATION', 'run']\n"


def test_a_value_that_is_no_number_is_refused(bench, tmp_path):
    path = tmp_path / "benchmarks" / "sums" / "small_sums.py"
    path.write_text(path.read_text().replace("value=8.0", "value=float('nan')"))

    refused = bench("small-sums")

    assert refused.returncode == 1
    assert "Expected a finite value for 'four and four', got nan" in refused.stderr


def written_by(folder):
    """Return the result of `small-sums`."""
    return json.loads((folder / "benchmarks" / "results" / "small-sums.json").read_text())


def row(figure, value, unit, goal, *, holds):
    return {"figure": figure, "value": value, "unit": unit, "goal": goal, "holds": holds}
