"""Windows in SQL on real Flink: they live in managed memory, pinned or not."""

import zipfile

import pytest

from tests.e2e.rocksdb_caches import read_caches
from tests.operator.flink.output import committed_lines
from weir_operator.flink.jars import HELPER, REPOSITORY, build_jar

pytestmark = [pytest.mark.long, pytest.mark.flink, pytest.mark.timeout(600)]

RECORDS = 6000
KEYS = 10
PER_WINDOW = 100  # ten ms of event time each, a second a window


@pytest.fixture(scope="module")
def sql_jar(tmp_path_factory):
    """A job that counts numbers by SQL."""
    trips = sorted((REPOSITORY / "examples/trips").glob("*.java"))
    job = REPOSITORY / "tests/java/SqlWindows.java"
    folder = tmp_path_factory.mktemp("jars")
    return build_jar([HELPER, *trips, job], folder / "sql.jar", entry_class="example.SqlWindows")


def a_manifest(jar, out, *, pinned, **spec):
    arguments = ["--records", str(RECORDS), "--pause-ms", "1", "--out", str(out)]
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "sql"},
        "spec": {
            "flink": {
                "job": {"jar": str(jar), "args": [*arguments, "--pinned", str(pinned).lower()]},
                "maxParallelism": 128,
                "config": {"state.backend.type": "rocksdb"},
            },
            "objective": {"responseTime": "1s"},
            **spec,
        },
    }


def leave_out_helper(jar, thin):
    """Copy a jar without the helper's classes; return the URI of a jar that has them."""
    with zipfile.ZipFile(jar) as whole, zipfile.ZipFile(thin, "w") as rest:
        for name in whole.namelist():
            if not name.startswith("dev/weir/"):
                rest.writestr(name, whole.read(name))
    return build_jar([HELPER], thin.with_name("library.jar")).as_uri()


def read_counts(out):
    """Return the count of each window and key."""
    lines = [line.split() for line in committed_lines(out)]
    counts = {(int(end), int(key)): int(count) for end, key, count in lines}
    assert len(counts) == len(lines)
    return counts


EXPECTED = {
    (end, key): PER_WINDOW // KEYS
    for end in range(1, RECORDS // PER_WINDOW + 1)
    for key in range(KEYS)
}


def test_a_window_in_sql_that_is_pinned_has_its_memory_in_pools_that_differ(
    tmp_path, sql_jar, run_locally
):
    out = tmp_path / "out"
    manifest = a_manifest(
        sql_jar,
        out,
        pinned=True,
        nodePools=[
            {"name": "small", "sizes": ["1"], "memory": "1Gi", "price": "0.04"},
            {"name": "large", "sizes": ["1"], "memory": "1536Mi", "price": "0.05"},
        ],
        operators=[
            {"name": "source", "fixed": {"small/1": 1}, "managedMemory": "64Mi"},
            {"name": "windows", "fixed": {"small/1": 1, "large/1": 1}},
            {"name": "sink", "fixed": {"large/1": 1}},
        ],
    )

    # A thin jar, with a library beside it.
    flink = manifest["spec"]["flink"]
    flink["config"]["pipeline.classpaths"] = leave_out_helper(sql_jar, tmp_path / "thin.jar")
    flink["job"]["jar"] = str(tmp_path / "thin.jar")

    run_locally(manifest)

    assert read_counts(out) == EXPECTED
    # Flink gives a part of the slot's managed memory to the state and the rest to the window; the
    # slot is the same in both pools.
    [cache] = read_caches(tmp_path / "state")["windows"]
    assert cache >= 32 * 2**20


def test_a_window_in_sql_runs_in_a_job_that_is_one_operator(tmp_path, sql_jar, run_locally):
    out = tmp_path / "out"
    manifest = a_manifest(
        sql_jar, out, pinned=False, nodePools=[{"name": "any", "sizes": ["1"], "memory": "1Gi"}]
    )

    run_locally(manifest)

    assert read_counts(out) == EXPECTED
    [cache] = read_caches(tmp_path / "state")["job"]
    assert cache >= 32 * 2**20
