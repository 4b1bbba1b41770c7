"""The CustomResourceDefinition is fresh, structural, and says what the models say."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.operator.streamapp.builders import a_manifest
from weir_operator.streamapp.crd import crd, editor_schema, find_stale, write_crd
from weir_operator.streamapp.loading import read_document
from weir_operator.streamapp.pod_template import OWNED_FLINK_KEYS

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


def test_writing_them_twice_gives_the_same_files(tmp_path):
    first, second = (
        [path.read_bytes() for path in write_crd(tmp_path / name)] for name in ("a", "b")
    )

    assert first == second


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


def test_every_field_has_a_type_or_takes_anything():
    untyped = [
        path
        for path, schema in ALL.items()
        if "type" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields")
    ]

    assert untyped == []


def test_no_keyword_stands_in_it_that_a_structural_schema_does_not_take():
    foreign = {"$ref", "$defs", "anyOf", "oneOf", "const", "title", "examples", "prefixItems"}

    assert {path for path, schema in ALL.items() if foreign & schema.keys()} == set()
    assert all(schema.get("type") != "null" for schema in ALL.values())


def test_every_field_of_the_spec_has_a_description():
    silent = [
        path
        for path, schema in ALL.items()
        if path.startswith(".spec")
        and not path.endswith(("[]", "*"))
        and not schema.get("description")
    ]

    assert silent == []


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


def test_every_default_is_a_value_that_its_own_field_takes():
    defaults = {path: schema for path, schema in ALL.items() if "default" in schema}

    assert len(defaults) > 20
    for path, schema in defaults.items():
        plain = json.loads(json.dumps(schema).replace('"exclusiveMinimum": true', '"x": 0'))
        assert list(jsonschema.Draft7Validator(plain).iter_errors(schema["default"])) == [], path


def test_every_rule_has_a_message_on_one_line():
    rules = [rule for schema in ALL.values() for rule in schema.get("x-kubernetes-validations", ())]

    assert len(rules) > 20
    assert all(rule["message"] and "\n" not in rule["rule"] + rule["message"] for rule in rules)
    assert all(len(rule["message"]) <= 2048 for rule in rules)


def test_everything_that_rules_walk_through_is_bounded_or_the_cost_limit_refuses_them():
    unbounded = [
        path
        for path, schema in fields(SPEC, "spec")
        if (schema.get("type") == "array" and "maxItems" not in schema)
        or ("additionalProperties" in schema and "maxProperties" not in schema)
    ]

    assert unbounded == []


@pytest.mark.parametrize(
    ("path", "key"),
    [(".spec.nodePools", "name"), (".spec.operators", "name"), (".spec.windows", "name"),
     (".spec.objective.paths", "sink"), (".status.conditions", "type")],
)  # fmt: skip
def test_lists_are_told_apart_by_name(path, key):
    assert ALL[path]["x-kubernetes-list-type"] == "map"
    assert ALL[path]["x-kubernetes-list-map-keys"] == [key]
    assert key in ALL[path]["items"]["required"]


def test_max_parallelism_cannot_change():
    (rule,) = ALL[".spec.flink.maxParallelism"]["x-kubernetes-validations"]

    assert rule["rule"] == "self == oldSelf"


def test_the_rule_on_flinks_configuration_names_every_key_that_weir_owns():
    (rule,) = ALL[".spec.flink.config"]["x-kubernetes-validations"]

    assert all(key.removesuffix("*") in rule["rule"] for key in OWNED_FLINK_KEYS)


def test_a_price_is_above_zero_and_within_reason():
    price = ALL[".spec.nodePools[].price"]

    assert (price["minimum"], price["exclusiveMinimum"]) == (0, True)
    assert price["maximum"] <= 1e6


def test_choices_are_enumerated():
    assert ALL[".spec.mode"]["enum"] == ["Off", "Advise", "Auto"]
    assert ALL[".spec.operators[].sharing"]["enum"] == ["equal", "proportional", "byLoad"]
    assert ALL[".spec.objective.responseTime.statistic"]["enum"] == ["mean", "p95", "p99"]


def test_columns_show_what_people_ask_first():
    columns = [
        column["name"]
        for column in VERSION["additionalPrinterColumns"]
        if not column.get("priority")
    ]

    assert columns == [
        "Mode", "Ready", "Reason", "Replicas", "Rate", "Response", "Objective", "Cost/h",
        "Last Action", "Age",
    ]  # fmt: skip
    assert VERSION["subresources"] == {"status": {}}


def as_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a structural schema in the later draft's words, closed like the API server's."""
    later = dict(schema)
    if later.pop("exclusiveMinimum", False):
        later["exclusiveMinimum"] = later.pop("minimum")
    if "properties" in later:
        later["properties"] = {
            name: as_json_schema(each) for name, each in later["properties"].items()
        }
        later["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(later.get(key), dict):
            later[key] = as_json_schema(later[key])
    return later


VALIDATOR = jsonschema.Draft7Validator(as_json_schema(SPEC))


@pytest.mark.parametrize("name", ["short.yaml", "full.yaml"])
def test_a_right_manifest_fits_the_schema(name):
    manifest = read_document((MANIFESTS / name).read_text())
    assert isinstance(manifest, dict)
    spec = manifest["spec"]
    # The API server drops a null where the field takes none; here it has to be left out.
    spec["flink"].get("job", {}).pop("initialSavepoint", None)

    assert list(VALIDATOR.iter_errors(spec)) == []


@pytest.mark.parametrize(
    "response_time",
    ["0s", "200", 200, [], ["1s"], {"bound": "0s"}, {"statistic": "p95"}, {"bound": "1s", "x": 1}],
)
def test_a_response_time_has_two_forms_and_no_other(response_time):
    spec = a_manifest(objective={"responseTime": response_time})["spec"]

    assert list(VALIDATOR.iter_errors(spec)) != []


@pytest.mark.parametrize("response_time", ["200ms", "1h30m", {"bound": "1s", "statistic": "p99"}])
def test_both_forms_of_a_response_time_fit(response_time):
    spec = a_manifest(objective={"responseTime": response_time})["spec"]

    assert list(VALIDATOR.iter_errors(spec)) == []
