"""What the chart and the page on installing show can be used as it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.helm.program import CHART
from weir_operator.streamapp.loading import parse_manifest

PAGE = CHART.parents[1] / "docs/install.md"


def manifest_of_the_page():
    [shown] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return yaml.safe_load(shown)


def manifest_of_the_notes():
    text = (CHART / "templates/NOTES.txt").read_text()
    [shown] = re.findall(r"<<EOF\n(.*?)EOF", text, flags=re.DOTALL)
    return yaml.safe_load(re.sub(r"{{.*?}}", "default", shown))


def manifest_of_artifact_hub():
    annotations = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    [shown] = yaml.safe_load(annotations["artifacthub.io/crdsExamples"])
    return shown


@pytest.mark.parametrize(
    "find", [manifest_of_the_page, manifest_of_the_notes, manifest_of_artifact_hub]
)
def test_a_manifest_that_is_shown_is_accepted(find):
    manifest = find()

    app = parse_manifest(manifest)

    assert app.metadata.name == "trips"


def test_every_value_that_the_page_names_exists():
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = set(_names(schema))
    tables = "\n".join(
        line
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ") and "spec." not in line
    )
    sections = "|".join(name for name in schema["properties"])

    named = set(re.findall(rf"`((?:{sections})(?:\.\w+)*)", tables))

    assert len(named) > 10
    assert named <= known


def _names(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        yield f"{prefix}{name}"
        yield from _names(part, f"{prefix}{name}.")
