"""What the API server refuses of a pod template: types of fields, labels and quantities. Pure.

It judges a template only when pods are made of it, which in an upgrade is late. So the types of
Kubernetes' own client are held against the template here. Fields that the client does not know
pass, because the cluster may be newer than the client; so does everything about which a type says
nothing, such as fields that must not be set together.

Source: Kubernetes, `apimachinery/pkg/util/validation` (names of labels) and
`apimachinery/pkg/api/resource` (quantities).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kubernetes.aio import client as models
from pydantic.types import JsonValue

from weir_operator.streamapp.section import LABEL_KEY
from weir_simulator.validation import Mistake

Path = tuple[str | int, ...]

_TEMPLATE = "V1PodTemplateSpec"
_MANY = re.compile(r"(List|Dict)\[(?:str, )?(.*)\]")
_EXPECTED: Mapping[str, tuple[type | tuple[type, ...], str, str]] = {
    "str": (str, "text", "write it in quotes"),
    "int": (int, "a whole number", "write it without quotes"),
    "float": ((int, float), "a number", "write it without quotes"),
    "bool": (bool, "true or false", "write true or false, without quotes"),
    "datetime": (str, "text", "remove it, because Kubernetes sets it"),
}
"""Of a type of the client: Python's types, what a refusal says was expected, and the remedy."""
_LIKE_KUBERNETES = "write it as in the template of a Deployment"

_QUANTITIES = frozenset({"limits", "requests", "overhead", "sizeLimit", "divisor"})
"""Fields that are, or map to, quantities, which may be numbers too."""
_QUANTITY = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_FREE = frozenset({"options", "volumeAttributes", "userAnnotations"})
"""Fields that map to what a driver of volumes reads."""
_LABELS = frozenset({"labels", "nodeSelector", "matchLabels"})
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(LABEL_KEY)
_LONGEST_PREFIX = 253


def find_wrong_types(template: Mapping[str, JsonValue], here: Path) -> Iterator[Mistake]:
    """Yield the fields that have another type than Kubernetes gives them.

    Their values may be secret.

    Args:
        template: With `metadata` and `spec`, as in a Deployment.
        here: Its path.
    """
    yield from _wrong_types(dict(template), _TEMPLATE, here)


def find_wrong_texts(template: JsonValue, here: Path) -> Iterator[Mistake]:
    """Yield labels, keys of annotations and quantities that Kubernetes does not take.

    Args:
        template: Any part of a template.
        here: Its path.
    """
    if isinstance(template, list):
        for index, each in enumerate(template):
            yield from find_wrong_texts(each, (*here, index))
    if not isinstance(template, dict):
        return
    for name, value in template.items():
        path = (*here, name)
        if name in _QUANTITIES:
            yield from _wrong_quantities(value, path)
        elif name in _LABELS and isinstance(value, dict):
            yield from _wrong_labels(value, path)
        elif name == "annotations" and isinstance(value, dict):
            yield from _wrong_keys(value, path, "the key of an annotation")
        elif name not in _FREE:
            yield from find_wrong_texts(value, path)


def _wrong_types(value: JsonValue, kind: str, here: Path) -> Iterator[Mistake]:
    if value is None or kind == "object":
        return
    if (many := _MANY.fullmatch(kind)) is not None:
        if isinstance(value, list) and many[1] == "List":
            for index, each in enumerate(value):
                yield from _wrong_types(each, many[2], (*here, index))
        elif isinstance(value, dict) and many[1] == "Dict":
            for key, each in value.items() if here[-1] not in _QUANTITIES else ():
                yield from _wrong_types(each, many[2], (*here, key))
        else:
            expected = "a list" if many[1] == "List" else "a mapping"
            yield Mistake(here, value, expected, _LIKE_KUBERNETES)
    elif kind in _EXPECTED:
        types, expected, remedy = _EXPECTED[kind]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if here[-1] in _QUANTITIES and is_number:
            return
        if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            yield Mistake(here, value, expected, remedy)
    elif not isinstance(value, dict):
        yield Mistake(here, value, "a mapping", _LIKE_KUBERNETES)
    else:
        model = getattr(models, kind)
        for name, field in model.attribute_map.items():
            if field in value:
                yield from _wrong_types(value[field], model.openapi_types[name], (*here, field))


def _wrong_labels(labels: Mapping[str, JsonValue], here: Path) -> Iterator[Mistake]:
    yield from _wrong_keys(labels, here, "the key of a label")
    for key, value in labels.items():
        if isinstance(value, str) and not _LABEL_VALUE.fullmatch(value):
            yield Mistake(
                (*here, key), value,
                "the value of a label: at most 63 letters, digits, '-', '_' and '.'",
                "begin and end it with a letter or digit, or use an annotation",
            )  # fmt: skip


def _wrong_keys(texts: Mapping[str, JsonValue], here: Path, what: str) -> Iterator[Mistake]:
    for key in texts:
        # Of annotations, capitals are let through in the prefix, too.
        known = key.lower() if here[-1] == "annotations" else key
        is_long = len(key.rpartition("/")[0]) > _LONGEST_PREFIX
        if is_long or not _LABEL_KEY.fullmatch(known):
            yield Mistake(
                here, key, f"{what}, such as team or example.com/team",
                "use letters, digits, '-', '_' and '.', and one '/' at most",
            )  # fmt: skip


def _wrong_quantities(value: JsonValue, here: Path) -> Iterator[Mistake]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _wrong_quantities(each, (*here, name))
    elif isinstance(value, bool | list) or (
        isinstance(value, str) and not _QUANTITY.fullmatch(value)
    ):
        yield Mistake(here, value, "a quantity", "write it as in Kubernetes, such as 500m or 1Gi")
