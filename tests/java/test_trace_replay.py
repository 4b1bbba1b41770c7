"""The source of `examples/trips`: a trace becomes a schedule that a restored job repeats."""

import pytest

pytestmark = pytest.mark.flink

RATES = "20,0,40,5"
SECONDS_PER_SLOT = 5
ALL = 100_000


def schedule(ask, *, rates=RATES, seed=7, hold=False, skip=0, count=ALL):
    lines = ask("schedule", rates, SECONDS_PER_SLOT, seed, str(hold).lower(), skip, count)
    return [tuple(int(number) for number in line.split()) for line in lines]


def test_equal_seeds_give_equal_schedules_and_others_do_not(ask):
    first, again, other = (schedule(ask, seed=seed) for seed in (7, 7, 8))

    assert first == again
    assert [due for _, due in first] != [due for _, due in other]


@pytest.mark.parametrize("skip", [1, 50, 100, 250])
def test_a_position_within_the_schedule_is_enough_to_continue_it(ask, skip):
    whole = schedule(ask)

    resumed = schedule(ask, skip=skip)

    assert resumed == whole[skip:]


def test_ids_are_consecutive_and_records_come_in_order_of_their_due_time(ask):
    arrivals = schedule(ask)

    assert [identifier for identifier, _ in arrivals] == list(range(len(arrivals)))
    due = [time for _, time in arrivals]
    assert due == sorted(due)


def test_a_slot_of_rate_zero_has_no_arrivals_and_the_trace_ends_with_its_last_slot(ask):
    slots = [due // 1_000_000 // SECONDS_PER_SLOT for _, due in schedule(ask)]

    assert set(slots) == {0, 2, 3}


def test_a_trace_is_one_rate_per_line(ask, tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("12\n0\n3.5\n")

    assert ask("trace", trace) == ["[12.0, 0.0, 3.5]"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1\nmany\n", 'line 2: expected a rate in records/s, got "many"'),
        ("1\n\n2\n", 'line 2: expected a rate in records/s, got ""'),
        ("-1\n", 'line 1: expected a rate in records/s, got "-1"'),
        ("NaN\n", 'line 1: expected a rate in records/s, got "NaN"'),
        ("", "expected rates, got no line"),
    ],
)
def test_a_trace_that_cannot_be_right_is_refused_by_file_line_and_content(
    run_java, tmp_path, text, sentence
):
    trace = tmp_path / "trace.txt"
    trace.write_text(text)

    answer = run_java("Probe", "trace", trace)

    assert answer.returncode != 0
    assert str(trace) in answer.stderr
    assert sentence in answer.stderr


@pytest.mark.parametrize(("mean", "scv"), [(0.03, 1.0), (0.02, 0.5), (0.02, 0.0), (0.01, 2.0)])
def test_service_times_have_the_mean_and_the_variability_that_was_asked_for(ask, mean, scv):
    answer = ask("service", mean, scv, 400_000)

    drawn_mean, drawn_scv = (float(number) for number in answer[0].split())
    assert drawn_mean == pytest.approx(mean, rel=0.01)
    assert drawn_scv == pytest.approx(scv, rel=0.02, abs=1e-9)


@pytest.mark.parametrize(
    ("start", "failure", "assignments"),
    [
        ("fresh", "checked", 1),
        ("fresh", "unchecked", 2),  # no checkpoint knows it yet, so it is given again
        ("restored", "checked", 0),
    ],
)
def test_a_reader_that_fails_after_a_checkpoint_is_not_given_the_trace_again(
    ask, start, failure, assignments
):
    assert ask("enumerator", start, failure) == [f"{assignments} true"]


def test_a_trace_that_is_not_there_is_refused_with_the_whole_path(run_java):
    answer = run_java("Probe", "trace", "absent.txt")

    assert "Trace absent.txt: expected a file, got none at /" in answer.stderr
