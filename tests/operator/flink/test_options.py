"""What Flink refuses of its configuration, held against Flink itself."""

from __future__ import annotations

import json

import pytest
from scripts.flink_names import FILE, names_in, read_options

from weir_operator.flink.configuration import RECOMMENDED
from weir_operator.flink.jars import flink_home
from weir_operator.flink.options import (
    DURATIONS,
    FRESH,
    SIZES,
    find_refused_values,
    read_duration,
    read_size,
)

READ_DURATIONS = [
    "3 s", "3s", "3", "0", " 4 Min ", "PT3S", "pt3s", "P1D", "10 µs", "5 millis", "2 DAYS", "7 sec",
    "1 nanos", "10 micros", "2 hours", "9223372036854775807 s",
]  # fmt: skip
REFUSED_DURATIONS = [
    "", " ", "ms", "-3 s", "+3 s", "3.5 s", "1 h 2 m", "3 parsecs", "5 msec", "3_000", "1e3",
    "2 us", "2 w", "\uff13 s", "9223372036854775807 min", "9999999999999999999 s",
]  # fmt: skip
READ_SIZES = ["64m", "64 mb", "64 MB", "64", " 5 G ", "64 mebibytes", "2 tb", "64 bytes"]
REFUSED_SIZES = [
    "", "m", "-1m", "1.5g", "64Mi", "64 gi", "64 mib", "64 megabytes", "2 pb", "64 byte",
    "9223372036854775807 k", "99999999999999999999",
]  # fmt: skip


@pytest.mark.parametrize("text", READ_DURATIONS)
def test_a_duration_of_flinks_is_read(text):
    assert read_duration(text) is not None


@pytest.mark.parametrize("text", REFUSED_DURATIONS)
def test_what_is_no_duration_of_flinks_is_refused(text):
    assert read_duration(text) is None


@pytest.mark.parametrize("text", READ_SIZES)
def test_a_size_of_flinks_is_read(text):
    assert read_size(text) is not None


@pytest.mark.parametrize("text", REFUSED_SIZES)
def test_what_is_no_size_of_flinks_is_refused(text):
    assert read_size(text) is None


def test_what_weir_recommends_is_read():
    assert list(find_refused_values(RECOMMENDED)) == []
    assert len(DURATIONS & RECOMMENDED.keys()) > 8


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3 s", 3), ("250", 0.25), ("2 min", 120), ("PT1M3.5S", 63.5), ("-p1d", -86_400), ("0", 0)],
)
def test_a_duration_is_read_in_seconds(text, seconds):
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["p", "pt", "ptt", "p--", "pt1", "pt1s1m", "p1h"])
def test_what_java_does_not_read_is_no_duration(text):
    assert read_duration(text) is None


@pytest.mark.parametrize("key", sorted(FRESH))
@pytest.mark.parametrize(
    ("value", "is_refused"),
    [
        ("60000", True),
        ("1001 ms", True),
        ("PT1M", True),
        ("0", True),
        ("1 s", False),
        ("50", False),
    ],
)
def test_no_view_of_the_job_may_be_older_than_a_change_waits_for(key, value, is_refused):
    refused = list(find_refused_values({key: value}))

    assert [each.expected for each in refused] == ["more than 0 and at most 1 s"] * is_refused


def test_keys_that_are_not_known_pass():
    assert list(find_refused_values({"my.connector.timeout": "soon"})) == []


COLLECTORS = [
    ({"env.java.opts.all": "-XX:+UseG1GC"}, []),
    ({"env.java.opts.all": "-XX:+UseG1GC -XX:+UseG1GC"}, []),
    ({"env.java.opts.all": "-XX:+UseG1GC -XX:-UseG1GC -XX:+UseZGC"}, []),
    ({"env.java.opts.jobmanager": "-XX:+UseSerialGC", "env.java.opts.taskmanager": "-XX:+UseG1GC"},
     []),
    ({"env.java.opts.all": "-XX:+UseSerialGC", "env.java.opts.jobmanager": "-XX:-UseSerialGC"
      " -XX:+UseZGC"}, []),
    ({"env.java.opts.all": "-XX:+UseSerialGC -Dx='a b' -XX:+UseShenandoahGC"},
     ["env.java.opts.all"]),
    ({"env.java.opts": "-XX:+UseSerialGC -XX:+UseZGC"}, ["env.java.opts.all"]),  # by an older name
    ({"env.java.opts.taskmanager": "-XX:+UseParallelGC -XX:+UseZGC"},
     ["env.java.opts.taskmanager"]),
    ({"env.java.opts.all": "-XX:+UseSerialGC", "env.java.opts.taskmanager": "-XX:+UseG1GC"},
     ["env.java.opts.taskmanager"]),
]  # fmt: skip


