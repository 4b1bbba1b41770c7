"""The script that runs the tests on a real cluster says where there can be none."""

from __future__ import annotations


def test_a_machine_without_a_cluster_is_told_so_in_one_line_and_goes_on(run, tmp_path):
    ended = run(["scripts/e2e"], WEIR_CLUSTER=str(tmp_path / "nowhere"))

    assert ended.returncode == 0
    assert ended.stdout.startswith("e2e: not run, because ")
    assert ended.stdout.count("\n") == 1
    assert ended.stderr == ""
