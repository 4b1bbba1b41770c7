"""Tunings as Kubernetes Jobs, with their own image, which has torch.

    Job, suspended -> ConfigMap with the request, owned by the Job -> Job, resumed -> its pod's log

The request is in a ConfigMap and the answer in the log, so the pod needs no volume that it shares
with the controller, no permissions, and no access to the API server. The Job is named after the
tuning: a controller that finds a Job of its predecessor waits for its answer. What is left goes
with the Job, which Kubernetes removes a while after its end. The template of the Job is a file that
the chart mounts.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from weir_operator.api.client import ConflictError, KubernetesApi, NotFoundError
from weir_operator.clock import Clock
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.limits import TUNING_LOG
from weir_operator.tuning.protocol import (
    REFUSED,
    TuningLostError,
    TuningRefusedError,
    pack_request,
    read_answer,
    read_frames,
)
from weir_simulator.tuning.order import TuningRequest, TuningResult

Body = dict[str, Any]
"""An object of the API server as plain JSON values."""

CONTAINER = "tuner"
"""Name of the template's container that does the work."""
WORK_FOLDER = "/etc/weir/work"
LARGEST_WORK = 900_000
"""Bytes of a packed work; a ConfigMap holds 1 MiB of text, and base64 takes a third."""
LOOK_EVERY = 5.0
"""Seconds between two checks of a Job."""
KEPT_FOR = 3600
"""Seconds that Kubernetes keeps a Job that has ended, for people who look for its log."""
_DIGEST = "weir.dev/work"
_APP = "weir.dev/streamapp"


