"""Detects other autoscalers of a job: two autoscalers would undo each other's changes.

Checked regularly: Flink's own (the Flink Kubernetes Operator's autoscaler, as the resource or its
ConfigMap shows it, and the reactive mode of the adaptive scheduler), a HorizontalPodAutoscaler, a
ScaledObject of KEDA, and another StreamApp for the same job. The message names each one with the
way to remove it. In mode Auto, Weir then does not scale; in Advise, it only reports it.

Each namespace is read once for all its StreamApps. If the API server does not answer, the last
result stays. Flink's own autoscalers are looked for in jobs of others alone: no manifest may set
their keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from weir_operator.advise.flink_deployment import AUTOSCALER_KEYS, find_autoscaler
from weir_operator.advise.reference import find_reference
from weir_operator.api.client import KubernetesApi, NotFoundError
from weir_operator.api.objects import Key, Resource
from weir_operator.clock import Clock
from weir_operator.errors import PermanentError, WeirError
from weir_operator.limits import Json
from weir_operator.streamapp.flink import FlinkRef, RefKind
from weir_operator.streamapp.models import Mode, StreamApp

Workload = tuple[str, str]
"""Kind and name of an object that a scaler may point at."""

_REACTIVE = ("scheduler-mode", "reactive")
_HPA = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"
_SCALED_OBJECT = "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects"


def refuse_scaling(mode: Mode, found: Collection[str]) -> str:
    """Return why Weir must not scale: the others that do; empty if none do, or not in mode Auto."""
    return "; ".join(sorted(found)) if mode is Mode.AUTO else ""


def _foreign_workloads(ref: FlinkRef) -> tuple[Workload, ...]:
    """Return what a scaler of the job that `flink.ref` names may point at."""
    if ref.kind is RefKind.DEPLOYMENT:
        return (("Deployment", ref.name),)
    is_pair = ref.kind is RefKind.FLINK_BLUE_GREEN_DEPLOYMENT
    names = (f"{ref.name}-blue", f"{ref.name}-green") if is_pair else (ref.name,)
    # In standalone mode the operator runs the TaskManagers as a Deployment of their own.
    return tuple(
        workload
        for name in names
        for workload in (
            ("FlinkDeployment", name),
            ("Deployment", name),
            ("Deployment", f"{name}-taskmanager"),
        )
    )


def _of_flink(ref: FlinkRef, given: Mapping[str, str], at_work: str) -> Iterator[str]:
    """Yield Flink's own autoscalers, by the keys of `ref` and by what shows one at work."""
    field = "spec.flinkConfiguration"
    if ref.kind is RefKind.FLINK_BLUE_GREEN_DEPLOYMENT:
        field = f"spec.template.{field}"
    enabled = [key for key in AUTOSCALER_KEYS if given.get(key, "").strip().lower() == "true"]
    if at_work and not enabled:
        yield at_work
    for key in enabled:
        yield (
            f"Flink's own autoscaler scales the job: {field} of {ref.kind} {ref.name} has {key}: "
            "true; set it to false, or delete the StreamApp"
        )
    key, value = _REACTIVE
    if given.get(key, "").strip().lower() == value:
        yield (
            f"Flink's reactive mode scales the job: {field} of {ref.kind} {ref.name} has {key}: "
            f"{value}; remove it, or delete the StreamApp"
        )


def _of_kubernetes(workloads: Collection[Workload], scalers: _Scalers) -> Iterator[str]:
    for scaled in scalers.keda:
        # KEDA takes a target without a kind for a Deployment.
        target = _target(scaled, kind="Deployment")
        if target in workloads:
            name = scaled["metadata"]["name"]
            yield (
                f"ScaledObject {name} of KEDA scales {' '.join(target)} of the job; delete it, or "
                "delete the StreamApp"
            )
    for scaler in scalers.horizontal:
        owners = scaler["metadata"].get("ownerReferences") or ()
        if any(owner["kind"] == "ScaledObject" for owner in owners):
            continue  # KEDA's own, told above
        target = _target(scaler, kind="")
        if target in workloads:
            name = scaler["metadata"]["name"]
            yield (
                f"HorizontalPodAutoscaler {name} scales {' '.join(target)} of the job; delete it, "
                "or delete the StreamApp"
            )


