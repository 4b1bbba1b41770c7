"""`examples/routes`: its manifest, the rides that it makes up, and their rankings on real Flink."""

import json
import os
import subprocess
from collections import Counter

import pytest
import yaml

from tests.operator.flink.output import committed_lines
from weir_operator.flink.jars import REPOSITORY, build_example, class_path, find_java

EXAMPLE = REPOSITORY / "examples/routes"
TICK_MS, TICKS, MAX_ROUTES = 1000, 30, 10
WEST, SOUTH, CELL, COLUMNS, ROWS = -74.30, 40.50, 0.01, 60, 50


@pytest.fixture(scope="module")
def jar(tmp_path_factory):
    return build_example("routes", tmp_path_factory.mktemp("routes"))


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


def rank_plainly(rides):
    """Return the rows that the job should tell: end of window, rank, route, count."""
    taken = [(end // TICK_MS, route) for end, line in rides if (route := route_of(line))]
    rows = []
    for tick in range(taken[0][0], taken[-1][0] + TICKS):
        counts = Counter(route for at, route in taken if tick - TICKS < at <= tick)
        first = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:MAX_ROUTES]
        ends = (tick + 1) * TICK_MS - 1
        rows += [f"{ends},{rank},{route},{count}" for rank, (route, count) in enumerate(first, 1)]
    return rows


@pytest.mark.long
@pytest.mark.flink
@pytest.mark.timeout(900)  # many JVMs start, which takes minutes on a busy machine
def test_the_most_frequent_routes_are_told_exactly_by_replicas_in_parallel(
    jar, tmp_path, run_locally
):
    manifest = yaml.safe_load((EXAMPLE / "streamapp.yaml").read_text())
    manifest["spec"]["flink"]["job"]["jar"] = str(jar)
    for operator in manifest["spec"]["operators"]:
        if operator["name"] in ("count", "partial-rank"):
            operator["initial"] = {"large/1": 2}
    trace = tmp_path / "trace.txt"
    trace.write_text("60\n20\n")
    job = f"--trace {trace} --at-end finish --commit {tmp_path}/ranked --out {tmp_path}/out"

    run_locally(manifest, "--policy", "hold", "--job-args", job)

    start = str(json.loads((tmp_path / "out/source.json").read_text())["start"])
    assert sorted(committed_lines(tmp_path / "ranked")) == sorted(
        rank_plainly(list_rides(jar, trace, "--start-at", start))
    )
