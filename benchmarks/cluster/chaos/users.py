"""What people and other workloads do to an installation: upgrades, rights, quotas, policies."""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import dataclass, field
from typing import ClassVar

from benchmarks.cluster.chaos.faults import CLOCK, NODES, Fault, Kill, until, until_drawn_step
from benchmarks.cluster.chaos.world import ChaosWorld, replicas_of, suspended
from benchmarks.cluster.live_app import LiveApp
from benchmarks.cluster.place import IMAGE, is_gone, restricted_pod
from weir_operator.api.client import Body
from weir_operator.clock import wait_until
from weir_operator.errors import TemporaryError
from weir_operator.streamapp.quantities import Cpu

REFUSED = 45.0
"""Seconds for which pods are refused."""
FORBIDDEN = 90.0
"""Seconds without rights: a watch is opened again within 60."""


@dataclass
class EditedMidChange(Fault):
    """A rescale is asked for, and at one of its steps the job's pods are edited."""

    edit: str = ""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Edit at a step that is drawn, or a later one."""
        await until_drawn_step(world, draw, world.ask_for_change)
        self.edit = await world.ask_for_upgrade()
        self.ended = CLOCK.now()

    async def find_trace(self, world: ChaosWorld) -> str:
        """Return whether the last edit is not in force yet."""
        pods = await world.app.pods("jobmanager")
        edits = {pod["metadata"].get("annotations", {}).get("chaos/edit") for pod in pods}
        return "" if edits == {self.edit} else "the edit is not in force"


class AgentImageMissing(EditedMidChange):
    """Weir is upgraded to an agent's image that no node has, and then somebody edits the job."""

    leaves_job = True

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Edit, and wait until an event names the image."""
        image = f"weir:missing-{CLOCK.now():.0f}"
        await world.change_chart(extraArgs=[f"--agent-image={image}"])
        await world.ask_for_upgrade()

        async def told() -> bool:
            events = await find_events(world, world.app)
            return any(image in each["message"] for each in events)

        await until(told, f"an event about {image}")

    async def heal(self, world: ChaosWorld) -> None:
        """Take the upgrade back, and edit again, so that nobody waits for the next try."""
        await world.change_chart(extraArgs=[])
        self.ended = CLOCK.now()
        self.edit = await world.ask_for_upgrade()


@dataclass
class TaskManagerPreempted(Fault):
    """A pod of a higher priority comes, which fits on a TaskManager's node only in its place."""

    leaves_job = True
    priority: ClassVar[str] = "/apis/scheduling.k8s.io/v1/priorityclasses"

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Make the pod, and wait until it has its place."""
        pods = await world.app.pods("taskmanager")
        youngest = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        node = youngest["spec"]["nodeName"]
        cpu = await self._free(world, node) + _cpu(youngest) / 2
        await world.place.api.create(
            self.priority, {"metadata": {"name": "chaos"}, "value": 1000, "globalDefault": False}
        )
        await world.place.api.create(f"{world.core}/pods", self._pod(node, cpu))

        async def placed() -> bool:
            found = await world.place.api.get(f"{world.core}/pods/chaos")
            return bool(found["spec"].get("nodeName"))

        await until(placed, "a TaskManager to be preempted")
        self.ended = CLOCK.now()

    async def heal(self, world: ChaosWorld) -> None:
        await world.place.api.delete(f"{world.core}/pods/chaos", grace=0)
        await world.place.api.delete(f"{self.priority}/chaos")

    async def _free(self, world: ChaosWorld, node: str) -> float:
        """Return the cores of a node that nobody has asked for."""
        has = (await world.place.api.get(f"{NODES}/{node}"))["status"]["allocatable"]["cpu"]
        pods = await world.place.api.list("/api/v1/pods", fields=f"spec.nodeName={node}")
        return Cpu(has).cores - sum(
            _cpu(pod) for pod in pods if pod["status"]["phase"] in ("Pending", "Running")
        )

    def _pod(self, node: str, cpu: float) -> Body:
        """Return a pod that does nothing, under restricted pod security."""
        container = {
            "name": "idle",
            "image": IMAGE,
            "command": ["sleep", "infinity"],
            "resources": {"requests": {"cpu": f"{1000 * cpu:.0f}m"}},
        }
        return restricted_pod("chaos", node, container, priorityClassName="chaos")


@dataclass
class NamespaceForbidden(Fault):
    """Weir loses its rights in another namespace, and is to change the job meanwhile."""

    leaves_job = True
    binding: Body = field(default_factory=dict)

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Delete the RoleBinding for longer than a watch lasts."""
        name = f"{self._bindings(world)}/{world.place.namespace}-weir"
        self.binding = await world.place.api.get(name)
        await world.place.api.delete(name)
        await world.ask_for_change()
        await asyncio.sleep(FORBIDDEN)

    async def heal(self, world: ChaosWorld) -> None:
        """Make it again, and edit the StreamApp there."""
        kept = {key: self.binding["metadata"][key] for key in ("name", "labels", "annotations")}
        made = {"metadata": kept} | {key: self.binding[key] for key in ("roleRef", "subjects")}
        await world.place.api.create(self._bindings(world), made)
        await world.neighbour.change(resetNonce=int(CLOCK.now()))
        self.ended = CLOCK.now()

    async def find_trace(self, world: ChaosWorld) -> str:
        """Return whether Weir has not seen the edit."""
        found = await world.place.api.get(world.neighbour.path)
        seen = found.get("status", {}).get("observedGeneration")
        return "" if seen == found["metadata"]["generation"] else "the other namespace is not seen"

    def _bindings(self, world: ChaosWorld) -> str:
        group = "/apis/rbac.authorization.k8s.io/v1"
        return f"{group}/namespaces/{world.neighbour.namespace}/rolebindings"


