"""The status of a StreamApp at the API server: Weir writes it only through this module.

Weir writes two things: occasionally, what people read; and before each step, what the controller
needs to continue after a crash. Both replace the same object: the whole status subresource, on
condition that its resourceVersion has not changed. A merge patch would keep what a map no longer
has (a pool that an operator left), and would not notice other writers.

**Fencing.** The first write of a controller stores its term (see `leader`) in the status. From then
on, a controller of an earlier term that wakes up and writes gets a conflict, reads the other term,
and knows that its time is over. Before each write, the Lease is checked, too.

The clients of Kubernetes and Flink check the same before each request that changes something
(`confirm`), because repairs act without writing first. A controller that takes a StreamApp over
from another installation waits until that one must have noticed (`settle`).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping

from pydantic.types import JsonValue

from weir_operator.api.client import ConflictError, KubernetesApi, NotFoundError
from weir_operator.api.leader import Fence, LeaseLostError
from weir_operator.api.objects import Body, Resource
from weir_operator.cluster.status.ownership import (
    Ownership,
    given_elsewhere,
)
from weir_operator.errors import TemporaryError
from weir_operator.rescale.status import AppStatus, read_status
from weir_operator.streamapp.models import API_VERSION, KIND

CONFIRMED_FOR = 2.0
"""Seconds for which what was read of the status counts: who else writes it is known by then."""
SETTLE = CONFIRMED_FOR + 13.0
"""Seconds after which another installation has noticed that a StreamApp is no longer its own: it
reads the status before it acts, and a request that was under way has come to its end."""
ATTEMPTS = 5
"""Conflicts in a row, each with a look in between, after which a write gives up for now."""

WRITER = "writer"
"""Key under `status.controller` that names the term of the last writer."""
HOME = "home"
"""Key under `status.controller` that names the installation that looks after the StreamApp."""


class StatusClient:
    """Reads and writes one StreamApp's status."""

    def __init__(
        self,
        api: KubernetesApi,
        resource: Resource,
        fence: Fence,
        *,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._resource = resource
        self._fence = fence
        self._on_lost = on_lost
        self._home = Ownership(api, fence.home)
        self._lock = asyncio.Lock()
        self._version = ""
        self._annotations: Mapping[str, str] = {}
        self.status: Mapping[str, JsonValue] = {}
        """The status as this process last read or wrote it."""
        self._term: JsonValue = None  # of the last writer
        self._read_at = -math.inf
        self._settled_at = -math.inf

    async def open(self) -> None:
        """Read the status and put this controller's term into it.

        Raises:
            LeaseLostError: This process does not hold the Lease.
            ManagedElsewhereError: Another installation looks after the StreamApp.
            TemporaryError: The API server does not answer, or the StreamApp is gone.
        """
        async with self._lock:
            await self._fetch()
            await self._check_home()
            controller = _controller(self.status)
            before = controller.get(HOME, self._fence.home)
            claim = {**controller, **self._mark}
            if claim != controller:
                await self._write({"controller": claim}, claiming=True)
            if before != self._fence.home:
                self._settled_at = _now() + SETTLE

    async def settle(self) -> None:
        """Wait until an installation that this StreamApp was taken from must have noticed."""
        await asyncio.sleep(max(0.0, self._settled_at - _now()))

    def note(self, annotations: Mapping[str, str]) -> None:
        """Store the annotations that the watch has shown."""
        self._annotations = annotations

    def check(self) -> None:
        """Return if this controller may act, as far as is known without asking."""
        try:
            self._fence.check()
            given = given_elsewhere(self._annotations, self._fence.home)
            if given:
                raise LeaseLostError(f"{self._resource.key} was given to the controller of {given}")
            if self._term != self._fence.term:
                raise LeaseLostError(
                    f"Another controller has written the status of {self._resource.key}: expected "
                    f"the writer {self._fence.term}, got {self._term}"
                )
        except LeaseLostError:
            self._on_lost()
            raise

    async def confirm(self) -> None:
        """Return if this controller may act, by a status that was read just now.

        Raises:
            LeaseLostError: It may not.
            TemporaryError: The API server does not answer, or the StreamApp is gone.
        """
        self.check()
        if _now() - self._read_at < CONFIRMED_FOR:
            return
        async with self._lock:
            await self._fetch()
        self.check()

    async def write(self, part: Mapping[str, JsonValue]) -> None:
        """Put fields into the status; those that are `None` are taken out of it.

        Raises:
            LeaseLostError: Another controller is the active one.
            TemporaryError: It could not be written; what stands there is unknown.
        """
        async with self._lock:
            await self._write(part, claiming=False)

    async def write_controller(
        self, journal: str | None, controller: Mapping[str, JsonValue]
    ) -> None:
        """Put what the controller itself needs, with its term; see `write`."""
        await self.write({"rescale": journal, "controller": {**controller, **self._mark}})

    async def _write(self, part: Mapping[str, JsonValue], *, claiming: bool) -> None:
        for _ in range(ATTEMPTS):
            if claiming:
                self._fence.check()
            else:
                self.check()
            before = self.status
            merged = {**before, **part}
            wanted = {name: value for name, value in merged.items() if value is not None}
            if wanted == before:
                return
            began = _now()
            try:
                answer = await self._api.replace(f"{self._path}/status", self._body(wanted))
                self._read(answer, began)
            except ConflictError:
                await self._fetch()
                if claiming:
                    await self._check_home()  # two installations may open a new one at once
                continue
            except NotFoundError as error:
                raise TemporaryError(f"StreamApp {self._resource.key} no longer exists") from error
            return
        raise TemporaryError(
            f"The status of {self._resource.key} changed {ATTEMPTS} times while Weir was writing it"
        )

    async def _fetch(self) -> None:
        began = _now()
        try:
            found = await self._api.get(self._path)
        except NotFoundError as error:
            raise TemporaryError(f"StreamApp {self._resource.key} no longer exists") from error
        if found["metadata"]["uid"] != self._resource.uid:
            raise TemporaryError(f"StreamApp {self._resource.key} was deleted and created again")
        self._read(found, began)

    def _read(self, body: Body, began: float) -> None:
        """Store the object as the API server had it after `began`."""
        self._read_at = began
        self._version = body["metadata"]["resourceVersion"]
        status = body.get("status") or {}
        self.status = status
        self._term = _controller(status).get(WRITER)
        self._annotations = body["metadata"].get("annotations") or {}

    @property
    def _mark(self) -> dict[str, JsonValue]:
        return {WRITER: self._fence.term, HOME: self._fence.home}

    async def _check_home(self) -> None:
        await self._home.check(_controller(self.status).get(HOME), self._annotations)

    def _body(self, status: Mapping[str, JsonValue]) -> Body:
        key = self._resource.key
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "uid": self._resource.uid,
                "resourceVersion": self._version,
            },
            # The subresource ignores the spec, but the schema asks for one.
            "spec": self._resource.manifest["spec"],
            "status": dict(status),
        }

    @property
    def _path(self) -> str:
        return self._resource.key.path


