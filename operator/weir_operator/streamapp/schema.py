"""The models' JSON schema with every reference inlined: what `crd` and the refusals read."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

Schema = dict[str, Any]
"""A JSON schema as plain values."""


@functools.cache
def inlined_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of `model`, in the manifest's words, without `$ref` and without null."""
    schema = model.model_json_schema(by_alias=True, schema_generator=_ManifestSchema)
    inlined = _inline(schema, schema.get("$defs", {}))
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


def _inline(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Replace references by what they mean; what stands beside a reference wins over it."""
    beside = dict(schema)
    if "$ref" in beside:
        name = beside.pop("$ref").removeprefix("#/$defs/")
        return _inline(definitions[name] | beside, definitions)
    if "anyOf" in beside:
        # The models use unions for "may be absent" only: one real choice beside null.
        (choice,) = (each for each in beside.pop("anyOf") if each.get("type") != "null")
        return _inline(choice | beside, definitions)
    if "properties" in beside:
        beside["properties"] = {
            name: _inline(each, definitions) for name, each in beside["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(beside.get(key), dict):
            beside[key] = _inline(beside[key], definitions)
    return beside


class _ManifestSchema(GenerateJsonSchema):
    """Writes defaults as a user would: quantities as text, absent fields left out."""

    def encode_default(self, dft: object) -> Any:
        if isinstance(dft, tuple):
            return [self.encode_default(each) for each in dft]
        return TypeAdapter(type(dft)).dump_python(
            dft, mode="json", by_alias=True, exclude_none=True
        )