@pytest.mark.parametrize(("config", "refused"), COLLECTORS)
def test_a_jvm_has_one_garbage_collector(config, refused):
    assert [each.key for each in find_refused_values(config)] == refused


@pytest.fixture(scope="module")
def read_by_flink():
    """Ask Flink for the types of its keys, and whether it reads texts as these types."""
    texts = [f"Duration {each}" for each in (*READ_DURATIONS, *REFUSED_DURATIONS)]
    texts += [f"MemorySize {each}" for each in (*READ_SIZES, *REFUSED_SIZES)]
    return read_options(flink_home(), "\n".join(texts))


@pytest.mark.flink
@pytest.mark.parametrize(("keys", "kind"), [(DURATIONS, "Duration"), (SIZES, "MemorySize")])
def test_keys_have_the_type_that_they_have_in_flink(read_by_flink, keys, kind):
    theirs = {each.split(" ")[2] for each in read_by_flink if each.startswith(f"key {kind} ")}

    assert keys - theirs == set()


@pytest.mark.flink
def test_all_names_that_flink_has_for_its_keys_are_known(read_by_flink):
    known = json.loads(FILE.read_text(encoding="utf-8"))

    for key, others in names_in(read_by_flink).items():
        # In Flink's order; what other versions have besides comes after.
        assert known[key][: len(others)] == others


@pytest.mark.flink
def test_flink_reads_and_refuses_the_same(read_by_flink):
    read = {each for each in read_by_flink if each.startswith("read ")}
    refused = {each for each in read_by_flink if each.startswith("refused ")}

    assert read == {
        *(f"read Duration {each}" for each in READ_DURATIONS),
        *(f"read MemorySize {each}" for each in READ_SIZES),
    }
    assert refused == {
        *(f"refused Duration {each}" for each in REFUSED_DURATIONS),
        *(f"refused MemorySize {each}" for each in REFUSED_SIZES),
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("jobmanager.web.refresh-interval", "60000"),
        ("akka.ask.timeout", "soon"),
        ("state.backend.fs.memory-threshold", "1 pb"),
        ("taskmanager.memory.size", "much"),
    ],
)
def test_a_value_is_refused_under_every_name_of_its_key(key, value):
    assert [each.key for each in find_refused_values({key: value})] == [key]


REPORTER = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"


@pytest.mark.parametrize("ports", [None, "9249", "9240-9260", "9300, 9249 - 9251", "9000-9249"])
def test_a_second_prometheus_reporter_on_the_port_of_weirs_is_refused(ports):
    config = {"metrics.reporter.mine.factory.class": REPORTER}
    if ports is not None:
        config["metrics.reporter.mine.port"] = ports

    [refused] = find_refused_values(config)

    assert refused.key == "metrics.reporter.mine.port"
    assert refused.value == (ports or "9249")
    assert "9249" in refused.expected


@pytest.mark.parametrize(
    "config",
    [
        {"factory.class": REPORTER, "port": "9250-9260"},
        {"factory.class": "org.apache.flink.metrics.slf4j.Slf4jReporterFactory"},
        {"factory.class": "org.apache.flink.metrics.jmx.JMXReporterFactory", "port": "9249"},
        {"factory.class": REPORTER, "port": "no port"},
    ],
)
def test_other_reporters_are_left_alone(config):
    prefixed = {f"metrics.reporter.mine.{key}": value for key, value in config.items()}

    assert list(find_refused_values(prefixed)) == []
