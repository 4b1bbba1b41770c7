"""The script that runs the tests on a real cluster says where there can be none."""


def test_a_machine_without_a_cluster_is_told_so_in_one_line_and_goes_on(run, tmp_path):
    ended = run(["scripts/e2e"], WEIR_CLUSTER=str(tmp_path / "nowhere"))

    assert ended.returncode == 0
    assert ended.stdout.startswith("e2e: not run, because ")
    assert ended.stdout.count("\n") == 1
    assert ended.stderr == ""


def test_a_cluster_that_does_not_start_is_tried_again_and_fails_no_test(run, tmp_path):
    for name, command in {"up": "echo up >> tried; exit 1", "down": "echo down >> tried"}.items():
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\ncd {tmp_path} && {command}\n")
        script.chmod(0o755)

    ended = run(["scripts/e2e"], WEIR_CLUSTER=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))

    assert ended.returncode == 0
    assert ended.stdout.startswith("e2e: not run, because ")
    tried = tmp_path / "tried"
    assert not tried.exists() or tried.read_text().startswith("up\ndown\nup\ndown\n")
