"""The scripts for new users: what the one for kind sends to a cluster is right.

The one for this machine runs for real, in `tests/e2e/test_quick_start.py`.
"""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.api.assets import MissingProgramError
from tests.helm.program import find_or_build_helm
from weir_operator.kubernetes.app.preflight import find_refusals
from weir_operator.streamapp.loading import parse_manifest

REPOSITORY = Path(__file__).parents[2]
RECORDS = """\
#!/bin/bash
echo "$0 $*" >> "$RECORDED/commands"
case "$*" in
apply*) n=$(ls "$RECORDED" | wc -l); cat > "$RECORDED/applied-$n.yaml" ;;
"create namespace"*) echo '{apiVersion: v1, kind: Namespace, metadata: {name: streams}}' ;;
*lastAction*) echo "${ACTION-Rescaled digests 1 -> 2 in 9 s}" ;;
esac
"""


@pytest.fixture
def run_script(tmp_path):
    """Run the script on a cluster that exists; kubectl and helm only record what is asked."""
    programs, recorded = tmp_path / "bin", tmp_path / "recorded"
    for folder in (programs, recorded):
        folder.mkdir()
    for name in ("kubectl", "helm"):
        (programs / name).write_text(RECORDS)
        (programs / name).chmod(0o755)

    def run():
        done = subprocess.run(
            [str(REPOSITORY / "scripts/quick-start-kind")],
            env={
                "PATH": f"{programs}:{os.environ['PATH']}",
                "RECORDED": str(recorded),
                "CLUSTER": "no",
                "KUBECONFIG": "any",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, recorded

    return run


def test_the_one_for_kind_applies_a_streamapp_that_is_right(run_script):
    said, recorded = run_script()

    applied = [
        document
        for file in sorted(recorded.glob("applied-*"))
        for document in yaml.safe_load_all(file.read_text())
    ]
    [manifest] = [each for each in applied if each["kind"] == "StreamApp"]
    [claim] = [each for each in applied if each["kind"] == "PersistentVolumeClaim"]
    app = parse_manifest(manifest)
    assert find_refusals(app) == ()
    assert app.spec.flink.job is not None
    assert app.spec.flink.job.sql is not None
    query = (REPOSITORY / "examples/sql/query.sql").read_text()
    assert (app.spec.flink.job.sql.script or "").strip() == query.strip()
    assert app.spec.flink.storage is not None
    assert app.spec.flink.storage.claim == claim["metadata"]["name"]
    assert "Rescaled digests 1 -> 2" in said


@pytest.mark.helm
def test_the_one_for_kind_gives_the_chart_values_that_it_has(run_script):
    try:
        helm = find_or_build_helm()
    except MissingProgramError as error:
        pytest.skip(str(error))
    _, recorded = run_script()
    [line] = [
        each
        for each in (recorded / "commands").read_text().splitlines()
        if "helm upgrade --install" in each
    ]
    words = line.split()
    values = [word for at, word in enumerate(words) if words[at - 1] == "--set"]
    options = [part for value in values for part in ("--set", value)]

    rendered = subprocess.run(
        [str(helm), "template", "weir", "helm/weir", *options, "--kube-version", "1.34.0"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip

    objects = [each for each in yaml.safe_load_all(rendered.stdout) if each]
    [controller] = [each for each in objects if each["kind"] == "Deployment"]
    [container] = controller["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "weir:quick-start"
    assert any(
        each["kind"] == "Role" and each["metadata"]["namespace"] == "streams" for each in objects
    )
