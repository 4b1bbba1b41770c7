"""Pydantic's errors as sentences: the field as the user writes it, its value, and a remedy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from weir_operator.streamapp.crd import Schema, inlined_schema, schema_at
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.status import shorten
from weir_simulator import validation
from weir_simulator.validation import MOST_MISTAKES, Mistake, nearest, suggest

_LONGEST_VALUE = 80
_LONGEST_PATH = 300
"""Characters: keys of settings and of Flink's configuration have no limit of their own."""
_MISLEADING = {
    "parallelism": "remove it: Weir chooses the replicas of each operator, and where it begins is "
    "in operators[].initial",
}
"""Remedies for fields of other programs, of which the nearest known one means something else."""
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "a number greater than {gt:,.16g}",
    "greater_than_equal": "a number of at least {ge:,.16g}",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "less_than_equal": "a number of at most {le:,.16g}",
    "model_type": "a mapping of fields",
    "string_type": "text",
    "string_too_long": "at most {max_length:,} characters",
    "string_too_short": "at least one character",
    "too_long": "at most {max_length:,} entries",
    "too_short": "at least one entry",
    "tuple_type": "a list",
}
"""What was expected, by pydantic's type of error and its context."""


def sentences(error: ValidationError) -> list[str]:
    """Return a sentence for each of the first mistakes in a manifest, in the manifest's order."""
    told = [_sentence(each) for each in islice(validation.list_errors(error), MOST_MISTAKES)]
    more = error.error_count() - len(told)
    return told if len(told) < MOST_MISTAKES or more <= 0 else [*told, f"{more} more mistakes"]


def sentence(mistake: Mistake) -> str:
    """Return the sentence of one mistake, its path counted from the manifest's top."""
    return _join(mistake.path, mistake.expected, _written(mistake.got), mistake.remedy)


def written_path(path: Sequence[str | int]) -> str:
    """Return a field's path as people write it, such as `spec.nodePools[1].price`."""
    return validation.written_path(path, whole="the manifest")


def _sentence(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    path = error["loc"]
    schema = schema_at(inlined_schema(StreamApp), path) or {}
    kind, got = error["type"], error["input"]
    match kind:
        case "missing":
            return _join(path, "a value", "nothing", f"add it{_example(schema, ', such as ')}")
        case "extra_forbidden":
            # A misspelt section may contain anything, even secrets.
            shown = _kind(got) if isinstance(got, dict | list) else _written(got)
            return _join(path, "a known field", shown, _nearest_field(path))
        case "enum" | "literal_error":
            return _join(path, context["expected"], _written(got), _choice(schema, got))
    if "remedy" in context:
        # Weir's own checks, which choose what they show.
        return _join(path, context["expected"], _written(got), context["remedy"])
    expected = _EXPECTED[kind].format(**context) if kind in _EXPECTED else error["msg"]
    remedy = "write it in quotes" if kind == "string_type" else "correct it"
    return _join(
        path, expected, _shown(path, got), _example(schema, "write, for example, ") or remedy
    )


def _join(path: Sequence[str | int], expected: str, got: str, remedy: str) -> str:
    where = shorten(written_path(path), _LONGEST_PATH)
    return f"{where}: expected {expected}, got {got}; {remedy}"


def _shown(path: Sequence[str | int], value: object) -> str:
    """Return the value, or only its kind where it may be, or hold, a secret."""
    secret = tuple(path[:3]) in (("spec", "flink", "config"), ("spec", "flink", "podTemplate"))
    return _kind(value) if secret else _written(value)


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a mapping"
    return "nothing"


def _written(value: object) -> str:
    """Return a value as the user wrote it, shortened where it is long."""
    if value is None:
        return "nothing"
    text = repr(str(value)) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _example(schema: Schema, lead: str) -> str:
    examples = schema.get("examples")
    return f"{lead}{_written(examples[0])}" if examples else ""


def _nearest_field(path: Sequence[str | int]) -> str:
    parent = schema_at(inlined_schema(StreamApp), path[:-1]) or {}
    known = sorted(parent.get("properties", {}))
    if path[-1] == "parameters" and "settings" in known:
        return "write settings, because only experiments call them parameters"
    if path[-1] in _MISLEADING:
        return _MISLEADING[str(path[-1])]
    return suggest(str(path[-1]), known, otherwise=f"remove it, or use one of {', '.join(known)}")


def _choice(schema: Schema, got: object) -> str:
    """Return the nearest choice, or all of them; YAML reads a bare Off as false."""
    choices = [str(choice) for choice in schema.get("enum", [schema.get("const")])]
    if got is False and "Off" in choices:
        return 'write "Off" in quotes, because YAML reads a bare Off as false'
    by_case = {choice.lower(): choice for choice in choices}
    close = nearest(str(got).lower(), by_case)
    return f"did you mean {by_case[close]!r}?" if close else f"use one of {', '.join(choices)}"