def _target(scaler: Json, *, kind: str) -> Workload:
    target = scaler["spec"]["scaleTargetRef"]
    return str(target.get("kind") or kind), str(target["name"])


log = structlog.get_logger()

LOOK_EVERY = 120.0
"""Seconds between two looks."""

_REPLICA_SETS = "/apis/apps/v1/namespaces/{}/replicasets"


@dataclass(slots=True)
class _Scalers:
    """What scales something in a namespace, as it was read last."""

    horizontal: Sequence[Json] = ()
    """HorizontalPodAutoscalers."""
    keda: Sequence[Json] = ()
    """ScaledObjects of KEDA."""
    at: float = float("-inf")
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class AutoscalerConflicts:
    """Finds the other autoscalers of StreamApps' jobs."""

    def __init__(self, api: KubernetesApi, *, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._scalers: dict[str, _Scalers] = {}
        self._references: dict[Key, Mapping[str, str]] = {}

    def note(self, resource: Resource) -> None:
        """Remember which job a StreamApp refers to, if any."""
        reference = (resource.spec.get("flink") or {}).get("ref")
        if reference is None:
            self.forget(resource.key)
        else:
            self._references[resource.key] = dict(reference)

    def forget(self, key: Key) -> None:
        """Forget a StreamApp that is gone."""
        self._references.pop(key, None)

    async def find(self, app: StreamApp) -> tuple[str, ...]:
        """Return what else scales the job of `app`, a sentence each.

        Raises:
            TemporaryError: The API server did not answer.
            PermanentError: It refused, or the job that `flink.ref` names is not there.
        """
        scalers = await self._scalers_of(app.metadata.namespace)
        ref, at_work = app.spec.flink.ref, ""
        if ref is None:
            if not scalers.horizontal and not scalers.keda:
                return ()
            return tuple(_of_kubernetes(await self._own_workloads(app), scalers))
        reference = await find_reference(self._api, app)
        if reference.deployment is not None:
            at_work = await find_autoscaler(self._api, reference.deployment, now=self._clock.now())
        return (
            *_of_flink(ref, reference.configuration, at_work),
            *_of_kubernetes(_foreign_workloads(ref), scalers),
            *self._of_weir(app),
        )

    def _of_weir(self, app: StreamApp) -> Iterator[str]:
        own = Key(app.metadata.namespace, app.metadata.name)
        mine = self._references.get(own)
        for key, reference in sorted(self._references.items()):
            if key != own and key.namespace == own.namespace and reference == mine:
                job = f"{reference['kind']} {reference['name']}"
                yield f"StreamApp {key.name} refers to the same {job}; delete one of them"

    async def watch(self, app: StreamApp, on_found: Callable[[tuple[str, ...]], None]) -> None:
        """Check for ever, and pass each result to `on_found`."""
        while True:
            try:
                on_found(await self.find(app))
            except WeirError as error:
                log.info("other autoscalers not looked for", reason=str(error))
            await self._clock.sleep(LOOK_EVERY)

    async def _scalers_of(self, namespace: str) -> _Scalers:
        seen = self._scalers.setdefault(namespace, _Scalers())
        async with seen.reading:
            now = self._clock.monotonic()
            if now - seen.at >= LOOK_EVERY / 2:
                seen.horizontal = await self._list(_HPA.format(namespace))
                seen.keda = await self._list(_SCALED_OBJECT.format(namespace))
                seen.at = now
            return seen

    async def _list(self, path: str) -> Sequence[Json]:
        """Return the objects of a kind; none if the cluster lacks it, or Weir may not read it."""
        try:
            return await self._api.list(path)
        except NotFoundError:
            return ()
        except PermanentError as error:
            log.info("autoscalers not read", path=path, reason=str(error))
            return ()

    async def _own_workloads(self, app: StreamApp) -> set[Workload]:
        name = app.metadata.name
        found = await self._api.list(
            _REPLICA_SETS.format(app.metadata.namespace),
            labels=f"app.kubernetes.io/managed-by=weir,weir.dev/app={name}",
        )
        return {("ReplicaSet", str(each["metadata"]["name"])) for each in found}
