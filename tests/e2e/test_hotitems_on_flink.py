"""`examples/hotitems` on real Flink, with its windows in RocksDB: those of a plain count."""

import json
import math
import os
import subprocess
from collections import Counter, defaultdict

import pytest
import yaml

from tests.e2e.rocksdb_caches import read_caches
from tests.operator.flink.output import committed_lines
from weir_operator.flink.jars import (
    HELPER,
    REPOSITORY,
    build_example,
    build_jar,
    class_path,
    find_java,
)

EXAMPLE = REPOSITORY / "examples/hotitems"
RATE, ITEMS, SEED = 60, 50, 7
WINDOW_MS, SLIDE_MS = 4000, 2000


def list_bids(tmp_path, seconds):
    """Return when each bid is due, ms after the trace's start, and its item."""
    lister = REPOSITORY / "tests/java/ListBids.java"
    sources = [
        *sorted((REPOSITORY / "examples/trips").glob("*.java")),
        *sorted((REPOSITORY / "examples/hotitems").glob("*.java")),
    ]
    jar = build_jar([HELPER, *sources, lister], tmp_path / "bids.jar")
    rates = ",".join([str(RATE)] * math.ceil(seconds / 5))
    told = subprocess.run(
        [
            *(str(find_java()), "-cp", os.pathsep.join([str(jar), class_path()])),
            *("example.ListBids", rates, "5", str(SEED), str(ITEMS)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    return [(int(due), int(item)) for due, item in (line.split() for line in told.splitlines())]


def count_plainly(bids, start, last):
    """Return the lines of windows until a last one: end, hottest item, its bids, all bids."""
    windows: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for due, item in bids:
        at = start + due
        first = at - at % SLIDE_MS + SLIDE_MS
        for end in range(first, at + WINDOW_MS + 1, SLIDE_MS):
            windows[end][item] += 1
    lines = []
    for end, counts in windows.items():
        if end > last:
            continue
        hottest, maximum = min(counts.items(), key=lambda each: (-each[1], each[0]))
        lines.append(f"{end} {hottest} {maximum} {counts.total()}")
    return lines


def read_windows(tmp_path):
    return sorted(committed_lines(tmp_path / "windows"))


def last_end(lines):
    """Return the end of the last window, Unix ms."""
    return max((int(line.split()[0]) for line in lines), default=0)


@pytest.mark.long
@pytest.mark.flink
@pytest.mark.timeout(900)  # many JVMs start, which takes minutes on a busy machine
def test_the_hot_items_of_all_windows_are_exact_over_a_rescale(tmp_path, run_locally):
    manifest = yaml.safe_load((EXAMPLE / "streamapp.yaml").read_text())
    job = manifest["spec"]["flink"]["job"]
    job["jar"] = str(build_example("hotitems"))
    trace = tmp_path / "trace.txt"
    trace.write_text(f"{RATE}\n")
    job["args"] = [
        *("--trace", str(trace), "--service.bid-ms", "25"),
        *("--items", str(ITEMS), "--seed", str(SEED)),
        *("--window-seconds", str(WINDOW_MS // 1000), "--slide-seconds", str(SLIDE_MS // 1000)),
        *("--commit", str(tmp_path / "windows"), "--out", str(tmp_path / "out")),
    ]
    # One replica of `bid` takes in 40 a second: others are added while windows are counted.
    manifest["spec"]["operatorManager"] = {
        "interval": "3s",
        "policy": {"name": "autrascale", "settings": {"settle": 3, "runs": 2}},
    }

    def are_counted_by_more(told):
        done = [each.finished for each in told.rescales if each.outcome == "done"]
        return bool(done) and last_end(read_windows(tmp_path)) > 1000 * done[0]

    told = run_locally(manifest, enough=are_counted_by_more)

    assert are_counted_by_more(told)
    start = json.loads((tmp_path / "out/source.json").read_text())["start"]
    windows = read_windows(tmp_path)
    last = last_end(windows)
    bids = list_bids(tmp_path, (last - start) / 1000)
    assert windows == sorted(count_plainly(bids, start, last))
    caches = read_caches(tmp_path / "state")  # of `bid`, too, if it was warmed up in time
    assert caches["count"] == caches["sink"] == {128 * 2**20}
