"""`weir adopt`: what it refuses and prints; `tests/api/in_place` runs what it prints."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from tests.operator.streamapp.builders import a_manifest
from weir_cli.main import app
from weir_operator.advise import adopt
from weir_operator.advise.adopt import read_manifest
from weir_operator.advise.adoption_plan import Adoption
from weir_operator.advise.flink_deployment import read_deployment
from weir_operator.errors import WeirError


@pytest.mark.parametrize(
    ("flink", "metadata", "sentence"),
    [
        (
            {"job": {"jar": "a.jar", "initialSavepoint": "s3://b/1"}},
            {},
            "spec.flink.job.initialSavepoint in .*: expected none, got s3://b/1; remove it",
        ),
        (
            {"ref": {"kind": "FlinkDeployment", "name": "trips"}},
            {},
            "spec.flink.job in .*: expected the job to run, got none",
        ),
        (
            {"job": {"jar": "a.jar"}},
            {"namespace": "rides"},
            "metadata.namespace in .*: expected streams, .* got rides; correct it",
        ),
    ],
)
def test_a_manifest_that_a_move_cannot_complete_is_refused(tmp_path, flink, metadata, sentence):
    manifest = a_manifest(flink=flink, mode="Advise")
    manifest["metadata"] |= metadata
    file = tmp_path / "streamapp.yaml"
    file.write_text(json.dumps(manifest))

    with pytest.raises(WeirError, match=sentence):
        read_manifest(file, "streams")


@pytest.fixture
def found(monkeypatch):
    """Let `weir adopt` find a FlinkDeployment, and what stops its move."""

    def find(*stops):
        manifest = a_manifest()
        deployment = read_deployment(
            {"metadata": {"name": "trips", "namespace": "streams"}, "spec": {"job": {}}}
        )

        async def show(request):
            return deployment, Adoption(manifest=manifest, stops=stops, remarks=("It is fast",))

        monkeypatch.setattr(adopt, "show", show)
        return manifest

    return find


def test_the_printed_manifest_is_a_file_for_the_printed_commands(found):
    manifest = found()

    result = CliRunner().invoke(app, ["adopt", "trips", "--namespace", "streams"])

    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout) == manifest
    assert "# It is fast" in result.stdout
    file = f"{manifest['metadata']['name']}.yaml"
    assert f"kubectl apply --namespace streams -f {file} --dry-run=server\n" in result.stderr


def test_what_stops_the_move_is_said_instead_of_its_commands(found):
    found("The job does not run", "It is on Flink 1.17")

    result = CliRunner().invoke(app, ["adopt", "trips"])

    assert result.exit_code == 1
    assert "Stops the move: The job does not run\nStops the move: It is on" in result.stderr
    assert "kubectl" not in result.output


def test_a_manifest_gets_the_namespace_of_the_flink_deployment(tmp_path):
    file = tmp_path / "streamapp.yaml"
    file.write_text(json.dumps(a_manifest()))

    assert read_manifest(file, "streams")["metadata"]["namespace"] == "streams"
