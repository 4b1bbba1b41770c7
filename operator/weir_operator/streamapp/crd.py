"""The CustomResourceDefinition, written from the models.

Kubernetes accepts only *structural* schemas: every field has a type, references and unions with
null do not exist, and an exclusive bound is a flag beside the bound. Where the models are strict
and closed, the API server checks types and prunes (`kubectl` reports unknown fields).

The module also returns the models' JSON schema with every reference inlined, for the CRD, the
error messages and editors.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic.types import JsonValue

from weir_operator.streamapp.models import API_VERSION, KIND, Spec
from weir_operator.streamapp.section import DNS_LABEL, LONGEST_NAME
from weir_operator.streamapp.status import StreamAppStatus

Schema = dict[str, Any]
"""A JSON schema as plain values."""


@functools.cache
def inlined_schema(model: type[BaseModel], *, nulls: bool = False) -> Schema:
    """Return the schema of `model`, in the manifest's words, without `$ref`.

    Args:
        model: The model.
        nulls: Whether a field that may be absent may also be null, which the API server takes as
            absent. A structural schema does not say so.
    """
    schema = model.model_json_schema(by_alias=True, schema_generator=_ManifestSchema)
    inlined = _inline(schema, schema.get("$defs", {}), nulls=nulls)
    inlined.pop("$defs", None)
    return inlined


def schema_at(schema: Schema, path: Sequence[str | int]) -> Schema | None:
    """Return the part of an inlined schema that `path` leads to, `None` where it knows no such."""
    here: Schema | None = schema
    for step in path:
        if here is None:
            return None
        if isinstance(step, int):
            here = here.get("items")
        else:
            inner = here.get("additionalProperties")
            fallback = inner if isinstance(inner, dict) else None
            here = here.get("properties", {}).get(step, fallback)
    return here


def _inline(schema: Schema, definitions: Mapping[str, Schema], *, nulls: bool) -> Schema:
    """Replace references by what they refer to; keys beside a reference override it."""
    beside = dict(schema)
    if "$ref" in beside:
        name = beside.pop("$ref").removeprefix("#/$defs/")
        return _inline(definitions[name] | beside, definitions, nulls=nulls)
    if "anyOf" in beside:
        # The models use unions for "may be absent" only: one real choice beside null.
        (choice,) = (each for each in beside.pop("anyOf") if each.get("type") != "null")
        inlined = _inline(choice | beside, definitions, nulls=nulls)
        return _or_null(inlined) if nulls else inlined
    if "properties" in beside:
        beside["properties"] = {
            name: _inline(each, definitions, nulls=nulls)
            for name, each in beside["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(beside.get(key), dict):
            beside[key] = _inline(beside[key], definitions, nulls=nulls)
    return beside


def _or_null(schema: Schema) -> Schema:
    wider = dict(schema)
    if "type" in wider:
        wider["type"] = [wider["type"], "null"]
    if "enum" in wider:
        wider["enum"] = [*wider["enum"], None]
    return wider


class _ManifestSchema(GenerateJsonSchema):
    """Writes defaults as a user would: quantities as text, absent fields left out."""

    def encode_default(self, dft: object) -> Any:
        if isinstance(dft, tuple):
            return [self.encode_default(each) for each in dft]
        return TypeAdapter(type(dft)).dump_python(
            dft, mode="json", by_alias=True, exclude_none=True
        )


FILE_NAME = "weir.dev_streamapps.yaml"
EDITOR_FILE = "editors/streamapp.schema.json"
"""In a folder of its own, so that `kubectl apply -f crds/` does not take it for a resource."""

_HEADER = "# Written by `weir crd` from the models in weir_operator.streamapp; do not edit.\n"

_KEPT = (
    "type", "description", "enum", "pattern", "minLength", "maxLength", "minimum",
    "maximum", "minItems", "maxItems", "minProperties", "maxProperties", "required", "allOf", "not",
)  # fmt: skip
"""Keywords that mean the same in JSON schema and in a CRD, in the order they are written."""

_COLUMNS = (
    ("Mode", "string", ".spec.mode", "How much Weir does"),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the job runs"),
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Why, or why not"),
    ("Replicas", "integer", ".status.replicas", "Replicas of all operators"),
    ("Rate", "string", ".status.rate", "Records that enter the job per second"),
    ("Response", "string", ".status.responseTime", "Response time over the last interval"),
    ("Objective", "string", ".status.objective", "Bound on the response time"),
    ("Cost/h", "string", ".status.costPerHour", "What the deployment costs per hour"),
    ("Last Action", "string", ".status.lastAction", "The last change and how long it took"),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the StreamApp was made"),
)

_WIDE_COLUMNS = (
    ("State", "string", ".spec.state", "Whether the job is to run"),
    ("Metrics", "string", '.status.conditions[?(@.type=="MetricsHealthy")].status',
     "Whether the metrics can be trusted"),
    ("Policy", "string", ".spec.operatorManager.policy.name", "What decides for the operators"),
    ("Restarts/d", "integer", ".status.restartsLastDay", "Restarts in the last 24 hours"),
)  # fmt: skip
"""Shown by `kubectl get --output wide` alone."""


def crd() -> Schema:
    """Return the CustomResourceDefinition as plain values."""
    group, version = API_VERSION.split("/")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"streamapps.{group}"},
        "spec": {
            "group": group,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": "streamapps",
                "singular": "streamapp",
                "shortNames": ["sapp"],
                "categories": ["weir"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        *(_column(*column) for column in _COLUMNS),
                        *(_column(*column) | {"priority": 1} for column in _WIDE_COLUMNS),
                    ],
                    "schema": {"openAPIV3Schema": _resource_schema()},
                }
            ],
        },
    }


def _column(name: str, kind: str, path: str, description: str) -> Schema:
    return {"name": name, "type": kind, "jsonPath": path, "description": description}


def crd_yaml() -> str:
    """Return the CustomResourceDefinition as YAML, the same for the same models."""
    return _HEADER + yaml.dump(
        crd(), Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=100
    )


def editor_schema() -> Schema:
    """Return the JSON schema of a manifest, by which editors complete and check it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": KIND,
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            "metadata": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string", "maxLength": LONGEST_NAME}},
            },
            "spec": inlined_schema(Spec, nulls=True),
            "status": {"type": "object"},
        },
    }


