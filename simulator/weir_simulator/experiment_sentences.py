"""What is wrong with an experiment, in sentences: field as the user writes it, value, remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from weir_simulator.experiment import Experiment
from weir_simulator.experiment_rules import suggest

_LONGEST_VALUE = 80

_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "less_than": "less than {lt:g}",
    "less_than_equal": "{le:g} or less",
    "model_type": "a mapping of fields",
    "path_type": "a path",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} characters",
    "string_type": "text",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
    "tuple_type": "a list",
}
"""What was expected, by pydantic's type of error and its context."""

Schema = Mapping[str, Any]  # Any: JSON schemas nest as they like


def describe_all(error: ValidationError) -> list[tuple[tuple[str | int, ...], str]]:
    """Return each mistake that pydantic found: the path of the field, and a sentence."""
    found = error.errors(include_url=False)
    return [(each["loc"], _describe(each)) for each in found if not _is_echo(each, found)]


def join(path: Sequence[str | int], expected: str, got: object, remedy: str) -> str:
    """Return the sentence of a mistake, its path counted from the file's top."""
    return f"{written_path(path)}: expected {expected}, got {_written(got)}; {remedy}"


def written_path(path: Sequence[str | int]) -> str:
    """Return a field's path as people write it, such as `nodeTypes[1].price`."""
    steps = []
    for step in path:
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif re.fullmatch(r"[A-Za-z_][\w-]*", step):
            steps.append(f".{step}")
        else:
            steps.append(f'["{step}"]')
    return "".join(steps).removeprefix(".") or "the experiment"


def _is_echo(error: ErrorDetails, found: Sequence[ErrorDetails]) -> bool:
    """Return whether a list is called too short only because its items have mistakes."""
    path = error["loc"]
    return error["type"] == "too_short" and any(
        len(other["loc"]) > len(path) and other["loc"][: len(path)] == path for other in found
    )


def _describe(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    path, got = error["loc"], error["input"]
    schema = _schema_at(path)
    match error["type"]:
        case "missing":
            return join(path, "a value", None, f"add it{_example(schema, ', such as ')}")
        case "extra_forbidden":
            known = sorted(_schema_at(path[:-1]).get("properties", {}))
            remedy = suggest(
                str(path[-1]), known, otherwise=f"remove it, or use one of {', '.join(known)}"
            )
            return join(path, "a known field", got, remedy)
        case "enum" | "literal_error":
            return join(path, context["expected"], got, "choose one of those")
    if "remedy" in context:
        return join(path, context["expected"], got, context["remedy"])
    expected = _EXPECTED.get(error["type"])
    remedy = "write it in quotes" if error["type"] == "string_type" else "correct it"
    return join(
        path,
        error["msg"] if expected is None else expected.format(**context),
        got,
        _example(schema, "write for example ") or remedy,
    )


def _written(value: object) -> str:
    """Return a value as the user wrote it, shortened where it is long."""
    if value is None:
        return "nothing"
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _example(schema: Schema, lead: str) -> str:
    """Return an example of what the field takes with `lead` before it, empty if none is known."""
    examples = schema.get("examples")
    if not examples:
        return ""
    # A text without its quotes, because it is a name, a path or a duration: YAML needs none.
    shown = examples[0] if isinstance(examples[0], str) else json.dumps(examples[0])
    return f"{lead}{shown}"


def _schema_at(path: Sequence[str | int]) -> Schema:
    """Return the JSON schema of the field at a path, empty where the path leads out of it."""
    schema: Schema = _schema()
    for step in path:
        whole = _resolve(schema)
        if isinstance(step, int):
            schema = whole.get("items", {})
        else:
            schema = whole.get("properties", {}).get(step, whole.get("additionalProperties") or {})
        if not isinstance(schema, dict):
            return {}
    # An example stands beside a reference, the properties behind it.
    return {**_resolve(schema), **schema}


def _resolve(schema: Schema) -> Schema:
    """Return the schema behind references, that of the value where nothing is allowed as well."""
    while True:
        if "$ref" in schema:
            schema = _schema()["$defs"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema:
            schema = next(each for each in schema["anyOf"] if each.get("type") != "null")
        else:
            return schema


@cache
def _schema() -> Schema:
    return Experiment.model_json_schema(by_alias=True)