class JobTuner:
    """Makes the tunings of one StreamApp as Jobs."""

    def __init__(
        self,
        api: KubernetesApi,
        template: Mapping[str, Any],
        *,
        namespace: str,
        app: str,
        deadline: float,
        clock: Clock,
    ) -> None:
        """Create the tuner.

        Args:
            api: Where.
            template: A Job without a name, whose pod has a container `tuner` with the image.
            namespace: Of the Jobs.
            app: `namespace/name` of the StreamApp.
            deadline: Seconds, the wait for a node included, after which a Job is ended.
            clock: The time.
        """
        self._api = api
        self._template = template
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._app = app
        self.deadline = deadline
        self._clock = clock

    async def tune(self, request: TuningRequest, *, name: str) -> TuningResult:
        """Return the result of the request; see `Tuner`."""
        packed = await asyncio.to_thread(pack_request, request)
        if len(packed) * 4 / 3 > LARGEST_WORK:
            raise TuningRefusedError(
                f"Expected input of at most {LARGEST_WORK} bytes in a ConfigMap, got "
                f"{len(packed) * 4 // 3}; fit to fewer days"
            )
        # All StreamApps' Jobs are in this namespace: with a shorter or weaker digest, a user could
        # choose a name whose Job is that of another StreamApp.
        app = hashlib.sha256(self._app.encode()).hexdigest()[:16]
        full = f"weir-tuning-{app}-{name}"
        path = f"{self._jobs}/{full}"
        digest = hashlib.sha256(packed).hexdigest()[:32]
        try:
            job = await self._create(full, digest)
        except NotFoundError as error:
            raise TuningLostError(f"The Job of the tuning no longer exists: {error}") from error
        try:
            await self._begin(job, full, packed, digest)
            pod = await self._follow(path, full)
            log = await self._api.read_log(
                f"{self._pods}/{pod}", container=CONTAINER, most=TUNING_LOG
            )
            answer = await asyncio.to_thread(lambda: read_answer(read_frames(log)))
        except NotFoundError as error:
            raise TuningLostError(f"The Job of the tuning no longer exists: {error}") from error
        except (asyncio.CancelledError, TuningLostError, TuningRefusedError):
            # Not to be found by the next attempt, which would read the same again.
            await self._api.delete(path)
            raise
        await self._api.delete(path)
        return answer

    async def _create(self, full: str, digest: str) -> Body:
        """Create the Job, or find that of the StreamApp; one of somebody else is left alone."""
        try:
            job = await self._api.create(self._jobs, self._job(full, digest))
        except ConflictError:
            job = await self._api.get(f"{self._jobs}/{full}")
        annotations = job["metadata"].get("annotations", {})
        if annotations.get(_APP) != self._app:
            raise TemporaryError(
                f"Expected the Job {full} to be of {self._app}, got one of "
                f"{annotations.get(_APP) or 'nobody'}; delete it"
            )
        return job

    async def _begin(self, job: Body, full: str, packed: bytes, digest: str) -> None:
        if job["metadata"]["annotations"].get(_DIGEST) != digest:
            raise TuningLostError(
                f"Expected the Job {full} to have this tuning's input, got another's"
            )
        if not job["spec"].get("suspend"):
            return  # a controller before this one let it go
        work: Body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": full,
                "labels": job["metadata"].get("labels", {}),
                "ownerReferences": [
                    {
                        "apiVersion": "batch/v1",
                        "kind": "Job",
                        "name": full,
                        "uid": job["metadata"]["uid"],
                    }
                ],
            },
            "binaryData": {"work.json.gz": base64.b64encode(packed).decode("ascii")},
        }
        try:
            await self._api.create(self._maps, work)
        except ConflictError:
            # Of this Job, or of one before it under the same name, with other work.
            await self._api.patch(
                f"{self._maps}/{full}",
                {
                    "metadata": {"ownerReferences": work["metadata"]["ownerReferences"]},
                    "binaryData": work["binaryData"],
                },
            )
        await self._api.patch(f"{self._jobs}/{full}", {"spec": {"suspend": False}})

    async def _follow(self, path: str, full: str) -> str:
        """Return the name of the pod that did the work, once it is done."""
        ends = self._clock.monotonic() + self.deadline + 60.0  # Kubernetes ends it before
        while True:
            try:
                job = await self._api.get(path)
            except TemporaryError:
                job = {}  # the Job goes on without being looked at
            for condition in job.get("status", {}).get("conditions", ()):
                if condition["status"] != "True":
                    continue
                if condition["type"] == "Complete":
                    return await self._find_pod(full, job)
                if condition["type"] == "Failed":
                    raise await self._failure(full, job, condition)
            if self._clock.monotonic() > ends:
                raise TuningLostError(f"Expected the Job {full} to end in time, got no end")
            await self._clock.sleep(LOOK_EVERY)

    async def _find_pod(self, full: str, job: Body) -> str:
        pods = await self._pods_of(job)
        done = [pod for pod in pods if pod.get("status", {}).get("phase") == "Succeeded"]
        if not done:
            raise TuningLostError(f"Expected a completed pod of the Job {full}, found none")
        return str(done[0]["metadata"]["name"])

    async def _failure(
        self, full: str, job: Body, condition: Body
    ) -> TuningLostError | TuningRefusedError:
        for pod in await self._pods_of(job):
            for status in pod.get("status", {}).get("containerStatuses", ()):
                ended = status.get("state", {}).get("terminated") or {}
                said = str(ended.get("message") or "").strip().splitlines()
                if ended.get("exitCode") == REFUSED and said:
                    return TuningRefusedError(said[-1])
        why = f"{condition.get('reason', 'Failed')}: {condition.get('message', '')}"
        return TuningLostError(f"The Job {full} failed ({why})")

    async def _pods_of(self, job: Body) -> tuple[Body, ...]:
        # By its uid: pods of an earlier Job of the same name may still be on their way out.
        uid = job["metadata"]["uid"]
        return await self._api.list(self._pods, labels=f"batch.kubernetes.io/controller-uid={uid}")

    def _job(self, full: str, digest: str) -> Body:
        job: Body = copy.deepcopy(dict(self._template))
        job |= {"apiVersion": "batch/v1", "kind": "Job"}
        meta = job.setdefault("metadata", {})
        meta["name"] = full
        meta["annotations"] = meta.get("annotations", {}) | {_DIGEST: digest, _APP: self._app}
        spec = job["spec"]
        spec |= {
            "suspend": True,
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(self.deadline),
            "ttlSecondsAfterFinished": KEPT_FOR,
        }
        pod = spec["template"]["spec"]
        pod["volumes"] = [
            *pod.get("volumes", ()),
            {"name": "weir-work", "configMap": {"name": full}},
        ]
        container = next(each for each in pod["containers"] if each["name"] == CONTAINER)
        container["args"] = [
            *container.get("args", ()),
            f"{WORK_FOLDER}/work.json.gz",
            "/tmp/tuning",
            "--print",
        ]
        container["volumeMounts"] = [
            *container.get("volumeMounts", ()),
            {"name": "weir-work", "mountPath": WORK_FOLDER, "readOnly": True},
        ]
        return job


def read_job(path: Path) -> dict[str, Any]:
    """Return a Job without a name.

    Raises:
        PermanentError: The file cannot be read, or holds no Job with a container `tuner`.
    """
    try:
        template = yaml.safe_load(path.read_text(encoding="utf-8"))
        containers = template["spec"]["template"]["spec"]["containers"]
        names = [container["name"] for container in containers]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError) as error:
        raise PermanentError(
            f"--tuner-job: expected a Job in {path}, got {type(error).__name__} "
            f"({error}); mount the Job that the chart creates"
        ) from error
    if CONTAINER not in names:
        raise PermanentError(
            f"--tuner-job: expected a container {CONTAINER!r} in {path}, got {names}; rename it"
        )
    return dict(template)
