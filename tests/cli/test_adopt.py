"""`weir adopt`: what is refused before a cluster is asked; `tests/api/in_place` has the move."""

import json

import pytest
from typer.testing import CliRunner

from weir_cli.main import app
from weir_operator.errors import WeirError
from weir_operator.external import adopt
from weir_operator.external.adopt import read_manifest
from weir_operator.external.moving import Moved
from weir_operator.streamapp.testing import a_manifest


def test_the_move_and_the_way_back_are_not_asked_at_once():
    result = CliRunner().invoke(app, ["adopt", "trips", "--move", "--back"])

    assert result.exit_code == 2
    assert "expected --move or --back, got both" in result.output


def test_a_time_limit_without_a_unit_is_refused():
    result = CliRunner().invoke(app, ["adopt", "trips", "--move", "--timeout", "10"])

    assert result.exit_code == 1
    assert "--timeout: expected a duration" in result.output


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


@pytest.mark.parametrize("already", [False, True])
def test_a_move_that_is_done_succeeds_and_names_the_way_back(monkeypatch, already):
    async def move(request, *, say):
        return Moved(savepoint="s3://bucket/1", stream_app="trips", already=already)

    monkeypatch.setattr(adopt, "move", move)
    result = CliRunner().invoke(app, ["adopt", "trips", "--namespace", "streams", "--move"])

    assert result.exit_code == 0
    assert ("was moved already" in result.output) is already
    assert "weir adopt trips --namespace streams --back" in result.output


def test_a_manifest_gets_the_namespace_of_the_flink_deployment(tmp_path):
    file = tmp_path / "streamapp.yaml"
    file.write_text(json.dumps(a_manifest()))

    assert read_manifest(file, "streams")["metadata"]["namespace"] == "streams"
