"""Keys of Flink's configuration that describe pods, as a StreamApp says the same. Pure.

Flink's own way of starting pods, and so the Flink Kubernetes Operator, reads secrets, tolerations
and more from keys `kubernetes.*`, and variables from `containerized.*`. A StreamApp has a pod
template for all pods of a job, and node pools. What has no counterpart there is named, because a
job without its secret or its volume would not run.

Source: `KubernetesConfigOptions` and the decorators of Flink 2.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from weir_operator.api.objects import Body
from weir_operator.runtime.pods.pod_spec import CONTAINER

_ROLES = ("jobmanager", "taskmanager")
_OF_NO_USE = (
    "kubernetes.artifacts.", "kubernetes.client.", "kubernetes.cluster-id",
    "kubernetes.config-key", "kubernetes.container.image", "kubernetes.container.image.ref",
    "kubernetes.context", "kubernetes.decorator.", "kubernetes.entry.path",
    "kubernetes.flink.log.dir", "kubernetes.internal-service.", "kubernetes.jobmanager.cpu",
    "kubernetes.jobmanager.memory.", "kubernetes.jobmanager.owner.reference",
    "kubernetes.jobmanager.replicas", "kubernetes.leader-election.", "kubernetes.namespace",
    "kubernetes.node-name-label", "kubernetes.operator.", "kubernetes.rest-service.",
    "kubernetes.taskmanager.cpu", "kubernetes.taskmanager.memory.",
    "kubernetes.transactional-operation.",
)  # fmt: skip
"""Beginnings of keys that only the operator reads, or that Weir decides: sizes are the pool's."""


@dataclass(frozen=True, slots=True)
class PodKeys:
    """What the keys say, in the form of a StreamApp."""

    template: Body = field(default_factory=dict)
    """Part of `spec.flink.podTemplate`."""
    pool: Body = field(default_factory=dict)
    """Part of the node pool: `nodeSelector` and `tolerations`."""
    unknown: tuple[str, ...] = ()
    """Keys without a counterpart, or with a value that cannot be read."""


def is_of_pods(key: str) -> bool:
    """Return whether a key is about pods, and translated here."""
    return key in _TRANSLATED or key in _OF_A_ROLE or bool(_variable_name(key))


def translate(config: Mapping[str, str]) -> PodKeys:
    """Return what the keys `kubernetes.*` and `containerized.*` of a configuration say."""
    template: Body = {}
    pool: Body = {}
    unknown = []
    for key, value in config.items():
        if not key.startswith(("kubernetes.", "containerized.")):
            continue
        try:
            if name := _variable_name(key):
                _variable(template, name, value)
            elif key in _TRANSLATED:
                _TRANSLATED[key](template, value)
            elif key in _OF_A_ROLE:
                _, role, name = key.split(".", 2)
                _take_of_role(config, role, name, template, pool)
            elif not key.startswith(_OF_NO_USE):
                unknown.append(key)
        except ValueError:
            unknown.append(key)
    return PodKeys(template=template, pool=pool, unknown=tuple(unknown))


def _take_of_role(
    config: Mapping[str, str], role: str, name: str, template: Body, pool: Body
) -> None:
    """Take what holds for one of JobManager and TaskManagers.

    A StreamApp's JobManager runs in its first node pool, like its TaskManagers.

    Raises:
        ValueError: The two differ where a StreamApp has one for both, or it cannot be read.
    """
    value = config[f"kubernetes.{role}.{name}"]
    other = config.get(f"kubernetes.{_ROLES[role == _ROLES[0]]}.{name}")
    if name in ("labels", "annotations"):
        _merge(template.setdefault("metadata", {}).setdefault(name, {}), _pairs(value))
        return
    if name == "service-account":
        if other not in (None, value):
            raise ValueError(name)
        _spec(template)["serviceAccountName"] = value
        return
    if role == "jobmanager" and other != value:
        raise ValueError(name)
    if name == "node-selector":
        pool["nodeSelector"] = _pairs(value)
    else:
        pool["tolerations"] = [_toleration(each) for each in _lists(value)]


def _secrets(template: Body, value: str) -> None:
    for name, path in _pairs(value).items():
        _mount(template, {"name": f"secret-{name}", "secret": {"secretName": name}}, path)


