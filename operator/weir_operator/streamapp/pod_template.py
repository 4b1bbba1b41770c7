"""The pod template of a StreamApp: the parts that Weir reads and checks.

The API server checks the rest, except rights (below); before an upgrade, Weir has it do so
without making the pods (`KubernetesRuntime.find_misfit`). Weir merges its own containers, volumes,
variables and ports into the user's, and identifies items of these lists by a key, so each must have
it. Error messages never repeat values, which may be secret.

A pod template may not ask for more than the profile `restricted` grants a pod
(`find_widened_rights`): a user who may write a StreamApp need not be allowed to create pods that
take over their node, and Weir would create them in their place. What restricts rights further, or
repeats what Weir sets, is accepted. A null is a field that is not there, as for the API server, so
that none takes away what Weir sets; only a user and groups may be null, where the platform chooses
them (OpenShift). What the merge made is judged once more (`find_lost_protection`). A priority of
the cluster's own is refused, too: its pods would preempt those that the cluster needs.

Source: Kubernetes, Pod Security Standards, profiles Restricted and Baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic.types import JsonValue

from weir_operator.streamapp.section import Rule, validations
from weir_simulator.validation import Mistake, refuse

Path = tuple[str | int, ...]

HOST_FLAGS = ("hostNetwork", "hostPID", "hostIPC")
"""Fields of a pod that share something of its node's."""
CONTAINER_FLAGS = ("privileged", "allowPrivilegeEscalation")
"""Fields of a container's security context that must not be true."""
EXPECTED = "nothing beyond the pod security profile restricted"
REMEDY = "remove it, because Weir's pods must not have these rights on their node"

_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
        *("persistentVolumeClaim", "projected", "secret"),
    }
)
_CAPABILITIES = frozenset({"NET_BIND_SERVICE"})
_SELINUX_TYPES = frozenset(
    {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
)
_SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
_SECCOMP_PROFILES = frozenset({"RuntimeDefault", "Localhost"})
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_CHOSEN_BY_THE_PLATFORM = frozenset({"runAsUser", "runAsGroup", "fsGroup"})


def without_nulls(value: JsonValue) -> JsonValue:
    """Return a template without its nulls, except of a user and groups in a security context."""
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, JsonValue] = {}
    for key, each in value.items():
        if key == "securityContext" and isinstance(each, dict):
            chosen = {name: None for name in each.keys() & _CHOSEN_BY_THE_PLATFORM}
            kept[key] = {**chosen, **_dropped(each)}
        elif each is not None:
            kept[key] = without_nulls(each)
    return kept


def _dropped(context: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: without_nulls(each) for name, each in context.items() if each is not None}


def find_lost_protection(spec: Mapping[str, JsonValue], main: str, here: Path) -> Iterator[Mistake]:
    """Return what the merged `spec` of a pod lacks of the profile, or has beyond it.

    Args:
        spec: Of a pod as it would be created.
        main: Name of the container that Weir writes; a user's own ones need only ask for nothing
            beyond the profile.
        here: Path of the template's `spec`.
    """
    yield from find_widened_rights(spec, here)
    context, place = _mapping(spec.get("securityContext")), (*here, "securityContext")
    if context.get("runAsNonRoot") is not True:
        yield _refused((*place, "runAsNonRoot"), "another value than true")
    if _mapping(context.get("seccompProfile")).get("type") not in _SECCOMP_PROFILES:
        yield _refused((*place, "seccompProfile"), "no seccomp filter")
    for path, container in _items(spec, "containers", here):
        if container.get("name") != main:
            continue
        own, place = _mapping(container.get("securityContext")), (*path, "securityContext")
        if own.get("allowPrivilegeEscalation") is not False:
            yield _refused((*place, "allowPrivilegeEscalation"), "another value than false")
        dropped = _mapping(own.get("capabilities")).get("drop")
        if not isinstance(dropped, list) or "ALL" not in dropped:
            yield _refused((*place, "capabilities", "drop"), "a list without ALL")


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _of_annotations(metadata: Mapping[str, JsonValue], here: Path) -> Iterator[Mistake]:
    for name, value in _mapping(metadata.get("annotations")).items():
        allowed = value in ("", "runtime/default") or str(value).startswith("localhost/")
        if name.startswith(_APPARMOR) and not allowed:
            yield _refused((*here, "annotations", name), value)


def find_widened_rights(spec: Mapping[str, JsonValue], here: Path) -> Iterator[Mistake]:
    """Return what the `spec` of a template asks for beyond the profile; `here` is its path."""
    for flag in HOST_FLAGS:
        if spec.get(flag) is True:
            yield _refused((*here, flag), True)
    if str(spec.get("priorityClassName")).startswith("system-"):
        yield _refused((*here, "priorityClassName"), spec["priorityClassName"])
    context, place = spec.get("securityContext"), (*here, "securityContext")
    yield from _of_context(context, place)
    for path, sysctl in _items(_mapping(context), "sysctls", place):
        if sysctl.get("name") not in _SAFE_SYSCTLS:
            yield _refused((*path, "name"), sysctl.get("name"))
    for path, volume in _items(spec, "volumes", here):
        for kind in volume.keys() - _VOLUMES - {"name"}:
            yield _refused((*path, kind), kind)
    for name in ("containers", "initContainers"):
        for path, container in _items(spec, name, here):
            yield from _of_context(container.get("securityContext"), (*path, "securityContext"))
            for place, port in _items(container, "ports", path):
                if port.get("hostPort"):
                    yield _refused((*place, "hostPort"), port["hostPort"])
            yield from _of_handlers(container, path)


