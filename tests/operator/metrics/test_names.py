"""Series of a connector's own groups, by every way on which metrics come."""

import re

import pytest

from tests.operator.metrics.builders import FakeReporter
from weir_operator.metrics import names
from weir_operator.metrics.direct import DirectSource
from weir_operator.metrics.prometheus_server import _read, render_selector

PENDING = f"{names.OPERATOR}DynamicKafkaSource_kafkaCluster_pendingRecords"
OFFSET = (
    f"{names.OPERATOR}DynamicKafkaSource_kafkaCluster_KafkaSourceReader_topic_partition_"
    "currentOffset"
)
NESTED = [(PENDING, names.PENDING_RECORDS), (OFFSET, names.PARTITION_OFFSET)]


@pytest.mark.parametrize(("name", "own"), NESTED)
async def test_a_page_has_a_series_for_each_group_of_a_function(name, own):
    clusters = ("east", "west")
    page = {
        f'{name}{{weir_app="streams_trips",tm_id="a_0",topic="t",partition="1",'
        f'kafkaCluster="{cluster}",host="h",}}': 5.0
        for cluster in clusters
    }
    reporter = await FakeReporter(page).start()

    async def targets():
        return [reporter.url]

    source = DirectSource(targets, "streams/trips", clock=lambda: 100.0)
    try:
        await source.scrape()
        window = await source.window(start=0, end=1e12)
    finally:
        await source.close()
        await reporter.stop()

    found = [each for each in window.series if each.name == own]
    assert [each.labels["group"] for each in found] == [f"kafkaCluster={each}" for each in clusters]
    assert {each.values for each in found} == {(5.0,)}


@pytest.mark.parametrize(("name", "own"), NESTED)
def test_a_server_is_asked_for_a_group_of_a_function(name, own):
    pattern = re.search('__name__=~"([^"]*)"', render_selector({}))
    series = _read(
        {
            "metric": {"__name__": name, "kafkaCluster": "east", "tm_id": "a_0", "pod": "x"},
            "values": [[1, "2"]],
        }
    )

    assert pattern is not None
    assert re.fullmatch(pattern[1], name)
    assert (series.name, series.labels["group"]) == (own, "kafkaCluster=east")


@pytest.mark.parametrize(
    "name",
    [names.RECORDS_IN, names.PENDING_RECORDS, f"{names.OPERATOR}numRecordsOut", "pendingRecords"],
)
def test_other_names_are_left_as_they_are(name):
    assert names.read_name(name, {"kafkaCluster": "east"}) == (name, {"kafkaCluster": "east"})


def test_names_are_mangled_as_flink_does_it():
    assert names.mangle("trips/match-0.a:b_c") == "trips_match_0_a:b_c"
