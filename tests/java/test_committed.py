"""The transactional sink in `examples/trips`: what it commits over a failure."""

import pytest

from benchmarks.cluster.chaos.verdict import Committed, read_committed

pytestmark = pytest.mark.flink


def test_records_that_are_written_again_after_a_failure_are_committed_once(run_java, tmp_path):
    ended = run_java("CommitJob", tmp_path)

    assert ended.returncode == 0, ended.stderr
    replayed = int(ended.stdout)
    assert replayed > 0
    assert read_committed(tmp_path, 10_000) == Committed(records=10_000, lost=0, doubled=0)
