"""A namespace of its own on the cluster that KUBECONFIG names, with a volume for state.

These tests need a cluster where a node has the label `weir.dev/pool: large`, where all nodes have
the images named by `WEIR_TEST_IMAGE` (`trips:dev`, made by `examples/trips/Dockerfile`),
`WEIR_TEST_CONTROLLER_IMAGE` (`weir:dev`) and `WEIR_TEST_PROMETHEUS_IMAGE` (`prometheus:dev`), and
share this machine's disk, because the job's ledger is read from it. `scripts/e2e` makes all of it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable

import pytest

from benchmarks.cluster.place import Place, open_place
from tests.cluster.installed_chart import installed_chart

_TOLD = "told"
"""Name of the property of a test that goes to the report, also from another process."""


@pytest.fixture(autouse=True)
def _cluster_or_skip():
    if not os.environ.get("KUBECONFIG"):
        pytest.skip("KUBECONFIG names no cluster: start one and run `make e2e`")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests told, in front of the closing line."""
    lines = [
        str(line)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "teardown"
        for name, line in report.user_properties
        if name == _TOLD
    ]
    if lines:
        terminalreporter.section("on the cluster")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def tell(record_property) -> Callable[[str], None]:
    """Say something at the end of the run."""
    return lambda line: record_property(_TOLD, line)


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """Make a namespace with restricted pod security and a claim; clear both away."""
    async with open_place("weir-test") as place:
        yield place


@pytest.fixture
async def installed(place) -> AsyncIterator[None]:
    async with installed_chart(place):
        yield
