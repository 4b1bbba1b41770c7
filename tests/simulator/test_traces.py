import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_simulator.errors import TraceError
from weir_simulator.traces import (
    TraceKind,
    as_trace,
    autocorrelation,
    compress,
    cut,
    describe,
    read_trace,
    scale_to_maximum,
    synthesise,
    write_trace,
)

rates = st.floats(min_value=0, max_value=1e6)
traces = st.lists(rates, min_size=1, max_size=60).map(as_trace)
positive = st.floats(min_value=1e-3, max_value=1e3)


@given(trace=traces.filter(lambda trace: trace.max() > 1e-3), wanted=positive)
def test_scaling_to_a_maximum_keeps_the_shape(trace, wanted):
    scaled = scale_to_maximum(trace, maximum=wanted)

    assert scaled.max() == pytest.approx(wanted)
    assert scaled / wanted == pytest.approx(trace / trace.max())


@given(trace=traces, data=st.data())
def test_a_cut_is_the_stretch_that_was_asked_for(trace, data):
    start = data.draw(st.integers(0, trace.size - 1))
    slots = data.draw(st.integers(1, trace.size - start))

    stretch = cut(trace, start=start, slots=slots)

    assert stretch.tolist() == trace.tolist()[start : start + slots]


@given(trace=traces, data=st.data())
def test_compressing_keeps_the_mean_of_all_full_groups(trace, data):
    slots = data.draw(st.integers(1, trace.size))

    compressed = compress(trace, slots=slots)

    assert compressed.size == trace.size // slots
    assert compressed.mean() == pytest.approx(trace[: compressed.size * slots].mean())