def _of_handlers(container: Mapping[str, JsonValue], here: Path) -> Iterator[Mistake]:
    """Refuse probes and hooks of other hosts: the node asks them, past any network policy."""
    hooks = _mapping(container.get("lifecycle"))
    for holder, place, names in (
        (container, here, _PROBES),
        (hooks, (*here, "lifecycle"), _HOOKS),
    ):
        for name in names:
            for kind in ("httpGet", "tcpSocket"):
                handler = _mapping(_mapping(holder.get(name)).get(kind))
                if handler.get("host"):
                    yield _refused((*place, name, kind, "host"), handler["host"])


def _of_context(context: JsonValue, here: Path) -> Iterator[Mistake]:
    if not isinstance(context, dict):
        return
    for flag in CONTAINER_FLAGS:
        if context.get(flag) is True:
            yield _refused((*here, flag), True)
    if context.get("runAsNonRoot") is False:
        yield _refused((*here, "runAsNonRoot"), False)
    if context.get("runAsUser") == 0 and context.get("runAsUser") is not False:
        yield _refused((*here, "runAsUser"), 0)
    if context.get("procMount") not in (None, "Default"):
        yield _refused((*here, "procMount"), context["procMount"])
    if _mapping(context.get("windowsOptions")).get("hostProcess") is True:
        yield _refused((*here, "windowsOptions", "hostProcess"), True)
    labels = _mapping(context.get("seLinuxOptions"))
    for name, allowed in (("type", _SELINUX_TYPES), ("user", {""}), ("role", {""})):
        if labels.get(name) is not None and labels[name] not in allowed:
            yield _refused((*here, "seLinuxOptions", name), labels[name])
    for name in ("seccompProfile", "appArmorProfile"):
        profile = context.get(name)
        if isinstance(profile, dict) and profile.get("type") == "Unconfined":
            yield _refused((*here, name, "type"), "Unconfined")
    capabilities = context.get("capabilities")
    added = capabilities.get("add") if isinstance(capabilities, dict) else None
    for index, each in enumerate(added if isinstance(added, list) else ()):
        if each not in _CAPABILITIES:
            yield _refused((*here, "capabilities", "add", index), each)


def _items(
    fields: Mapping[str, JsonValue], name: str, here: Path
) -> Iterable[tuple[Path, Mapping[str, JsonValue]]]:
    """Return the mappings in a list, each with its path; others are refused elsewhere."""
    items = fields.get(name)
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield (*here, name, index), item


def _refused(path: Path, got: JsonValue) -> Mistake:
    return Mistake(path, got, EXPECTED, REMEDY)


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
"""The field that identifies the items of a list, as Kubernetes does."""

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
        "description": "As in Kubernetes; must not be true. If unset, defaults to false.",
        **validations(rule),
    }


_CONTEXT: dict[str, JsonValue] = _FREE | {
    "description": "As in Kubernetes, within the pod security profile `restricted`. If unset,"
    " defaults to what Weir sets.",
    "properties": {flag: _flag_schema() for flag in CONTAINER_FLAGS},
}


def _list_schema(name: str) -> dict[str, JsonValue]:
    """Return the schema of a list whose items must have its key, and may have anything else."""
    key = ITEM_KEYS[name]
    fields: dict[str, JsonValue] = {
        key: {
            "type": "integer" if key in _NUMBERS else "string",
            "description": "Required: Weir uses it to distinguish this item from those it adds.",
        }
    }
    if name in _WITH_CONTAINERS:
        fields |= {inner: _list_schema(inner) for inner in _OF_A_CONTAINER}
        fields["securityContext"] = _CONTEXT
    return {
        "type": "array",
        "description": "As in Kubernetes, in addition to what Weir sets. If unset, defaults to"
        f" what Weir sets. Each item needs its `{key}`.",
        "maxItems": _MOST_ITEMS,
        "items": _FREE | {"required": [key], "properties": fields},
    }


_FIELDS: dict[str, JsonValue] = {
    "metadata": {
        "type": "object",
        "description": "Labels and annotations of the pods. If unset, they get only Weir's.",
    },
    "spec": _FREE
    | {
        "description": "What the pods have in addition to what Weir sets, as in Kubernetes. If"
        " unset, nothing.",
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
                "only metadata and spec",
                "move it below spec, as in the template of a Deployment",
            )
        elif not isinstance(section, dict):
            yield _unlike_kubernetes((key,), "a mapping")
        elif key == "spec":
            yield from _mistakes_of_lists((key,), section, _OF_A_POD)
            yield from find_widened_rights(section, (key,))
        else:
            yield from _of_annotations(section, (key,))


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
                (*path, name), len(items), f"at most {_MOST_ITEMS} items", "remove some of them"
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
            f"{expected}, with which Weir distinguishes the items of this list",
            f"add {key} to each item",
        )


def _unlike_kubernetes(path: tuple[str | int, ...], expected: str) -> Mistake:
    return Mistake(path, "something else", expected, "write it as in the template of a Deployment")


PodTemplate = Annotated[
    dict[str, JsonValue],
    AfterValidator(_check),
    Field(json_schema_extra={"properties": _FIELDS}),
]
"""A pod template as in a Deployment; Kubernetes checks its content when it creates pods."""
