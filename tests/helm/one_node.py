"""A node of which only its kubelet's work for Spark's executors is there.

The API server of the tests has no nodes. This looks for executors' pods, runs the image's entry
point for each with the environment that its pod has, as a process of this machine, tells the API
server that the pod runs, and ends the process when the pod is gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.api.client import Kube

ENTRY_POINT = Path(__file__).parents[2] / "scripts/start-pipelines"
ADDRESS = "127.0.0.1"


class OneNode:
    """Runs executors while the block runs.

    Args:
        kube: The API server and the namespace.
        folder: Where the executors work and write their logs.
    """

    def __init__(self, kube: Kube, folder: Path) -> None:
        self._pods = f"/api/v1/namespaces/{kube.namespace}/pods"
        self._kube = kube
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.seen: list[dict[str, Any]] = []
        """Every pod that was started, as the API server had it."""

    def __enter__(self) -> OneNode:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for name in list(self._running):
            self._end(name)

    async def executors(self) -> list[dict[str, Any]]:
        """Return the executors' pods that there are."""
        answer = await self._kube.get(f"{self._pods}?labelSelector=spark-role%3Dexecutor")
        found: list[dict[str, Any]] = answer.body["items"]
        return found

    async def look(self) -> None:
        pods = {each["metadata"]["name"]: each for each in await self.executors()}
        for name in self._running.keys() - pods.keys():
            self._end(name)
        started = {each["metadata"]["name"] for each in self.seen}
        for name in pods.keys() - started:
            await self._start(name, pods[name])

    async def _start(self, name: str, pod: dict[str, Any]) -> None:
        self.seen.append(pod)
        [container] = pod["spec"]["containers"]
        own = {"metadata.name": name, "status.podIP": ADDRESS}
        environment = {
            each["name"]: own[each["valueFrom"]["fieldRef"]["fieldPath"]]
            if "valueFrom" in each
            else each.get("value", "")
            for each in container["env"]
        }
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with self.log(name).open("wb") as log:
            self._running[name] = subprocess.Popen(
                ["sh", str(ENTRY_POINT), *container["args"]],
                env={"PATH": programs} | environment,
                cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        await self.tell_that_it_runs(name)

    async def tell_that_it_runs(self, name: str) -> None:
        """Say of a pod that it runs and is ready."""
        status = {
            "phase": "Running",
            "podIP": ADDRESS,
            "podIPs": [{"ip": ADDRESS}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        said = await self._kube.merge(f"{self._pods}/{name}/status", {"status": status})
        assert said.status == 200, said.message

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _end(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()
