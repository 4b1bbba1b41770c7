"""`examples/routes`: its manifest, and the rides that it makes up."""

import os
import subprocess
from collections import Counter

import pytest

from weir_operator.flink.jars import HELPER, REPOSITORY, build_jar, class_path, find_java
from weir_operator.streamapp.loading import load_manifest

EXAMPLE = REPOSITORY / "examples/routes"
WEST, SOUTH, CELL, COLUMNS, ROWS = -74.30, 40.50, 0.01, 60, 50


@pytest.fixture(scope="module")
def jar(tmp_path_factory):
    sources = [*(REPOSITORY / "examples/trips").glob("*.java"), *EXAMPLE.glob("*.java")]
    path = tmp_path_factory.mktemp("routes") / "routes.jar"
    return build_jar([HELPER, *sorted(sources)], path, entry_class="example.Routes")


def list_rides(jar, trace, *arguments):
    """Return the end, Unix ms, and the line of each ride that the generator makes up."""
    path = os.pathsep.join([str(jar), class_path()])
    told = subprocess.run(
        [str(find_java()), "-cp", path, "example.Rides", "--trace", str(trace), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    return [(int(end), line) for end, line in (row.split(" ", 1) for row in told.splitlines())]


def route_of(line):
    """Return the route of a ride; `None` where the line is broken or leads out of the city."""
    fields = line.split(",")
    if len(fields) != 7:
        return None
    cells = []
    for longitude, latitude in (fields[3:5], fields[5:7]):
        column = int((float(longitude) - WEST) // CELL)
        row = int((float(latitude) - SOUTH) // CELL)
        if not (0 <= column < COLUMNS and 0 <= row < ROWS):
            return None
        cells.append(f"{column}.{row}")
    return "-".join(cells)


def test_the_example_is_a_valid_streamapp_with_the_operators_of_the_paper():
    app = load_manifest(EXAMPLE / "streamapp.yaml")

    names = [operator.name for operator in app.spec.operators]

    assert names == ["source", "parse", "filter", "route", "count", "partial-rank", "global-rank"]


def test_equal_seeds_make_equal_rides_and_some_of_them_are_no_good(jar, tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("200\n200\n")

    first, again, other = (
        list_rides(jar, trace, "--start-at", "0", "--seed", seed) for seed in ("3", "3", "4")
    )

    assert first == again
    assert first != other
    refused = sum(route_of(line) is None for _, line in first)
    assert 0.02 < refused / len(first) < 0.09
    routes = Counter(route_of(line) for _, line in first)
    assert len(routes) > 100
    assert routes.most_common(1)[0][1] > 20 * len(first) / 400  # evenly it would be 1
