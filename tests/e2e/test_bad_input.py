"""Bad input ends `weir local` in one sentence, before anything was started.

Flink is never reached here: what only a running Flink can refuse is tested beside the rescaler.
"""

import json
import os
import subprocess
import sys

import pytest
import yaml

POOL = {"name": "small", "sizes": ["500m"], "memory": "1Gi", "price": 0.04}
SPEC = {
    "flink": {"job": {"jar": "job.jar"}},
    "objective": {"responseTime": "500ms"},
    "nodePools": [POOL],
    "operators": [{"name": "source", "fixed": {"small/500m": 1}}, {"name": "match"}],
}


@pytest.fixture
def weir_local(tmp_path):
    """Run `weir local` on the manifest with some sections replaced."""
    (tmp_path / "job.jar").write_bytes(b"")

    def run(*arguments, environment=None, state=None, **spec):
        manifest = tmp_path / "app.yaml"
        document = {
            "apiVersion": "weir.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "app"},
            "spec": SPEC | spec,
        }
        manifest.write_text(yaml.safe_dump(document))
        where = tmp_path / "state" if state is None else state
        command = [sys.executable, "-m", "weir_cli.main", "local", str(manifest)]
        return subprocess.run(
            [*command, "--state", str(where), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env=os.environ | (environment or {}),
            check=False,
        )

    return run


def pools(**changes):
    return [POOL | changes]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(
            {"operators": [{"name": "match", "pools": ["huge"]}]},
            ("spec.operators[0].pools[0]", "'huge'", "(small)"),
            id="an unknown pool",
        ),
        pytest.param(
            {"nodePools": pools(price=0)}, ("spec.nodePools[0].price", "got 0", "0.04"), id="free"
        ),
        pytest.param(
            {"nodePools": pools(price=-1)}, ("spec.nodePools[0].price", "got -1", "0.04"), id="paid"
        ),
        pytest.param(
            {"operators": [{"name": "match"}, {"name": "match"}]},
            ("spec.operators[1].name", "'match'", "rename"),
            id="an operator twice",
        ),
        pytest.param(
            {
                "flink": {
                    "job": {"jar": "job.jar"},
                    "config": {"taskmanager.numberOfTaskSlots": "4"},
                }
            },
            ("spec.flink.config", "taskmanager.numberOfTaskSlots", "remove it"),
            id="a key of Flink that Weir owns",
        ),
        pytest.param(
            {"flink": {"job": {"jar": "none.jar"}}},
            ("spec.flink.job.jar", "none.jar", "build it"),
            id="no such jar",
        ),
        pytest.param(
            {"operatorManager": {"policy": {"name": "oracle"}}},
            ("queueing", "'oracle'"),
            id="an unknown policy",
        ),
    ],
)
def test_a_manifest_that_cannot_be_right_ends_in_one_sentence(weir_local, spec, said):
    done = weir_local(**spec)

    assert_one_sentence(done, *said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--duration", "soon"], ("--duration", "'soon'", "200ms"), id="no duration"),
        pytest.param(["--duration", "0s"], ("--duration", "'0s'", "from 1ms"), id="no time"),
        pytest.param(["--job-args", '"x'], ("--job-args", "close the quotes"), id="open quotes"),
    ],
)
def test_an_option_that_cannot_be_read_ends_in_one_sentence(weir_local, arguments, said):
    done = weir_local(*arguments)

    assert_one_sentence(done, *said)


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
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert all(part in lines[0] for part in parts), lines[0]
