import math

import pytest

from weir_simulator.reports import wording


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00042, "0.4 ms"),
        (0.0421, "42 ms"),
        (0.09951, "100 ms"),
        (0.1534, "153 ms"),
        (0.99949, "999 ms"),
        (0.9999, "1.00 s"),
        (12.345, "12.35 s"),
        (59.99, "59.99 s"),
        (59.999, "1:00"),
        (3723.0, "1:02:03"),
        (math.nan, "-"),
        (None, "-"),
        (math.inf, "unbounded"),
    ],
)
def test_durations_read_in_the_unit_that_people_use(value, text):
    assert wording.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.4213, "0.421"), (42.13, "42.1"), (4213.4, "4,213"), (math.nan, "-")],
)
def test_rates_read_with_three_digits(value, text):
    assert wording.rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01234, "0.0123"), (0.1234, "0.123"), (12.3456, "12.35"), (math.nan, "-")],
)
def test_small_amounts_keep_their_digits(value, text):
    assert wording.money(value) == text


def test_a_difference_names_only_the_counts_that_differ():
    before = {"enrich": {"small/500m": 4, "large/1": 1}, "sink": {"small/250m": 1}, "old": {"a": 1}}
    after = {"enrich": {"small/500m": 6, "large/1": 1}, "sink": {"small/250m": 1}, "new": {"b": 2}}

    text = wording.difference(before, after)

    assert text == "enrich small/500m 4 → 6; old a 1 → 0; new b 0 → 2"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 resizes"), (1, "1 resize"), (1200, "1,200 resizes")]
)
def test_a_count_agrees_with_its_noun(number, text):
    assert wording.counted(number, "resize") == text
