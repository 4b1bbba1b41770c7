"""The CustomResourceDefinition is fresh, structural, and says what the models say."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from weir_operator.streamapp.crd import (
    crd,
    editor_schema,
    find_stale,
    find_unconventional,
)

REPOSITORY = Path(__file__).parents[3]
MANIFESTS = Path(__file__).parent / "manifests"

(VERSION,) = crd()["spec"]["versions"]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]
SPEC = SCHEMA["properties"]["spec"]


def fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every field of a schema with its path, itself first."""
    yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from fields(each, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from fields(schema["additionalProperties"], f"{path}.*")


ALL = dict(fields(SCHEMA, ""))


def test_the_written_files_are_fresh():
    assert find_stale(REPOSITORY / "crds") is None, "stale: write it again with `weir crd`"


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every StreamApp of the repository that is right, and where it is from."""
    for path in sorted([*REPOSITORY.glob("examples/*/*.yaml"), *MANIFESTS.glob("*.yaml")]):
        for document in yaml.safe_load_all(path.read_text()):
            if document.get("kind") == "StreamApp":
                yield f"{path.parent.name}/{path.stem}", document


@pytest.mark.parametrize("manifest", [pytest.param(each, id=name) for name, each in manifests()])
def test_editors_accept_a_manifest_and_see_a_misspelt_field(manifest):
    editor = jsonschema.Draft202012Validator(editor_schema())

    assert [error.message for error in editor.iter_errors(manifest)] == []
    misspelt = {**manifest["spec"], "objectiv": {}}
    assert not editor.is_valid({**manifest, "spec": misspelt})


def test_the_spec_keeps_the_conventions_of_kubernetes_api():
    assert find_unconventional() == []


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"type": "number", "description": "A share."}, "spec.list[].share: expected a quantity"),
        ({"type": "string", "enum": ["byLoad"], "description": "How."}, "got 'byLoad'"),
        ({"type": "string"}, "spec.list[].share: expected a description"),
    ],
    ids=["a float", "an enumeration in another case", "no description"],
)
def test_a_field_that_breaks_a_convention_is_named(field, said):
    items = {"type": "object", "properties": {"share": field}}
    spec = {"properties": {"list": {"type": "array", "description": "Some.", "items": items}}}

    [sentence] = find_unconventional(spec)

    assert said in sentence


def test_an_optional_field_says_what_holds_if_it_is_unset():
    silent = []
    for path, schema in ALL.items():
        if path.startswith(".spec"):
            optional = schema.get("properties", {}).keys() - set(schema.get("required", ()))
            silent += [
                f"{path}.{name}"
                for name in optional
                if not re.search(r"If unset|May be left out|May be set only|together with",
                                 schema["properties"][name]["description"])
            ]  # fmt: skip

    assert silent == []


def test_everything_that_rules_walk_through_is_bounded_or_the_cost_limit_refuses_them():
    unbounded = [
        path
        for path, schema in fields(SPEC, "spec")
        if (schema.get("type") == "array" and "maxItems" not in schema)
        or ("additionalProperties" in schema and "maxProperties" not in schema)
    ]

    assert unbounded == []
