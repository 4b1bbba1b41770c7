"""Detects other autoscalers of a job: two autoscalers would undo each other's changes.

Checked regularly: Flink's own (the Flink Kubernetes Operator's autoscaler, as the resource or its
ConfigMap shows it, and the reactive mode of the adaptive scheduler), a HorizontalPodAutoscaler, a
ScaledObject of KEDA, and another StreamApp for the same job. The message names each one with the
way to remove it. In mode Auto, Weir then does not scale; in Advise, it only reports it.

Each namespace is read once for all its StreamApps. If the API server does not answer, the last
result stays. `find_other_autoscalers` is pure; `read_scalers` reads the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

import structlog

from weir_operator.advise.flink_deployment import AUTOSCALER_KEYS, find_autoscaler
from weir_operator.advise.reference import find_reference
from weir_operator.api.client import KubernetesApi, NotFoundError
from weir_operator.api.objects import Key, Resource
from weir_operator.clock import Clock
from weir_operator.errors import PermanentError, WeirError
from weir_operator.limits import Json
from weir_operator.streamapp.flink import RefKind
from weir_operator.streamapp.models import Mode, StreamApp

Workload = tuple[str, str]
"""Kind and name of an object that a scaler may point at."""

_REACTIVE = ("scheduler-mode", "reactive")
_HPA = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"
_SCALED_OBJECT = "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scalers:
    """The objects of a namespace that scale something."""

    horizontal: tuple[Json, ...] = ()
    """HorizontalPodAutoscalers."""
    scaled_objects: tuple[Json, ...] = ()
    """Of KEDA."""


async def read_scalers(api: KubernetesApi, namespace: str) -> Scalers:
    """Return what scales something in a namespace.

    A kind that the cluster lacks, or that Weir may not read, has none.

    Raises:
        TemporaryError: The API server did not answer.
    """
    found: list[tuple[Json, ...]] = []
    for path in (_HPA, _SCALED_OBJECT):
        try:
            found.append(await api.list(path.format(namespace)))
        except NotFoundError:
            found.append(())
        except PermanentError as error:
            log.info("autoscalers not read", namespace=namespace, reason=str(error))
            found.append(())
    return Scalers(horizontal=found[0], scaled_objects=found[1])


def find_other_autoscalers(
    app: StreamApp,
    *,
    workloads: Collection[Workload],
    scalers: Scalers,
    others: Collection[str] = (),
    configuration: Mapping[str, str] | None = None,
    at_work: str = "",
) -> tuple[str, ...]:
    """Return a sentence on everything else that scales the job of a StreamApp, and how to end it.

    Args:
        app: The StreamApp.
        workloads: Objects whose replicas are the job's, see `foreign_workloads`.
        scalers: Of the app's namespace.
        others: Names of other StreamApps of the namespace that refer to the same job.
        configuration: Flink's, of the resource that `flink.ref` names; `None` is the app's own.
        at_work: A sentence where Flink's autoscaler works, whatever the configuration says.
    """
    return (
        *_of_flink(app, configuration, at_work),
        *_of_kubernetes(workloads, scalers),
        *_of_weir(app, others),
    )


def refuse_scaling(mode: Mode, found: Collection[str]) -> str:
    """Return why Weir must not scale: the others that do; empty if none do, or not in mode Auto."""
    return "; ".join(sorted(found)) if mode is Mode.AUTO else ""


def foreign_workloads(app: StreamApp) -> tuple[Workload, ...]:
    """Return what a scaler of the job that `flink.ref` names may point at; none without a ref."""
    ref = app.spec.flink.ref
    if ref is None:
        return ()
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


def _of_flink(
    app: StreamApp, configuration: Mapping[str, str] | None, at_work: str
) -> Iterator[str]:
    ref = app.spec.flink.ref
    kind, name = ("StreamApp", app.metadata.name) if ref is None else (ref.kind, ref.name)
    field = "spec.flink.config" if ref is None else "spec.flinkConfiguration"
    if ref is not None and ref.kind is RefKind.FLINK_BLUE_GREEN_DEPLOYMENT:
        field = f"spec.template.{field}"
    given = (app.spec.flink.config or {}) if configuration is None else configuration
    enabled = [key for key in AUTOSCALER_KEYS if given.get(key, "").strip().lower() == "true"]
    if at_work and not enabled:
        yield at_work
    for key in enabled:
        yield (
            f"Flink's own autoscaler scales the job: {field} of {kind} {name} has {key}: "
            "true; set it to false, or delete the StreamApp"
        )
    key, value = _REACTIVE
    if given.get(key, "").strip().lower() == value:
        yield (
            f"Flink's reactive mode scales the job: {field} of {kind} {name} has {key}: {value}; "
            "remove it, or delete the StreamApp"
        )


def _of_kubernetes(workloads: Collection[Workload], scalers: Scalers) -> Iterator[str]:
    for scaled in scalers.scaled_objects:
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


def _of_weir(app: StreamApp, others: Collection[str]) -> Iterator[str]:
    ref = app.spec.flink.ref
    if ref is None:
        return
    for name in sorted(others):
        yield f"StreamApp {name} refers to the same {ref.kind} {ref.name}; delete one of them"


def _target(scaler: Json, *, kind: str) -> Workload:
    target = scaler["spec"]["scaleTargetRef"]
    return str(target.get("kind") or kind), str(target["name"])


log = structlog.get_logger()

LOOK_EVERY = 120.0
"""Seconds between two looks."""

_REPLICA_SETS = "/apis/apps/v1/namespaces/{}/replicasets"


@dataclass(slots=True)
class _Seen:
    """What scales something in a namespace, as it was read last."""

    scalers: Scalers = field(default_factory=Scalers)
    at: float = float("-inf")
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class AutoscalerConflicts:
    """Finds the other autoscalers of StreamApps' jobs."""

    def __init__(self, api: KubernetesApi, *, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
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
        configuration, at_work = None, ""
        workloads = set(foreign_workloads(app))
        if app.spec.flink.ref is not None:
            reference = await find_reference(self._api, app)
            configuration = reference.configuration
            if reference.deployment is not None:
                at_work = await find_autoscaler(
                    self._api, reference.deployment, now=self._clock.now()
                )
        elif scalers.horizontal or scalers.scaled_objects:
            workloads = await self._own_workloads(app)
        return find_other_autoscalers(
            app,
            workloads=workloads,
            scalers=scalers,
            others=self._twins(app),
            configuration=configuration,
            at_work=at_work,
        )

    def _twins(self, app: StreamApp) -> set[str]:
        own = Key(app.metadata.namespace, app.metadata.name)
        mine = self._references.get(own)
        return {
            key.name
            for key, reference in self._references.items()
            if mine is not None
            and key != own
            and key.namespace == own.namespace
            and reference == mine
        }

    async def watch(self, app: StreamApp, on_found: Callable[[tuple[str, ...]], None]) -> None:
        """Check for ever, and pass each result to `on_found`."""
        while True:
            try:
                on_found(await self.find(app))
            except WeirError as error:
                log.info("other autoscalers not looked for", reason=str(error))
            await self._clock.sleep(LOOK_EVERY)

    async def _scalers_of(self, namespace: str) -> Scalers:
        seen = self._seen.setdefault(namespace, _Seen())
        async with seen.reading:
            now = self._clock.monotonic()
            if now - seen.at >= LOOK_EVERY / 2:
                seen.scalers, seen.at = await read_scalers(self._api, namespace), now
            return seen.scalers

    async def _own_workloads(self, app: StreamApp) -> set[tuple[str, str]]:
        name = app.metadata.name
        found = await self._api.list(
            _REPLICA_SETS.format(app.metadata.namespace),
            labels=f"app.kubernetes.io/managed-by=weir,weir.dev/app={name}",
        )
        return {("ReplicaSet", str(each["metadata"]["name"])) for each in found}
