"""Experiment files: YAML in, an `Experiment` out, or a sentence with its line for each mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from weir_simulator.arrivals import arrival_rates, whole_trace
from weir_simulator.errors import ExperimentError, TraceError
from weir_simulator.experiment import Experiment, TraceSource
from weir_simulator.experiment_rules import judge
from weir_simulator.experiment_sentences import describe_all, join, written_path

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
        found = [*describe_all(error), *_judge_right_sections(document)]
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
                 "which is not there: correct the path, or make a trace up with kind: taxi"),
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
    if not isinstance(document, Mapping):
        return
    right: dict[str, object] = {}
    for name, field in Experiment.model_fields.items():
        if field.alias not in document:
            if not field.is_required():
                right[name] = field.get_default(call_default_factory=True)
            continue
        adapter: TypeAdapter[object] = TypeAdapter(field.rebuild_annotation())
        try:
            right[name] = adapter.validate_json(
                json.dumps(document[field.alias], default=str), by_alias=True, by_name=False
            )
        except ValidationError:
            continue  # its mistakes are already told
    for each in judge(right):
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
    """Return the one document of a file as plain values, and the line of each field.

    Raises:
        ExperimentError: It cannot be read, is not YAML, or has a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _wrong(
            f"{path}: expected an experiment, got an error ({error.strerror}); correct the path"
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
                f"{path}:1: expected an experiment, got an empty file; begin with operators:"
            )
        lines = dict(_find_lines(node, (), path))
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise _wrong(
            f"{path}:{line}: expected YAML, got something else ({error.problem}); correct the line "
            "or the indentation above it"
        ) from error
    except RecursionError as error:
        raise _wrong(
            f"{path}:1: expected YAML, got an alias inside of what it stands for; write it out"
        ) from error
    except yaml.YAMLError as error:
        raise _wrong(
            f"{path}:1: expected YAML, got something else ({error}); correct it"
        ) from error
    finally:
        loader.dispose()


def _find_lines(node: yaml.Node, place: Place, path: Path) -> Iterator[tuple[Place, int]]:
    """Yield the line of each field, counted from 1.

    Raises:
        ExperimentError: A key stands twice, of which YAML would keep the second in silence.
    """
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
                    f"{path}:{line}: {written_path(here)}: expected each field once, got a second; "
                    f"remove it or the one in line {seen[name]}"
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
