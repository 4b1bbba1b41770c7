"""Experiment files: reads YAML into an `Experiment`, or a sentence with its line for each mistake.

A sentence names the field as the user writes it, the value and the remedy. `load_experiment` can
read what `write_experiment` writes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from weir_simulator import validation
from weir_simulator.arrivals import arrival_rates, whole_trace
from weir_simulator.errors import ExperimentError, TraceError
from weir_simulator.experiment import RULES, Experiment, TraceSource
from weir_simulator.validation import suggest

_LONGEST_VALUE = 80

_EXPECTED = {
    "bool_type": "true or false",
    "dataclass_type": "a mapping of fields",
    "dict_type": "a mapping",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "more than {gt:,.16g}",
    "greater_than_equal": "{ge:,.16g} or more",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "less_than": "less than {lt:,.16g}",
    "less_than_equal": "{le:,.16g} or less",
    "model_type": "a mapping of fields",
    "path_type": "a path",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least one character",
    "string_type": "text",
    "too_long": "at most {max_length} entries",
    "too_short": "at least one entry",
    "tuple_type": "a list",
}
"""What was expected, by pydantic's type of error and its context."""

Schema = Mapping[str, Any]  # Any: JSON schemas nest as they like


def join(path: Sequence[str | int], expected: str, got: object, remedy: str) -> str:
    """Return the sentence of a mistake, its path counted from the file's top."""
    return f"{written_path(path)}: expected {expected}, got {_written(got)}; {remedy}"


def written_path(path: Sequence[str | int]) -> str:
    """Return a field's path as people write it, such as `nodeTypes[1].price`."""
    return validation.written_path(path, whole="the experiment")


def _describe(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    path, got = error["loc"], error["input"]
    schema = _schema_at(path)
    match error["type"]:
        case "missing":
            return join(path, "a value", None, f"add it{_example(schema, ', such as ')}")
        case "extra_forbidden" | "unexpected_keyword_argument":
            return join(path, "a known field", got, _nearest_field(path))
        case "enum" | "literal_error":
            return join(path, context["expected"], got, "choose one of them")
    if "remedy" in context:
        return join(path, context["expected"], got, context["remedy"])
    expected = _EXPECTED.get(error["type"])
    remedy = "write it in quotes" if error["type"] == "string_type" else "correct it"
    return join(
        path,
        error["msg"] if expected is None else expected.format(**context),
        got,
        _example(schema, "write, for example, ") or remedy,
    )


def _nearest_field(path: Sequence[str | int]) -> str:
    known = sorted(_schema_at(path[:-1]).get("properties", {}))
    if path[-1] == "settings" and "parameters" in known:
        return "write parameters, because only StreamApps call them settings"
    return suggest(str(path[-1]), known, otherwise=f"remove it, or use one of {', '.join(known)}")


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


Place = tuple[str | int, ...]
"""Keys and indices that lead to a field."""


def load_experiment(path: Path, *, trace: Path | None = None) -> Experiment:
    """Return the experiment that a file describes; its traces are checked as well.

    Args:
        path: The file; the traces that it names are relative to it.
        trace: Replaces the trace that it names, as a whole.

    Raises:
        ExperimentError: The file cannot be read or is no experiment that can be right; has a
            sentence for every mistake, with file, line, field, value and remedy.
    """
    document, lines = _read(path)
    if trace is not None and isinstance(document, dict):
        document["trace"] = {"file": str(trace.resolve())}

    # By way of JSON: no dates, only text as keys, and pydantic's strictness is then JSON's (a text
    # is an enum's value, a list is a tuple).
    text = json.dumps(document, default=str)
    try:
        experiment = Experiment.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        found = [(each["loc"], _describe(each)) for each in validation.list_errors(error)]
        found += _judge_right_sections(document)
        raise _refusal(path, found, lines) from error
    updates: dict[str, TraceSource] = {}
    mistakes: list[tuple[Place, str]] = []
    for name in ("trace", "training"):
        source: TraceSource | None = getattr(experiment, name)
        if source is None:
            continue
        if source.file is not None:
            source = source.model_copy(update={"file": path.parent / source.file})
        updates[name] = source
        mistakes += _judge_trace(name, source)
    if mistakes:
        raise _refusal(path, mistakes, lines)
    return experiment.model_copy(update=updates)


def _judge_trace(name: str, source: TraceSource) -> Iterator[tuple[Place, str]]:
    """Yield what is wrong with a trace's file, and with the stretch of it that is used."""
    if source.file is None:
        return  # a made-up trace is as long as it is asked to be
    if not source.file.is_file():
        yield (
            (name, "file"),
            join((name, "file"), "a file with one rate per line", str(source.file),
                 ("which is no file" if source.file.exists() else "which does not exist")
                 + ": correct the path, or generate a trace with kind: taxi"),
        )  # fmt: skip
        return
    try:
        whole_trace(source)
    except TraceError as error:
        yield (name, "file"), f"{written_path((name, 'file'))}: {error}"
        return
    try:
        arrival_rates(source)
    except TraceError as error:
        field = "slots" if source.slots is not None else "start"
        yield (name, field), f"{written_path((name, field))}: {error}"


def _judge_right_sections(document: object) -> Iterator[tuple[Place, str]]:
    """Yield what the rules find in those sections that are right in themselves."""
    for each in validation.judge(RULES, validation.read_right_fields(Experiment, document)):
        yield each.path, join(each.path, each.expected, each.got, each.remedy)


def _refusal(
    path: Path, mistakes: Sequence[tuple[Place, str]], lines: Mapping[Place, int]
) -> ExperimentError:
    """Return the error with every mistake once, in the order of the lines."""
    placed = sorted((_line_of(place, lines), number) for number, (place, _) in enumerate(mistakes))
    sentences = (f"{path}:{line}: {mistakes[number][1]}" for line, number in placed)
    # Where all sections are right, pydantic has already told what the rules find.
    return ExperimentError(tuple(dict.fromkeys(sentences)))


class _Loader(yaml.SafeLoader):
    """YAML without surprises: 1e-4 is a number, as everywhere but in YAML 1.1."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def _read(path: Path) -> tuple[object, dict[Place, int]]:
    """Return the one document of a file as plain values, and the line of each field."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _wrong(
            f"{path}: expected an experiment, got the error {error.strerror}; correct the path"
        ) from error
    except UnicodeDecodeError as error:
        raise _wrong(
            f"{path}: expected text in UTF-8, got byte {error.object[error.start]:#x} at position "
            f"{error.start}; save the file as UTF-8"
        ) from error
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            raise _wrong(
                f"{path}:1: expected an experiment, got an empty file; start with operators:"
            )
        lines = dict(_find_lines(node, (), path))
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise _wrong(
            f"{path}:{line}: expected YAML, got an error ({error.problem}); correct "
            "this line, or the indentation above it"
        ) from error
    except RecursionError as error:
        raise _wrong(
            f"{path}:1: expected YAML, got an alias that contains itself; write it out"
        ) from error
    except yaml.YAMLError as error:
        raise _wrong(f"{path}:1: expected YAML, got an error ({error}); correct it") from error
    finally:
        loader.dispose()


