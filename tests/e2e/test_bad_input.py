"""Bad input ends `weir local` in one sentence, before anything was started.

Flink is never reached here: what only a running Flink can refuse is tested beside the rescaler.
"""

import json
import subprocess
import sys

import pytest
import yaml


@pytest.fixture
def weir_local(tmp_path):
    """Run `weir local` on a manifest."""
    (tmp_path / "job.jar").write_bytes(b"")

    def run(*arguments, policy="queueing", state=tmp_path / "state"):
        manifest = tmp_path / "app.yaml"
        spec = {
            "flink": {"job": {"jar": "job.jar"}},
            "objective": {"responseTime": "500ms"},
            "nodePools": [{"name": "small", "sizes": ["500m"], "memory": "1Gi", "price": "0.04"}],
            "operatorManager": {"policy": {"name": policy}},
        }
        document = {
            "apiVersion": "weir.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "app"},
            "spec": spec,
        }
        manifest.write_text(yaml.safe_dump(document))
        command = [sys.executable, "-m", "weir_cli.main", "local", str(manifest)]
        return subprocess.run(
            [*command, "--state", str(state), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_a_manifest_that_cannot_be_right_ends_in_one_sentence(weir_local):
    assert_one_sentence(weir_local(policy="oracle"), "queueing", "'oracle'")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--duration", "soon"], ("--duration", "'soon'", "200ms")),
        (["--job-args", '"x'], ("--job-args", "close the quotes")),
    ],
)
def test_an_option_that_cannot_be_read_ends_in_one_sentence(weir_local, arguments, said):
    assert_one_sentence(weir_local(*arguments), *said)


def test_a_state_folder_that_is_a_file_ends_in_one_sentence(weir_local, tmp_path):
    done = weir_local(state=tmp_path / "job.jar")

    assert_one_sentence(done, "job.jar", "choose another state folder")


def test_a_status_that_is_none_of_weirs_is_refused_and_left_alone(weir_local, tmp_path):
    status = tmp_path / "state/default.app/status.json"
    status.parent.mkdir(parents=True)
    status.write_text(json.dumps({"savepoints": 7}))

    done = weir_local()

    assert_one_sentence(done, "status.json", "move the file away")
    assert json.loads(status.read_text()) == {"savepoints": 7}


def assert_one_sentence(done, *parts):
    assert done.returncode in (1, 2), done.stdout
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert all(part in lines[0] for part in parts), lines[0]