def _files() -> dict[str, str]:
    return {
        FILE_NAME: crd_yaml(),
        EDITOR_FILE: json.dumps(editor_schema(), indent=1, ensure_ascii=False) + "\n",
    }


def write_crd(directory: Path) -> tuple[Path, ...]:
    """Write the CustomResourceDefinition and the editors' schema; return their files."""
    paths = []
    for name, text in _files().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return tuple(paths)


def find_stale(directory: Path) -> Path | None:
    """Return the first file that is not what `write_crd` would write; `None` if all are."""
    for name, text in _files().items():
        path = directory / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            return path
    return None


def find_unconventional(spec: Schema | None = None) -> list[str]:
    """Return what in the spec breaks the conventions of its fields, a sentence each.

    Kubernetes' conventions for its API ask for quantities in the place of floats, and for
    enumerations in CamelCase; a user reads `kubectl explain`, so each field has a description.

    Args:
        spec: Its structural schema; `None` is that of StreamApps.
    """
    schema: Schema = _resource_schema()["properties"]["spec"] if spec is None else spec
    return list(_break_conventions(schema, "spec"))


def _break_conventions(schema: Schema, path: str) -> Iterator[str]:
    if schema.get("type") == "number":
        yield f"{path}: expected a quantity as text, got a number; use a type of quantities.py"
    for each in schema.get("enum", ()):
        if isinstance(each, str) and not re.fullmatch(r"[A-Z][A-Za-z0-9]*", each):
            yield f"{path}: expected a value in CamelCase, got {each!r}; rename it"
    for name, field in schema.get("properties", {}).items():
        if not field.get("description"):
            yield f"{path}.{name}: expected a description, got none; add a docstring to the field"
        yield from _break_conventions(field, f"{path}.{name}")
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            yield from _break_conventions(schema[part], f"{path}[]")
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _break_conventions(each, path)


def structural(schema: Schema) -> Schema:
    """Return an inlined JSON schema as a structural one."""
    result: Schema = {key: schema[key] for key in _KEPT if key in schema}
    if "description" in result:
        result["description"] = " ".join(result["description"].split())
    result |= {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if "exclusiveMinimum" in schema:
        result |= {"minimum": schema["exclusiveMinimum"], "exclusiveMinimum": True}
    if "items" in schema:
        result["items"] = structural(schema["items"])
    if "properties" in schema:
        result["properties"] = {
            name: structural(each) for name, each in schema["properties"].items()
        }
    result |= _free_fields(schema)
    default = _without_empty(schema.get("default"))
    if default not in (None, [], {}):
        result["default"] = default
    return result


def _without_empty(value: JsonValue) -> JsonValue:
    """Return a default without what means the same as its absence, and would clutter objects."""
    if not isinstance(value, dict):
        return value
    inner = {key: _without_empty(each) for key, each in value.items()}
    return {key: each for key, each in inner.items() if each not in (None, [], {})}


def _free_fields(schema: Schema) -> Schema:
    """Return how a mapping without fixed fields is described: typed values, or anything."""
    if schema.get("type") != "object" or "properties" in schema:
        return {}
    values = schema.get("additionalProperties")
    if isinstance(values, dict) and values:
        return {"additionalProperties": structural(values)}
    return {"x-kubernetes-preserve-unknown-fields": True}


def _resource_schema() -> Schema:
    return {
        "type": "object",
        "description": "One Flink job, its objective, and the node pools it may use.",
        "required": ["spec"],
        "x-kubernetes-validations": [
            {
                "rule": f"self.metadata.name.size() <= {LONGEST_NAME}"
                f" && self.metadata.name.matches('^{DNS_LABEL}$')",
                "message": f"expected a name of at most {LONGEST_NAME} lower-case letters, digits"
                " and '-'",
            }
        ],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Format: `{API_VERSION}`."},
            "kind": {"type": "string", "description": f"Format: `{KIND}`."},
            "metadata": {"type": "object"},
            "spec": structural(inlined_schema(Spec)),
            "status": structural(inlined_schema(StreamAppStatus)),
        },
    }


class _PlainDumper(yaml.SafeDumper):
    """Writes lists indented under their key and no anchors, as people would."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True