class AppInTenthNamespace(Fault):
    """A StreamApp comes in the last of the watched namespaces, and goes."""

    leaves_job = True

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Make it, wait for its status, and delete it."""
        app = LiveApp(world.place.api, world.others[-1], "guest")
        await app.create(suspended(world.place, app))

        async def has_status() -> bool:
            return "conditions" in await app.status()

        await until(has_status, "a status")
        await world.place.api.delete(app.path)
        await until(lambda: is_gone(world.place.api, app.path), "the StreamApp to go")


class DeletedMidChange(Fault):
    """A rescale is asked for, and the StreamApp deleted at one of its steps, and made again."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Have the new one go on from the savepoint that an event names."""
        await until_drawn_step(world, draw, world.ask_for_change)
        before = await world.place.api.get(world.app.path)
        self.ended = CLOCK.now()
        await world.place.api.delete(world.app.path)
        await until(lambda: is_gone(world.place.api, world.app.path), "the StreamApp to go")

        async def find_savepoint() -> str | None:
            for each in await find_events(world, world.app):
                known = each["involvedObject"]["uid"] == before["metadata"]["uid"]
                if known and each["reason"] == "FinalSavepoint":
                    return str(re.findall(r" is in (\S+);", each["message"])[0])
            return None

        path = await wait_until(find_savepoint, clock=CLOCK, timeout=30.0, period=0.5)
        if path is None:
            raise TemporaryError("Expected an event with the last savepoint within 30 s")
        before["spec"]["flink"]["job"]["initialSavepoint"] = path
        kept = {key: before["metadata"][key] for key in ("name", "namespace")}
        identity = {key: before[key] for key in ("apiVersion", "kind")}
        await world.app.create({**identity, "metadata": kept, "spec": before["spec"]})


class QuotaOnLimits(Fault):
    """A quota on limits comes, with room or without, and a rescale is asked for."""

    leaves_job = True

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Wait for the change where there is room for it; else see that it does no harm."""
        quotas, limits = f"{world.core}/resourcequotas", ("limits.cpu", "limits.memory")
        large = {"limits.cpu": "100", "limits.memory": "1Ti"}
        await world.place.api.create(
            quotas, {"metadata": {"name": "chaos"}, "spec": {"hard": large}}
        )

        async def used() -> dict[str, str] | None:
            status: Body = (await world.place.api.get(f"{quotas}/chaos")).get("status", {})
            return status.get("used")

        counted = await wait_until(used, clock=CLOCK, timeout=30.0, period=0.5)
        if counted is None:
            raise TemporaryError("Expected the quota to be counted within 30 s")
        if draw.random() < 0.5:
            hard = {name: counted[name] for name in limits}
            await world.place.api.patch(f"{quotas}/chaos", {"spec": {"hard": hard}})
            await world.ask_for_change()
            await asyncio.sleep(REFUSED)
            return
        wanted = await world.ask_for_change()

        async def done() -> bool:
            return replicas_of(await world.app.status()) == wanted

        await until(done, f"{wanted} replicas under a quota")

    async def heal(self, world: ChaosWorld) -> None:
        await world.place.api.delete(f"{world.core}/resourcequotas/chaos")
        self.ended = CLOCK.now()


class PodsRefused(Kill):
    """An admission policy refuses Weir's or Flink's pods for a while, and one of them is lost."""

    strikes_controller = True
    group: ClassVar[str] = "/apis/admissionregistration.k8s.io/v1"
    kinds: ClassVar[tuple[str, ...]] = (
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    )

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        whose, which = draw.choice(
            (("weir", ""), ("flink", "jobmanager"), ("flink", "taskmanager"))
        )
        await self._refuse(world, whose)
        await asyncio.sleep(5.0)  # the API server looks for new policies now and then
        pods = await (world.app.pods(which) if which else world.controllers())
        await self.kill_one(world, draw.choice(pods), with_pod=True)
        await asyncio.sleep(REFUSED)

    async def heal(self, world: ChaosWorld) -> None:
        for kind in reversed(self.kinds):
            await world.place.api.delete(f"{self.group}/{kind}/chaos")
        self.ended = CLOCK.now()

    async def _refuse(self, world: ChaosWorld, name: str) -> None:
        namespace = {"kubernetes.io/metadata.name": world.place.namespace}
        pods = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
        }
        policy = {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": namespace},
                "objectSelector": {"matchLabels": {"app.kubernetes.io/name": name}},
                "resourceRules": [pods],
            },
            "validations": [{"expression": "false", "message": "no such pods for now"}],
        }
        binding = {"policyName": "chaos", "validationActions": ["Deny"]}
        for kind, spec in zip(self.kinds, (policy, binding), strict=True):
            body = {"metadata": {"name": "chaos"}, "spec": spec}
            await world.place.api.create(f"{self.group}/{kind}", body)


async def find_events(world: ChaosWorld, app: LiveApp) -> tuple[Body, ...]:
    """Return the events of a StreamApp, and of others that had its name."""
    return await world.place.api.list(
        f"{world.core}/events",
        fields=f"involvedObject.kind=StreamApp,involvedObject.name={app.name}",
    )


def _cpu(pod: Body) -> float:
    """Return the cores that a pod asks for."""
    asked = [each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"]]
    return sum(Cpu(each["cpu"]).cores for each in asked if "cpu" in each)
