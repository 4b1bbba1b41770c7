"""The pods' template in a StreamApp: what Weir must be able to read of it.

The rest is judged by Kubernetes when it makes pods, but for what widens their rights, which is
refused here (`pod_security`). Weir merges its own containers, volumes,
variables and ports into the user's, and tells items of these lists apart by a key, so each must
have it. Values are never repeated in a refusal, they may be secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic.types import JsonValue

from weir_operator.streamapp.pod_security import (
    CONTAINER_FLAGS,
    EXPECTED,
    HOST_FLAGS,
    REMEDY,
    find_widened_rights,
)
from weir_operator.streamapp.section import Mistake, Rule, refuse, validations

ITEM_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "containers": "name",
        "initContainers": "name",
        "volumes": "name",
        "env": "name",
        "imagePullSecrets": "name",
        "ports": "containerPort",
        "volumeMounts": "mountPath",
        "topologySpreadConstraints": "topologyKey",
        "hostAliases": "ip",
    }
)
"""The field by which the items of a list are told apart, as Kubernetes does."""

_OF_A_CONTAINER = ("env", "ports", "volumeMounts")
_OF_A_POD = tuple(name for name in ITEM_KEYS if name not in _OF_A_CONTAINER)
_WITH_CONTAINERS = ("containers", "initContainers")
_MOST_ITEMS = 500
_NUMBERS = frozenset({"containerPort"})

_FREE: dict[str, JsonValue] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _flag_schema() -> dict[str, JsonValue]:
    """Return the schema of a truth value that must not be true."""
    rule = Rule(rule="!self", expected=EXPECTED, remedy=REMEDY)
    return {
        "type": "boolean",
        "description": "As in Kubernetes; must not be true. If unset, false.",
        **validations(rule),
    }


_CONTEXT: dict[str, JsonValue] = _FREE | {
    "description": "As in Kubernetes, within the pod security profile `restricted`. If unset, what"
    " Weir itself sets.",
    "properties": {flag: _flag_schema() for flag in CONTAINER_FLAGS},
}


def _list_schema(name: str) -> dict[str, JsonValue]:
    """Return the schema of a list of which each item has its key, and anything besides."""
    key = ITEM_KEYS[name]
    fields: dict[str, JsonValue] = {
        key: {
            "type": "integer" if key in _NUMBERS else "string",
            "description": "Needed: what Weir adds is told apart from this item by it.",
        }
    }
    if name in _WITH_CONTAINERS:
        fields |= {inner: _list_schema(inner) for inner in _OF_A_CONTAINER}
        fields["securityContext"] = _CONTEXT
    return {
        "type": "array",
        "description": "As in Kubernetes. If unset, the pods get what Weir itself gives them."
        f" Each item has its `{key}`.",
        "maxItems": _MOST_ITEMS,
        "items": _FREE | {"required": [key], "properties": fields},
    }


_FIELDS: dict[str, JsonValue] = {
    "metadata": {
        "type": "object",
        "description": "Labels and annotations of the pods. If unset, they get Weir's alone.",
    },
    "spec": _FREE
    | {
        "description": "What the pods get besides what Weir gives them, as in Kubernetes. If unset,"
        " nothing.",
        "properties": {
            **{name: _list_schema(name) for name in _OF_A_POD},
            **{flag: _flag_schema() for flag in HOST_FLAGS},
        },
    },
}


def _check(template: dict[str, JsonValue]) -> dict[str, JsonValue]:
    refuse(_mistakes(template))
    return template


def _mistakes(template: Mapping[str, JsonValue]) -> Iterator[Mistake]:
    for key, section in template.items():
        if key not in _FIELDS:
            yield Mistake(
                (key,),
                list(template),
                "metadata or spec alone",
                "put it below spec, as in the template of a Deployment",
            )
        elif not isinstance(section, dict):
            yield _unlike_kubernetes((key,), "a mapping")
        elif key == "spec":
            yield from _mistakes_of_lists((key,), section, _OF_A_POD)
            yield from find_widened_rights(section, (key,))


def _mistakes_of_lists(
    path: tuple[str | int, ...], fields: Mapping[str, JsonValue], names: tuple[str, ...]
) -> Iterator[Mistake]:
    for name in names:
        if name not in fields:
            continue
        items = fields[name]
        if not isinstance(items, list):
            yield _unlike_kubernetes((*path, name), "a list")
            continue
        if len(items) > _MOST_ITEMS:
            yield Mistake(
                (*path, name), len(items), f"at most {_MOST_ITEMS} items", "leave some of them out"
            )
        for index, item in enumerate(items):
            here = (*path, name, index)
            if not isinstance(item, dict):
                yield _unlike_kubernetes(here, "a mapping")
                continue
            yield from _mistakes_of_key(here, item, ITEM_KEYS[name])
            if name in _WITH_CONTAINERS:
                yield from _mistakes_of_lists(here, item, _OF_A_CONTAINER)


def _mistakes_of_key(
    path: tuple[str | int, ...], item: Mapping[str, JsonValue], key: str
) -> Iterator[Mistake]:
    value, kind = item.get(key), int if key in _NUMBERS else str
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = "a whole number" if kind is int else "text"
        yield Mistake(
            (*path, key),
            None if value is None else "something else",
            f"{expected}, by which Weir tells the items of this list apart",
            f"give each item its {key}",
        )


def _unlike_kubernetes(path: tuple[str | int, ...], expected: str) -> Mistake:
    return Mistake(path, "something else", expected, "write it as in the template of a Deployment")


PodTemplate = Annotated[
    dict[str, JsonValue],
    AfterValidator(_check),
    Field(json_schema_extra={"properties": _FIELDS}),
]
"""A pod template as in a Deployment; what is inside is judged by Kubernetes when it makes pods."""
