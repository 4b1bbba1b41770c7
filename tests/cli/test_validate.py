import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from weir_cli.crd import crd
from weir_cli.validate import validate
from weir_operator.streamapp.crd import EDITOR_FILE, FILE_NAME

SHORT = Path(__file__).parents[1] / "operator/streamapp/manifests/short.yaml"


def run(command, *arguments: object):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.yaml"
    text = (
        SHORT.read_text().replace("200ms", "0s").replace("{name: small}", '{name: a, price: "0"}')
    )
    path.write_text(text)
    return path


def test_a_right_manifest_is_ok():
    result = run(validate, SHORT)

    assert result.exit_code == 0
    assert result.stdout == f"{SHORT}: ok\n"


def test_each_mistake_is_one_line_with_its_file(bad):
    result = run(validate, SHORT, bad)

    assert result.exit_code == 1
    right, *wrong = result.stdout.splitlines()
    assert right == f"{SHORT}: ok"
    assert [line.split(": expected")[0] for line in wrong] == [
        f"{bad}: spec.objective.responseTime",
        f"{bad}: spec.nodePools[0].price",
    ]


def test_what_the_controller_would_refuse_is_refused(tmp_path):
    path = tmp_path / "policy.yaml"
    policy = "operatorManager: {policy: {name: oracle}}"
    path.write_text(SHORT.read_text().rstrip("\n") + f"\n  {policy}\n")

    result = run(validate, path)

    assert result.exit_code == 1
    assert result.stdout.startswith(f"{path}: spec.operatorManager.policy.name: expected a policy")


def test_programs_get_json(bad):
    result = run(validate, SHORT, bad, "--json")

    assert result.exit_code == 1
    right, wrong = json.loads(result.stdout)
    assert right == {"file": str(SHORT), "ok": True, "mistakes": []}
    assert (wrong["file"], wrong["ok"], len(wrong["mistakes"])) == (str(bad), False, 2)


def test_a_missing_file_fails(tmp_path):
    result = run(validate, tmp_path / "absent.yaml")

    assert result.exit_code == 1
    assert "expected a manifest at" in result.stdout


def test_the_definition_is_written_and_then_fresh(tmp_path):
    written = run(crd, "--out", tmp_path)
    checked = run(crd, "--out", tmp_path, "--check")

    files = [tmp_path / FILE_NAME, tmp_path / EDITOR_FILE]
    assert written.stdout.split() == [str(path) for path in files]
    assert (written.exit_code, checked.exit_code) == (0, 0)


def test_a_stale_definition_fails_the_check_and_is_left_alone(tmp_path):
    (tmp_path / FILE_NAME).write_text("old")

    result = run(crd, "--out", tmp_path, "--check")

    assert result.exit_code == 1
    assert "is not up to date" in result.stderr
    assert (tmp_path / FILE_NAME).read_text() == "old"