@given(trace=traces)
def test_a_trace_survives_its_file_bit_for_bit(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "trace.txt"

    write_trace(path, trace)

    assert read_trace(path).tolist() == trace.tolist()


def test_a_mark_before_a_trace_is_no_part_of_it(tmp_path):
    file = tmp_path / "trace.txt"
    file.write_bytes(b"\xef\xbb\xbf1.5\n2\n")

    assert list(read_trace(file)) == [1.5, 2.0]


def test_a_new_trace_replaces_the_old_file_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "trace.txt"
    path.write_text("1\n")

    write_trace(path, as_trace([2.0, 2.5]))

    assert path.read_text() == "2\n2.5\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_trace_that_cannot_be_written_is_an_error_in_one_sentence(tmp_path):
    path = tmp_path / "absent" / "trace.txt"

    with pytest.raises(TraceError, match="cannot be written: No such file or directory"):
        write_trace(path, as_trace([1.0]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1\ntwo\n3\n", "line 2: 'two' is not a rate; give one finite number"),
        ("1\n-4\n", "line 2: '-4'"),
        ("nan\n", "line 1: 'nan'"),
        ("1\n2\ninf\n", "line 3: 'inf'"),
        ("1\n\n3\n", "line 2: ''"),
        ("1,5\n", "line 1: '1,5'"),
        ("x" * 500, r"line 1: 'x{37}\.\.\.'"),
        ("", "is empty"),
    ],
)
def test_a_bad_line_is_named_with_file_number_content_and_remedy(tmp_path, text, expected):
    path = tmp_path / "bad.txt"
    path.write_text(text)

    with pytest.raises(TraceError, match=expected) as error:
        read_trace(path)

    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_absent_or_no_text_is_an_error_in_one_sentence(tmp_path):
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(TraceError, match="cannot be read: No such file or directory"):
        read_trace(tmp_path / "absent")
    with pytest.raises(TraceError, match="is not text"):
        read_trace(binary)


@pytest.mark.parametrize("values", [[], [[1.0]], [-1.0], [math.nan], [math.inf]])
def test_what_cannot_be_a_trace_is_refused(values):
    with pytest.raises(TraceError):
        as_trace(values)


@pytest.mark.parametrize(
    "change",
    [
        lambda trace: cut(trace, start=-1, slots=1),
        lambda trace: cut(trace, start=2, slots=2),
        lambda trace: cut(trace, start=0, slots=0),
        lambda trace: scale_to_maximum(trace, maximum=0),
        lambda trace: scale_to_maximum(trace, maximum=math.nan),
        lambda trace: scale_to_maximum(trace, maximum=math.inf),
        lambda trace: compress(trace, slots=4),
        lambda trace: compress(trace, slots=0),
        lambda trace: autocorrelation(trace, 3),
    ],
)
def test_a_change_that_is_impossible_is_refused(change):
    with pytest.raises(TraceError):
        change(as_trace([1.0, 2.0, 3.0]))


def test_a_trace_of_zeros_has_no_scale():
    with pytest.raises(TraceError, match="Every slot is 0"):
        scale_to_maximum(as_trace([0.0, 0.0]), maximum=1.0)


def test_the_statistics_of_a_known_trace():
    trace = as_trace([0.0, 2.0] * 50)

    statistics = describe(trace)

    assert statistics.slots == 100
    assert (statistics.minimum, statistics.mean, statistics.maximum) == (0.0, 1.0, 2.0)
    assert statistics.standard_deviation == pytest.approx(1.0)
    assert statistics.quantiles[0.95] == 2.0
    assert statistics.mean_step == 2.0
    assert statistics.zero_share == 0.5
    assert statistics.autocorrelations == {
        1: pytest.approx(-1.0),
        10: pytest.approx(1.0),
        60: pytest.approx(1.0),
    }


def test_a_trace_without_change_has_no_autocorrelation():
    statistics = describe(np.full(20, 5.0))

    assert math.isnan(statistics.autocorrelations[1])


# The numbers of made-up traces are those of the traces published with the simulator of Russo Russo,
# Cardellini, Lo Presti, ACM TAAS 2023.
SEEDS = (1, 2, 3)


@pytest.fixture(scope="module", params=SEEDS)
def taxi(request):
    return synthesise(TraceKind.TAXI, slots=525_533, rng=np.random.default_rng(request.param))


@pytest.fixture(scope="module", params=SEEDS)
def tweets(request):
    return synthesise(TraceKind.TWEETS, slots=242_960, rng=np.random.default_rng(request.param))


def test_taxi_has_the_published_mean_deviation_and_quantiles(taxi):
    statistics = describe(taxi)

    assert statistics.mean == pytest.approx(329.5, rel=0.05)
    assert statistics.standard_deviation == pytest.approx(150.9, rel=0.1)
    published = {0.01: 40, 0.05: 59, 0.25: 219, 0.5: 364, 0.75: 435, 0.95: 546, 0.99: 593}
    for probability, rate in published.items():
        assert statistics.quantiles[probability] == pytest.approx(rate, rel=0.1)


def test_taxi_moves_as_smoothly_as_the_real_one(taxi):
    statistics = describe(taxi)

    assert statistics.mean_step == pytest.approx(19.9, rel=0.05)
    assert statistics.zero_share == 0
    published = {1: 0.985, 10: 0.979, 60: 0.885, 1440: 0.799, 10080: 0.911}
    tolerance = {1: 0.005, 10: 0.005, 60: 0.02, 1440: 0.08, 10080: 0.05}
    for lag, value in published.items():
        assert statistics.autocorrelations[lag] == pytest.approx(value, abs=tolerance[lag])


def test_taxi_has_the_published_day_and_week(taxi):
    weeks = taxi[: 52 * 7 * 1440].reshape(52, 7, 24, 60)

    by_hour = weeks.mean(axis=(0, 1, 3))
    by_day = weeks.mean(axis=(0, 2, 3))

    published_hours = [216, 156, 117, 89, 132, 216, 293, 345, 358, 365, 381, 377]
    published_hours += [389, 382, 342, 360, 433, 478, 480, 474, 457, 422, 363, 285]
    assert by_hour == pytest.approx(published_hours, rel=0.1)
    assert by_day == pytest.approx([326, 336, 346, 360, 351, 288, 300], rel=0.07)


def test_tweets_has_the_published_mean_and_deviation_within_what_days_add(tweets):
    statistics = describe(tweets)

    assert statistics.mean == pytest.approx(2218, rel=0.15)
    assert statistics.standard_deviation == pytest.approx(1439.5, rel=0.15)
    assert statistics.quantiles[0.5] == pytest.approx(2570, rel=0.2)


def test_tweets_is_as_bursty_as_the_real_one(tweets):
    statistics = describe(tweets)

    assert statistics.zero_share == pytest.approx(0.068, abs=0.01)
    assert statistics.mean_step == pytest.approx(342, rel=0.1)
    published = {1: 0.900, 10: 0.316, 60: 0.559, 1440: 0.306, 10080: 0.346}
    tolerance = {1: 0.03, 10: 0.15, 60: 0.15, 1440: 0.25, 10080: 0.2}
    for lag, value in published.items():
        assert statistics.autocorrelations[lag] == pytest.approx(value, abs=tolerance[lag])


@pytest.mark.parametrize("kind", TraceKind)
def test_equal_seeds_give_equal_traces_and_others_do_not(kind):
    first, second, other = (
        synthesise(kind, slots=500, rng=np.random.default_rng(seed)) for seed in (4, 4, 5)
    )

    assert first.tolist() == second.tolist()
    assert first.tolist() != other.tolist()


@pytest.mark.parametrize("kind", TraceKind)
@pytest.mark.parametrize("slots", [1, 7, 1439, 1441])
def test_a_made_up_trace_has_the_length_asked_for(kind, slots):
    trace = synthesise(kind, slots=slots, rng=np.random.default_rng(1))

    assert trace.shape == (slots,)
    assert (trace >= 0).all()


def test_a_trace_without_slots_is_refused():
    with pytest.raises(TraceError, match="slots is 0"):
        synthesise(TraceKind.TAXI, slots=0, rng=np.random.default_rng(1))
