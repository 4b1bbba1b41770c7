"""What the committed output of unmodified jobs is compared with, and what the table says of it."""

from collections import Counter
from contextlib import ExitStack
from datetime import datetime, timedelta

import pytest

from benchmarks.flink.any_job import (
    VERSIONS,
    JobOutcome,
    figures_of,
)
from benchmarks.flink.prepared_jobs import (
    ODD,
    RATE,
    prepare_kinds,
    prepare_sql,
    prepare_word_count,
)

BEGIN = datetime(2026, 1, 2, 3, 4)
BIDS = 60
"""One a second, so that the last `LATEST` seconds are not compared."""


def write(folder, name, rows):
    folder.joinpath(name).mkdir(exist_ok=True)
    lines = "".join(",".join(map(str, row)) + "\n" for row in rows)
    (folder / name / "part-0").write_text(lines)


def at(second):
    return (BEGIN + timedelta(seconds=second)).isoformat(sep=" ")


def seen_bids():
    return [(second % 2, second, f'"{at(second)}.25"') for second in range(BIDS)]


def totals():
    return [
        (auction, f'"{at(start)}"', 1, start + auction)
        for start in range(0, BIDS - 12, 2)
        for auction in (0, 1)
    ]


def prepared(prepare, folder):
    with ExitStack() as stack:
        return prepare(stack, folder).count


@pytest.fixture
def query(tmp_path):
    """A query whose output is as it should be, and its count."""
    write(tmp_path, "seen_bids", seen_bids())
    write(tmp_path, "totals", totals())
    return tmp_path, prepared(prepare_sql, tmp_path)


def test_windows_that_fit_the_copied_rows_are_exact(query):
    _, count = query

    found = count()

    assert (found.lost, found.wrong, found.compared) == (0, 0, len(totals()))


def test_a_window_that_is_missing_doubled_or_has_another_sum_is_found(query):
    folder, count = query

    write(folder, "totals", totals()[1:])
    assert (count().lost, count().wrong) == (1, 0)
    write(folder, "totals", [*totals(), totals()[3]])
    assert (count().lost, count().wrong) == (0, 1)
    write(folder, "totals", [(*totals()[0][:-1], 77), *totals()[1:]])
    assert (count().lost, count().wrong) == (1, 1)


def placed(numbers):
    """Return each number with both counts of its key, in order."""
    places = Counter[int]()
    for number in numbers:
        places[number % 64] += 1
        yield number, places[number % 64], places[number % 64]


def test_numbers_of_three_sources_are_exact_up_to_the_last_second_of_each(tmp_path):
    count = prepared(prepare_kinds, tmp_path)
    # One second and ten numbers of each source, of the last source nine.
    sent = range(3 * (RATE + 10) - 1)
    numbers = [*placed(sent)]
    odd = [number for number in sent if number % 2]
    windows = [[" ".join(map(str, odd[:ODD]))]]
    write(tmp_path, "windows", windows)

    write(tmp_path, "numbers", numbers)
    exact = count()
    write(tmp_path, "numbers", placed(number for number in sent if number != 6))
    lost = count()
    write(tmp_path, "numbers", placed(number for number in sent if number != sent[-6]))
    waiting = count()
    write(tmp_path, "numbers", [*numbers, numbers[4]])
    doubled = count()
    write(tmp_path, "numbers", [(0, 2, 2), *numbers[1:]])
    miscounted = count()
    write(tmp_path, "numbers", [(0, 1, 2), *numbers[1:]])
    other_key = count()
    write(tmp_path, "numbers", numbers)
    write(tmp_path, "windows", [*windows, [str(odd[1])]])
    twice = count()
    write(tmp_path, "windows", [])
    no_window = count()

    assert (exact.lost, exact.wrong, exact.compared) == (0, 0, 29)
    assert (lost.lost, lost.wrong) == (1, 0)
    assert (waiting.lost, waiting.wrong) == (0, 0)
    assert doubled.wrong > 0
    assert miscounted.wrong > 0
    assert (other_key.lost, other_key.wrong) == (0, 1)
    assert twice.wrong == 1
    assert no_window.lost == len(odd) - (ODD - 1)


@pytest.mark.parametrize("prepare", [prepare_sql, prepare_kinds, prepare_word_count])
def test_a_job_that_wrote_nothing_has_nothing_to_compare(prepare, tmp_path):
    count = prepared(prepare, tmp_path)

    assert count().compared == 0


def an_outcome(job="kafka", version=VERSIONS[0], **values):
    given = {"done": 3, "seconds": 12.0, "gap": 4.0, "same_ids": True}
    counted = {"lost": 0, "wrong": 0, "compared": 100}
    return JobOutcome(**{"job": job, "version": version, **given, **counted, **values})


def figure(outcomes, beginning):
    [found] = [each for each in figures_of(outcomes) if each.figure.startswith(beginning)]
    return found


def test_counted_output_without_records_is_neither_right_nor_exact():
    nothing = an_outcome(compared=0)

    lost = figure([an_outcome("sql"), nothing], "records lost or doubled")
    wrote = figure([an_outcome("sql"), nothing], "jobs that wrote output")

    assert not nothing.is_right
    assert an_outcome().is_right
    assert (lost.value, lost.holds) == (0, False)
    assert (wrote.value, wrote.holds) == (1, False)
