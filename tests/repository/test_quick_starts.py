"""The scripts for new users: what they ask other programs for, and how they fail.

The one for this machine runs for real, in `tests/e2e/test_quick_start.py`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.api.assets import MissingProgramError
from tests.helm.program import find_or_build_helm
from weir_operator.cluster.app.preflight import find_refusals
from weir_operator.streamapp.loading import parse_manifest

REPOSITORY = Path(__file__).parents[2]
RECORDS = """\
#!/bin/bash
echo "$0 $*" >> "$RECORDED/commands"
case "$*" in
apply*) n=$(ls "$RECORDED" | wc -l); cat > "$RECORDED/applied-$n.yaml" ;;
wait*) exit ${WAITED-0} ;;
"create namespace"*) echo '{apiVersion: v1, kind: Namespace, metadata: {name: streams}}' ;;
*lastAction*) echo "${ACTION-Rescaled digests 1 -> 2 in 9 s}" ;;
esac
"""


WEIR = """\
#!/bin/bash
# As `weir local FILE` and `weir explain` do, but that nothing runs.
echo "$*" >> "$RECORDED/commands"
[[ $1 == local ]] || exit 0
mkdir -p build/quick-start
touch "build/quick-start/of-$(basename "$2" .sql).yaml"
echo '[{"figure": "restarts", "value": '$RESTARTS'}]' > build/quick-start/summary.json
"""


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def local(tmp_path):
    """Run the script for this machine in a checkout where `weir` and `make` only record."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(REPOSITORY / "scripts/quick-start", checkout / "scripts")
    write_program(checkout / ".venv/bin/weir", WEIR)
    (checkout / ".venv/bin/python").symlink_to(sys.executable)
    write_program(tmp_path / "bin/make", "#!/bin/bash\n")

    def run(*arguments, restarts=1):
        done = subprocess.run(
            [str(checkout / "scripts/quick-start"), *arguments],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
                "RECORDED": str(tmp_path),
                "RESTARTS": str(restarts),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        commands = tmp_path / "commands"
        lines = commands.read_text().splitlines() if commands.exists() else []
        return done, [line.split() for line in lines]

    return run


def test_the_one_for_this_machine_explains_a_script_of_any_name_in_any_folder(local, tmp_path):
    other, query = tmp_path / "other.sql", tmp_path / "mine/My_Query.sql"
    query.parent.mkdir()
    for file in (other, query):
        file.write_text("SELECT 1")
    first, _ = local("other.sql")

    done, commands = local("mine/My_Query.sql", "5m")

    assert (first.returncode, done.returncode) == (0, 0), first.stderr + done.stderr
    asked = [command[:2] for command in commands]
    assert asked == [
        ["local", str(other)],
        ["explain", "of-other"],
        ["local", str(query)],
        ["explain", "of-My_Query"],
    ]
    assert commands[2][commands[2].index("--duration") + 1] == "5m"


def test_the_one_for_this_machine_fails_where_nothing_was_scaled(local, tmp_path):
    (tmp_path / "query.sql").write_text("SELECT 1")

    done, _ = local("query.sql", restarts=0)

    assert done.returncode == 1


@pytest.mark.parametrize("name", ["job.jar", "missing.sql"])
def test_the_one_for_this_machine_takes_a_sql_script_alone(local, tmp_path, name):
    (tmp_path / "job.jar").write_text("")

    done, commands = local(name)

    assert (done.returncode, commands) == (1, [])


@pytest.fixture
def run_kind(tmp_path):
    """Run the script for kind; the programs that it needs only record what is asked."""
    programs, recorded = tmp_path / "bin", tmp_path / "recorded"
    recorded.mkdir()
    for name in ("kubectl", "helm", "kind", "docker", "sleep"):
        write_program(programs / name, RECORDS)

    def run(*arguments, cluster="no", **answers):
        done = subprocess.run(
            [str(REPOSITORY / "scripts/quick-start-kind"), *arguments],
            env={
                "PATH": f"{programs}:{os.environ['PATH']}",
                "RECORDED": str(recorded),
                "CLUSTER": cluster,
                "KUBECONFIG": "any",
                **answers,
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        commands = recorded / "commands"
        lines = commands.read_text().splitlines() if commands.exists() else []
        return done, [line.removeprefix(f"{programs}/") for line in lines]

    return run


@pytest.fixture
def run_script(run_kind, tmp_path):
    """Run it on a cluster that exists."""

    def run():
        done, _ = run_kind()
        assert done.returncode == 0, done.stderr
        return done.stdout, tmp_path / "recorded"

    return run


@pytest.mark.parametrize("answers", [{"ACTION": ""}, {"WAITED": "1"}])
def test_the_one_for_kind_shows_events_and_fails_where_the_job_is_not_scaled(run_kind, answers):
    done, commands = run_kind(**answers)

    assert done.returncode == 1
    assert commands[-1].startswith("kubectl get events")
    assert not any("weir explain" in command for command in commands)


def test_the_one_for_kind_deletes_the_cluster_and_does_nothing_else(run_kind):
    done, commands = run_kind("--delete", cluster="yes")

    assert done.returncode == 0, done.stderr
    assert commands == ["kind delete cluster --name weir-quick-start"]


@pytest.mark.parametrize("arguments", [["--delete"], ["--remove"]])
def test_the_one_for_kind_installs_nothing_where_it_was_asked_for_something_else(
    run_kind, arguments
):
    done, commands = run_kind(*arguments)

    assert (done.returncode, commands) == (1, [])


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