def _claims(template: Body, value: str) -> None:
    for name, path in _pairs(value).items():
        volume = {"name": f"claim-{name}", "persistentVolumeClaim": {"claimName": name}}
        _mount(template, volume, path)


def _variables(template: Body, value: str) -> None:
    for each in _lists(value):
        source = {"name": each["secret"], "key": each["key"]}
        variable = {"name": each["env"], "valueFrom": {"secretKeyRef": source}}
        _container(template).setdefault("env", []).append(variable)


def _variable(template: Body, name: str, value: str) -> None:
    """Set a variable of all pods; Flink has one for either role.

    Raises:
        ValueError: It has another value already.
    """
    variable = {"name": name, "value": value}
    known = _container(template).setdefault("env", [])
    if any(each["name"] == name and each != variable for each in known):
        raise ValueError(name)
    if variable not in known:
        known.append(variable)


def _pull_secrets(template: Body, value: str) -> None:
    names = [each.strip() for each in value.split(";") if each.strip()]
    _spec(template)["imagePullSecrets"] = [{"name": name} for name in names]


def _pull_policy(template: Body, value: str) -> None:
    _container(template)["imagePullPolicy"] = value


def _account(template: Body, value: str) -> None:
    _spec(template).setdefault("serviceAccountName", value)


_TRANSLATED: Mapping[str, Callable[[Body, str], None]] = {
    "kubernetes.secrets": _secrets,
    "kubernetes.persistent-volume-claims": _claims,
    "kubernetes.env.secretKeyRef": _variables,
    "kubernetes.container.image.pull-secrets": _pull_secrets,
    "kubernetes.container.image.pull-policy": _pull_policy,
    "kubernetes.service-account": _account,
}
_OF_VARIABLES = ("containerized.master.env.", "containerized.taskmanager.env.")


_OF_A_ROLE = frozenset(
    f"kubernetes.{role}.{name}"
    for role in _ROLES
    for name in ("annotations", "labels", "node-selector", "service-account", "tolerations")
)


def _variable_name(key: str) -> str:
    return next((key.removeprefix(each) for each in _OF_VARIABLES if key.startswith(each)), "")


def _spec(template: Body) -> Body:
    spec: Body = template.setdefault("spec", {})
    return spec


def _container(template: Body) -> Body:
    containers = _spec(template).setdefault("containers", [{"name": CONTAINER}])
    container: Body = containers[0]
    return container


def _mount(template: Body, volume: Body, path: str) -> None:
    _spec(template).setdefault("volumes", []).append(volume)
    mount = {"name": volume["name"], "mountPath": path}
    _container(template).setdefault("volumeMounts", []).append(mount)


def _merge(into: dict[str, str], more: Mapping[str, str]) -> None:
    for name, value in more.items():
        if into.setdefault(name, value) != value:
            raise ValueError(name)


def _pairs(text: str) -> dict[str, str]:
    """Read `a:1,b:2`, which may have text in quotes."""
    found = {}
    for part in _split(text, ","):
        name, colon, value = part.partition(":")
        if not (colon and name.strip()):
            raise ValueError(text)
        found[name.strip().strip("'\"")] = value.strip().strip("'\"")
    return found


def _lists(text: str) -> Iterator[dict[str, str]]:
    """Read `a:1,b:2;a:3,b:4`, and hide that a name may be missing."""
    for part in _split(text, ";"):
        pairs = _pairs(part)
        yield _Required(pairs)


class _Required(dict[str, str]):
    def __missing__(self, name: str) -> str:
        raise ValueError(name)


def _split(text: str, mark: str) -> Iterator[str]:
    """Yield the parts that are not empty; a mark in quotes separates nothing."""
    part, quote = "", ""
    for each in text:
        if each == mark and not quote:
            yield from [part] if part.strip() else []
            part = ""
            continue
        if each in "'\"" and quote in ("", each):
            quote = "" if quote else each
        part += each
    yield from [part] if part.strip() else []


def _toleration(pairs: Mapping[str, str]) -> dict[str, Any]:
    known = ("key", "operator", "value", "effect")
    if not pairs.keys() <= set(known):
        raise ValueError(str(pairs))
    return {name: pairs[name] for name in known if name in pairs}