def _find_lines(node: yaml.Node, place: Place, path: Path) -> Iterator[tuple[Place, int]]:
    """Yield the line of each field, counted from 1."""
    yield place, node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _find_lines(item, (*place, index), path)
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            here = (*place, name)
            if name in seen and name != "<<":
                raise _wrong(
                    f"{path}:{line}: {written_path(here)}: expected each field once, got a "
                    f"duplicate; remove it or the one in line {seen[name]}"
                )
            seen[name] = line
            yield from _find_lines(value, here, path)
            yield here, line


def _line_of(place: Place, lines: Mapping[Place, int]) -> int:
    """Return the line of a field, that of the section around it where it is missing."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def _wrong(mistake: str) -> ExperimentError:
    return ExperimentError((mistake,))


def write_experiment(experiment: Experiment, path: Path, *, remarks: tuple[str, ...] = ()) -> None:
    """Write the file that describes an experiment; what has its default is left out.

    Args:
        experiment: What to describe.
        path: The file; the traces are named relative to it, as `load_experiment` wants them.
        remarks: Lines to write above, as comments.

    Raises:
        ExperimentError: The file cannot be written.
    """
    here = experiment.model_copy(
        update={
            "trace": _seen_from(experiment.trace, path),
            "training": None
            if experiment.training is None
            else _seen_from(experiment.training, path),
        }
    )
    plain = here.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
    head = "".join(f"# {line}\n" for line in remarks)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + text, encoding="utf-8")
    except OSError as error:
        raise ExperimentError(
            (f"{path}: expected to write an experiment, got an error ({error.strerror}); "
             "choose another place",)
        ) from error  # fmt: skip


def _seen_from(source: TraceSource, path: Path) -> TraceSource:
    if source.file is None:
        return source
    file = Path(os.path.relpath(source.file, path.parent))
    return source.model_copy(update={"file": file})