def _controller(status: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    kept = status.get("controller")
    return kept if isinstance(kept, dict) else {}


def read_journal(status: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the journal of a status; empty where there is none, or where it is damaged.

    It is written as one line, so that `kubectl describe` stays a page that people read.
    """
    kept = status.get("rescale")
    try:
        journal = json.loads(kept) if isinstance(kept, str) else None
    except ValueError:
        return {}
    return journal if isinstance(journal, dict) else {}


class KubernetesStatusStore:
    """A `StatusStore` in `status.rescale` (the journal) and `status.controller` (all the rest).

    What is loaded comes from memory: it was loaded before, and nobody else writes.
    """

    def __init__(self, writer: StatusClient) -> None:
        """Read what an earlier controller left.

        Raises:
            PermanentError: It is not a status of Weir.
        """
        self._writer = writer
        journal = read_journal(writer.status) or writer.status.get("rescale")
        self._status = read_status(
            {**_controller(writer.status), "rescale": journal},
            place="status.controller",
            remove="remove status.controller and status.rescale to start from scratch",
        )

    def load(self) -> AppStatus:
        """Return the last status saved, or a fresh one."""
        return self._status

    async def save(self, status: AppStatus) -> None:
        """Keep `status`; when this returns, the API server has it.

        Raises:
            LeaseLostError: Another controller is the active one.
            TemporaryError: It could not be written.
        """
        plain = status.model_dump(mode="json")
        journal = plain.pop("rescale", None)
        line = None if journal is None else json.dumps(journal, separators=(",", ":"))
        await self._writer.write_controller(line, plain)
        self._status = status


def _now() -> float:
    return asyncio.get_running_loop().time()
