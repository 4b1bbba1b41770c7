"""The Java helper `Weir`: arguments, the speed file, and functions with their time counted."""

import pytest

pytestmark = pytest.mark.flink

BOUNDS = 24


def test_the_speed_is_one_until_the_file_says_otherwise(ask, tmp_path):
    assert ask("speed", tmp_path / "speed", "-", "0.25", "1.6\n") == ["1.0", "0.25", "1.6"]


@pytest.mark.parametrize(
    "content", ["", "-", "0.", "fast", "0", "-1", "NaN", "Infinity", "0.2 0.3"]
)
def test_a_speed_file_that_cannot_be_right_leaves_the_last_good_value(ask, tmp_path, content):
    assert ask("speed", tmp_path / "speed", "0.5", content) == ["0.5", "0.5"]


@pytest.mark.parametrize(
    ("args", "parallelism"),
    [
        ([], "3"),
        (["--weir.parallelism.match", "5"], "5"),
        (["--trace", "x", "--weir.parallelism.aggregate", "2"], "3"),
    ],
)
def test_the_parallelism_comes_from_the_argument_named_for_the_operator(ask, args, parallelism):
    assert ask("parallelism", *args) == [parallelism]


@pytest.mark.parametrize("value", [["0"], ["-1"], ["two"], []])
def test_a_parallelism_that_is_no_whole_number_is_refused_with_what_was_given(run_java, value):
    answer = run_java("Probe", "parallelism", "--weir.parallelism.match", *value)

    got = value[0] if value else "nothing"
    assert (
        f"Expected a whole number >= 1 after --weir.parallelism.match, got {got}" in answer.stderr
    )


def test_a_pinned_operator_asks_for_what_weir_chose_in_the_jobs_configuration(ask):
    chosen = ["weir.parallelism.match=1", "weir.managed-memory.match=128m"]

    lines = ask("pin", *chosen)

    assert len(lines) == 3  # a stream, a sink, a query
    for line in lines:
        assert line.startswith("1 match 128")
        assert "op-match" in line


def test_a_pin_without_weir_asks_for_nothing(ask):
    assert set(ask("pin")) == {"1 match - {}"}


@pytest.fixture(scope="module")
def told(run_java, tmp_path_factory):
    """What `WrapperJob` printed: ten records, each doubled, through wrapped functions."""
    folder = tmp_path_factory.mktemp("services")
    services = folder / "META-INF/services"
    services.mkdir(parents=True)
    factory = "org.apache.flink.metrics.reporter.MetricReporterFactory"
    (services / factory).write_text("example.WrapperJob$Kept\n")

    answer = run_java("WrapperJob", folder=folder)

    assert answer.returncode == 0, answer.stderr
    return dict(line.split(" ", 1) for line in answer.stdout.splitlines())


def test_a_wrapped_rich_function_is_opened_and_closed_with_its_runtime_context(told):
    assert told["twice.open.0"] == "1"
    assert told["twice.close"] == "1"


def test_a_wrapped_keyed_function_keeps_its_state_timers_and_side_output(told):
    assert (told["counting.key.0"], told["counting.key.1"]) == ("10", "10")
    assert told["counting.timers"] == "10"  # one for each timestamp
    assert told["last.records"] == "10"


def test_a_wrapped_checkpointed_function_is_initialised_and_snapshotted(told):
    assert told["last.initialized"] == "1"
    assert told["last.snapshot"] == "true"


@pytest.mark.parametrize("operator", ["counting", "slow", "probe", "before-slow"])
def test_every_record_is_counted_once_where_it_is_served(told, operator):
    assert told[f"{operator}.weir_service_n"] == "20"
    assert told[f"{operator}.weir_age_n"] == "20"


def test_service_time_is_counted_with_its_square(told):
    total = int(told["slow.weir_service_us_sum"])
    squares = float(told["slow.weir_service_us2_sum"])

    assert total >= 20 * 20_000  # it sleeps 20 ms for each of 20 records
    assert squares >= total**2 / 20  # no variance is negative


def test_time_in_a_timer_is_part_of_the_next_records_service(told):
    total = int(told["counting.weir_service_us_sum"])
    squares = float(told["counting.weir_service_us2_sum"])

    assert total >= 9 * 20_000  # each of ten timers sleeps 20 ms; the last fires after all records
    assert squares >= 9 * 20_000**2


def test_time_spent_in_the_collector_is_not_the_functions_own(told):
    before = int(told["before-slow.weir_service_us_sum"])

    assert before < int(told["slow.weir_service_us_sum"]) / 2


def test_the_latency_is_counted_at_sinks_alone(told):
    assert told["slow.weir_latency_n"] == told["probe.weir_latency_n"] == "20"
    assert told["last.weir_latency_n"] == "10"
    assert not [name for name in told if name.startswith("counting.weir_latency")]


def test_records_from_the_future_are_in_every_bucket_and_ancient_ones_in_none(told):
    buckets = [told[name] for name in told if name.startswith("probe.weir_latency_bucket.")]

    assert buckets == ["10"] * BOUNDS
