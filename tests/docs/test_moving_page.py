"""The page on moving names fields of the StreamApp that exist."""

import re

import pytest

from tests.docs.blocks import ROOT
from weir_operator.streamapp.crd import crd


@pytest.fixture(scope="module")
def rows():
    lines = (ROOT / "docs/moving.md").read_text().splitlines()
    return [line.split("|")[1:3] for line in lines if line.startswith("| `job.autoscaler.")]


def test_every_field_that_is_named_exists(rows):
    [version] = crd()["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    paths = [
        path
        for _, answer in rows
        for path in re.findall(r"`([a-z][A-Za-z]+(?:\[\])?\.[A-Za-z.]+)`", answer)
    ]

    assert len(paths) > 10
    assert [path for path in paths if not exists(spec, path)] == []


def exists(schema, path):
    for name in path.split("."):
        below = schema["properties"].get(name.removesuffix("[]"))
        if below is None:
            return False
        schema = below.get("items", below)
    return True
