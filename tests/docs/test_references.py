"""The pages that are made from the code say what the code says."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from weir_operator.streamapp.crd import crd

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def references(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(SCRIPTS)
    sys.modules.pop("references", None)
    yield importlib.import_module("references")
    sys.modules.pop("references", None)


def test_a_stale_page_is_named_with_its_remedy(references, tmp_path, monkeypatch, capsys):
    page = tmp_path / "streamapp.md"
    page.write_text("of yesterday")
    monkeypatch.setattr(references, "ROOT", tmp_path)
    monkeypatch.setattr(references, "written_files", lambda: {page: "of today"})

    code = references.main(["--check"])

    assert code == 1
    assert capsys.readouterr().out == "streamapp.md is stale: write it again with make references\n"
    assert page.read_text() == "of yesterday"


def test_every_field_of_the_crd_is_on_the_page(references):
    [version] = crd()["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]

    page = references.stream_app_page()

    described = [*fields_of(properties["spec"]), *fields_of(properties["status"])]
    assert len(described) > 100
    assert [name for name in described if f"`{name}`" not in page] == []


def test_every_row_of_a_table_has_as_many_cells_as_its_head(references):
    pages = f"{references.stream_app_page()}\n{references.command_page()}"

    tables = re.findall(r"(?:^\|.*\n)+", pages, re.MULTILINE)

    assert len(tables) > 40
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(widths) == 1, table


def fields_of(schema):
    """Names of the fields that are described, at any depth."""
    below = schema.get("items", schema)
    if "properties" not in below or "description" not in below:
        return []
    return [
        name for field, inner in below["properties"].items() for name in (field, *fields_of(inner))
    ]
