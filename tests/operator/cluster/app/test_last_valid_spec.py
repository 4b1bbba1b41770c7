"""The last right spec of a StreamApp, as a file beside what its loops have learned."""

import pytest

from tests.operator.streamapp.builders import a_manifest
from weir_operator.api.objects import Resource
from weir_operator.cluster.app.last_valid_spec import keep_spec, load_spec

FILE = "last-right-spec.json"


@pytest.fixture
def resource():
    manifest = a_manifest()
    metadata = {"namespace": "streams", "name": "trips", "uid": "1234"}
    return Resource.of({**manifest, "metadata": metadata})


def test_a_right_spec_is_recalled_as_it_was_kept(tmp_path, resource):
    keep_spec(tmp_path / "trips", resource)

    recalled = load_spec(tmp_path / "trips", resource)

    assert recalled is not None
    assert recalled.metadata.name == "trips"


def test_where_nothing_was_kept_nothing_is_recalled(tmp_path, resource):
    assert load_spec(tmp_path, resource) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"uid": "1234", "mani',
        b"\xff\xfe",
        b"null",
        b"[" * 100_000,
        b"[]",
        b'{"manifest": {}}',
        b'{"uid": "1234"}',
        b'{"uid": "1234", "manifest": 7}',
    ],
)
def test_a_torn_or_foreign_file_is_none_and_the_next_right_spec_replaces_it(
    tmp_path, resource, content
):
    (tmp_path / FILE).write_bytes(content)

    torn = load_spec(tmp_path, resource)
    keep_spec(tmp_path, resource)

    assert torn is None
    assert load_spec(tmp_path, resource) is not None
