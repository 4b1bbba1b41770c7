"""Reads and writes manifests: a file becomes a StreamApp, or a sentence for each mistake in it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from weir_operator.errors import InvalidStreamAppError
from weir_operator.streamapp.crd import Schema, inlined_schema, schema_at
from weir_operator.streamapp.models import API_VERSION, KIND, Spec, StreamApp
from weir_operator.streamapp.rules import RULES
from weir_operator.streamapp.sentences import sentence, sentences, written_path
from weir_simulator.validation import Mistake, judge, read_right_fields

MOST_LEVELS = 32
"""Of nesting, from the top of a manifest; a pod's fields take a dozen."""
MOST_VALUES = 10_000
"""In a manifest: one of 100 operators, whose pods have 500 variables, has half of that. Judging so
many takes the controller a tenth of a second."""


def load_manifest(path: Path) -> StreamApp:
    """Return the StreamApp that the file at `path` holds.

    Raises:
        InvalidStreamAppError: The file cannot be read, is not one YAML document, or is not a
            StreamApp that can be right; has a sentence for every mistake.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _invalid(
            f"expected a manifest at {path}, got the error {error.strerror!r}; correct the path"
        ) from error
    except UnicodeDecodeError as error:
        raise _invalid(
            f"expected text in UTF-8, got byte {error.object[error.start]:#x} at position "
            f"{error.start}; save the manifest as UTF-8"
        ) from error
    document = read_document(text)
    if not isinstance(document, Mapping):
        raise _invalid(
            f"{path}: expected a mapping with apiVersion, kind, metadata and spec, got "
            f"{document!r:.80}; start with apiVersion: {API_VERSION}, or name another file"
        )
    return parse_manifest(document)


def read_document(text: str) -> object:
    """Return the one YAML document in `text` as plain values.

    Raises:
        InvalidStreamAppError: It is not YAML (with the line, where that is known), or not one
            document.
    """
    try:
        documents = [each for each in yaml.load_all(text, _UniqueKeys) if each is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "the text"
        raise _invalid(
            f"{place}: expected YAML, got an error ({error.problem}); correct this line, or "
            "the indentation above it"
        ) from error
    except RecursionError as error:
        raise _invalid(_too_deep(())) from error
    except yaml.YAMLError as error:
        raise _invalid(
            f"expected YAML, got an error ({error}); remove characters that are not text"
        ) from error
    except ValueError as error:  # of a value that looks like a date or number, without its line
        raise _invalid(
            f"expected YAML, got a value that cannot be read ({error}); correct it, or write it "
            "in quotes"
        ) from error
    if len(documents) != 1:
        raise _invalid(
            f"expected one YAML document, got {len(documents)}; write one StreamApp per file"
        )
    return documents[0]


def parse_manifest(manifest: object) -> StreamApp:
    """Return the StreamApp that plain values describe; a status in them is not read.

    Raises:
        InvalidStreamAppError: They cannot be right; has a sentence for every mistake.
    """
    if not isinstance(manifest, Mapping):
        raise _invalid(
            f"expected a mapping with apiVersion, kind, metadata and spec, got {manifest!r:.80}; "
            "start with apiVersion: " + API_VERSION
        )
    _check_shape(manifest)
    _check_kind(manifest)
    own = {key: value for key, value in manifest.items() if key != "status"}
    own = without_null(own, inlined_schema(StreamApp))
    # By way of JSON, the language of the API server: no dates, only text as keys, and pydantic's
    # strictness is then JSON's (a text is an enum's value, a list is a tuple).
    text = json.dumps(own, default=str)
    try:
        return StreamApp.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        found = sentences(error) + _judge_right_sections(json.loads(text).get("spec"))
        # Where all sections are right, pydantic has already reported what the rules found.
        raise InvalidStreamAppError(tuple(dict.fromkeys(found))) from error


def without_null(value: Any, schema: Schema) -> Any:
    """Return plain values without fields that are null: as for the API server, they are not there.

    What is inside a field that takes anything (a pod template, a policy's settings) is kept, and so
    is null where it is the default itself.
    """
    if isinstance(value, list):
        return [without_null(each, schema.get("items", {})) for each in value]
    if not isinstance(value, dict) or not (
        schema.get("properties") or schema.get("additionalProperties")
    ):
        return value
    fields = {key: schema_at(schema, (key,)) or {} for key in value}
    return {
        key: without_null(each, fields[key])
        for key, each in value.items()
        if each is not None or fields[key].get("default", ...) is None
    }


def find_jar(app: StreamApp, manifest: Path) -> Path:
    """Return the job's jar on this machine; a relative path starts at the manifest's folder.

    Raises:
        InvalidStreamAppError: The StreamApp names no jar, or there is no such file.
    """
    job = app.spec.flink.job
    if job is None or job.jar is None:
        raise _invalid(
            "spec.flink.job.jar: expected the jar to run, got nothing; add its path, relative to "
            "the manifest"
        )
    jar = manifest.parent / job.jar
    if not jar.is_file():
        raise _invalid(
            f"spec.flink.job.jar: expected a file, got {job.jar!r}, which does not exist; build "
            "it, or correct its path, relative to the manifest"
        )
    return jar.resolve()


def _check_shape(manifest: Mapping[Any, object]) -> None:
    """Refuse what is nested too deeply, or holds too much, before anything walks through it."""
    if has_too_many_values(manifest):
        raise _invalid(
            f"expected a manifest of at most {MOST_VALUES} values, got more; remove some, and "
            "note that each YAML alias counts with all its content"
        )
    waiting: list[tuple[object, tuple[str | int, ...]]] = [(manifest, ())]
    while waiting:
        value, path = waiting.pop()
        if len(path) > MOST_LEVELS:
            raise _invalid(_too_deep(path[:3]))
        if isinstance(value, Mapping):
            waiting += [(each, (*path, str(key))) for key, each in value.items()]
        elif isinstance(value, list):
            waiting += [(each, (*path, index)) for index, each in enumerate(value)]


def has_too_many_values(document: object) -> bool:
    """Return whether there is more in plain values than a manifest may hold."""
    waiting, values = [document], 0
    while waiting:
        value = waiting.pop()
        values += 1
        if values + len(waiting) > MOST_VALUES:
            return True
        if isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return False


def _too_deep(path: tuple[str | int, ...]) -> str:
    return (
        f"{written_path(path)}: expected at most {MOST_LEVELS} levels of nesting in a manifest, "
        "got more; remove some, because no field needs as many"
    )


def _check_kind(manifest: Mapping[Any, object]) -> None:
    """Refuse another kind of resource before its fields are judged: none would be right."""
    if manifest.get("kind") == "FlinkDeployment":
        raise _invalid(
            "kind: expected StreamApp, got 'FlinkDeployment'; `weir adopt NAME` prints the "
            "StreamApp for a FlinkDeployment whose job runs"
        )
    expected = {"apiVersion": API_VERSION, "kind": KIND}
    wrong = [
        sentence(Mistake((name,), manifest.get(name), value, f"write {name}: {value}"))
        for name, value in expected.items()
        if manifest.get(name) != value
    ]
    if wrong:
        raise InvalidStreamAppError(tuple(wrong))


def _judge_right_sections(spec: object) -> list[str]:
    return [
        sentence(Mistake(("spec", *each.path), each.got, each.expected, each.remedy))
        for each in judge(RULES, read_right_fields(Spec, spec))
    ]


def _invalid(mistake: str) -> InvalidStreamAppError:
    return InvalidStreamAppError((mistake,))


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a duplicate key, of which PyYAML would silently keep the second."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key != "<<" and key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"duplicate key {key!r}", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)
