"""Series of StreamApps on the page of metrics, as a Prometheus reads it."""

from __future__ import annotations

import math

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from weir_operator.api.objects import Key
from weir_operator.cluster.status.telemetry import AppSeries

TRIPS = Key("streams", "trips")


def read(*series):
    registry = CollectorRegistry()
    for each in series:
        registry.register(each)
    page = generate_latest(registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_a_series_is_read_back_with_all_its_labels():
    decisions = AppSeries(
        CounterMetricFamily, "weir_decisions_total", "Decisions.", ("operator", "granted")
    )

    decisions.add(TRIPS, "match", "true")
    decisions.add(TRIPS, "match", "true")
    decisions.add(TRIPS, "source", "false", amount=0)

    labels = {"namespace": "streams", "app": "trips"}
    assert read(decisions) == {
        ("weir_decisions_total", frozenset((labels | each).items())): value
        for each, value in (
            ({"operator": "match", "granted": "true"}, 2.0),
            ({"operator": "source", "granted": "false"}, 0.0),
        )
    }


@pytest.mark.parametrize("value", [0.0, -1.5, 1e-9, 1.7e9, 1e300, math.inf, -math.inf, math.nan])
def test_every_number_is_read_back(value):
    cost = AppSeries(GaugeMetricFamily, "weir_cost_per_hour", "Cost.")

    cost.set(TRIPS, value)

    [found] = read(cost).values()
    assert found == value or (math.isnan(found) and math.isnan(value))


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb", "{}", "%s", "ü"])
def test_a_label_holds_any_text(text):
    events = AppSeries(CounterMetricFamily, "weir_events_total", "Events.", ("reason",))

    events.add(TRIPS, text)

    [(_, labels)] = read(events)
    assert dict(labels)["reason"] == text


def test_series_of_a_streamapp_that_is_gone_are_gone():
    cost = AppSeries(GaugeMetricFamily, "weir_cost_per_hour", "Cost.")
    cost.set(TRIPS, 1.0)
    cost.set(Key("streams", "other"), 2.0)

    cost.forget(TRIPS)

    assert list(read(cost).values()) == [2.0]
    assert cost.of(TRIPS) == {}
