"""The page on moving leaves out no option of Flink's autoscaler, and names fields that exist."""

import re

import pytest

from tests.docs.blocks import ROOT
from weir_operator.streamapp.crd import crd

OPTIONS = """
    enabled scaling.enabled excluded.periods stabilization.interval scaling.event.interval
    utilization.target utilization.max utilization.min target.utilization
    target.utilization.boundary catch-up.duration backlog-processing.lag-threshold restart.time
    restart.time-tracking.enabled restart.time-tracking.limit vertex.min-parallelism
    vertex.max-parallelism vertex.exclude.ids scale-up.max-factor scale-up.grace-period
    scale-down.max-factor scale-down.interval scaling.parallelism-alignment.mode
    scaling.key-group.partitions.adjust.mode scaling.effectiveness.detection.enabled
    scaling.effectiveness.threshold observed-scalability.enabled
    observed-scalability.min-observations observed-scalability.coefficient-min quota.cpu
    quota.memory metrics.window metrics.busy-time.aggregator metrics.custom-evaluators
    observed-true-processing-rate.lag-threshold observed-true-processing-rate.min-observations
    observed-true-processing-rate.switch-threshold flink.rest-client.timeout history.max.count
    history.max.age memory.gc-pressure.threshold memory.heap-usage.threshold
    memory.tuning.enabled memory.tuning.maximize-managed-memory memory.tuning.overhead
    memory.tuning.scale-down-compensation.enabled
"""
"""Of the Flink Kubernetes Operator: its page on configuration, and `AutoScalerOptions`."""


@pytest.fixture(scope="module")
def rows():
    lines = (ROOT / "docs/moving.md").read_text().splitlines()
    return [line.split("|")[1:3] for line in lines if line.startswith("| `job.autoscaler.")]


def test_every_option_has_a_row_that_says_what_becomes_of_it(rows):
    named = {
        option: answer.strip()
        for options, answer in rows
        for option in re.findall(r"`job\.autoscaler\.([a-z.-]+)`", options)
    }

    assert set(named) == set(OPTIONS.split())
    assert all(named.values())


def test_every_field_that_is_named_exists(rows):
    [version] = crd()["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    paths = [
        path
        for _, answer in rows
        for path in re.findall(r"`([a-z][A-Za-z]+(?:\[\])?\.[A-Za-z.]+)`", answer)
    ]

    assert len(paths) > 10
    assert [path for path in paths if not exists(spec, path)] == []


def exists(schema, path):
    for name in path.split("."):
        below = schema["properties"].get(name.removesuffix("[]"))
        if below is None:
            return False
        schema = below.get("items", below)
    return True
