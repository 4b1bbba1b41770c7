"""What a pod template may not ask for: more than the profile `restricted` grants a pod.

Whoever may write a StreamApp need not be allowed to make pods that take over their node, and Weir
makes the pods in their place. So a template that widens a pod's rights is refused, wherever the
namespace does not refuse it by itself. What narrows them, or merely repeats what Weir sets, passes.

Source: Kubernetes, Pod Security Standards, profile Restricted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pydantic.types import JsonValue

from weir_operator.streamapp.section import Mistake

Path = tuple[str | int, ...]

HOST_FLAGS = ("hostNetwork", "hostPID", "hostIPC")
"""Fields of a pod that share something of its node's."""
CONTAINER_FLAGS = ("privileged", "allowPrivilegeEscalation")
"""Fields of a container's security context that must not be true."""
EXPECTED = "nothing beyond the pod security profile restricted"
REMEDY = "leave it out, Weir's pods take no rights on their node"

_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
        *("persistentVolumeClaim", "projected", "secret"),
    }
)
_CAPABILITIES = frozenset({"NET_BIND_SERVICE"})


def find_widened_rights(spec: Mapping[str, JsonValue], here: Path) -> Iterator[Mistake]:
    """Return what the `spec` of a template asks for beyond the profile; `here` is its path."""
    for flag in HOST_FLAGS:
        if spec.get(flag) is True:
            yield _refused((*here, flag), True)
    yield from _of_context(spec.get("securityContext"), (*here, "securityContext"))
    for path, volume in _items(spec, "volumes", here):
        for kind in volume.keys() - _VOLUMES - {"name"}:
            yield _refused((*path, kind), kind)
    for name in ("containers", "initContainers"):
        for path, container in _items(spec, name, here):
            yield from _of_context(container.get("securityContext"), (*path, "securityContext"))
            for place, port in _items(container, "ports", path):
                if port.get("hostPort"):
                    yield _refused((*place, "hostPort"), port["hostPort"])


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
