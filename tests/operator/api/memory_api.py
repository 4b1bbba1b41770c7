"""An API server in memory, for tests: it has versions of objects, and can fail on request."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Sequence
from typing import Any

from weir_operator.api.client import MERGE_PATCH, ConflictError, KubernetesApi, NotFoundError
from weir_operator.api.objects import Body
from weir_operator.errors import TemporaryError
from weir_operator.fence import Guard


class MemoryApi(KubernetesApi):
    """Objects by path, each with a resourceVersion that moves with every change."""

    def __init__(self) -> None:
        self.objects: dict[str, Body] = {}
        self.calls: list[tuple[str, str]] = []
        """(verb, path) of every call."""
        self.away = False
        """Whether it does not answer."""
        self._version = 0

    async def get(self, path: str) -> Body:
        self._call("get", path)
        return copy.deepcopy(self._find(path))

    async def list(self, path: str, labels: str = "", fields: str = "") -> tuple[Body, ...]:
        """Return the objects below `path`; selectors are not obeyed."""
        self._call("list", path)
        return tuple(
            copy.deepcopy(body) for at, body in self.objects.items() if at.startswith(path)
        )

    async def pages(
        self, path: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[Body]]:
        for each in await self.list(path, labels, fields):
            yield [each]

    async def create(self, path: str, body: Body) -> Body:
        self._call("create", path)
        place = f"{path}/{body['metadata']['name']}"
        if place in self.objects:
            raise ConflictError(f"{place} is there already")
        return self.put(place, body)

    async def replace(self, path: str, body: Body) -> Body:
        """Replace an object, or its status, if its version still stands."""
        self._call("replace", path)
        place = path.removesuffix("/status")
        found = self._find(place)
        if body["metadata"].get("resourceVersion") != found["metadata"]["resourceVersion"]:
            raise ConflictError(f"{place} has changed")
        if path.endswith("/status"):
            return self.put(place, {**found, "status": body["status"]})
        return self.put(place, body)

    async def patch(
        self, path: str, body: Body | Sequence[Body], content_type: str = MERGE_PATCH
    ) -> Body:
        assert isinstance(body, dict), "only merge patches are known here"
        self._call("patch", path)
        place = path.removesuffix("/status")
        return self.put(place, _merged(self._find(place), body))

    async def apply(
        self, path: str, body: Body, manager: str = "", *, force: bool = True, dry_run: bool = False
    ) -> Body:
        """Merge into an object; who owns a field is not known."""
        return await self.patch(path, body)

    def guarded(self, guard: Guard) -> Any:
        """Return it for one who is asked before each change."""
        return GuardedMemoryApi(self, guard)

    async def close(self) -> None:
        """Nothing is held."""

    def put(self, path: str, body: Body) -> Body:
        """Store an object as somebody else would, and return it as stored."""
        self._version += 1
        stored = copy.deepcopy(body)
        stored["metadata"]["resourceVersion"] = str(self._version)
        stored["metadata"].setdefault("uid", f"uid-{self._version}")
        self.objects[path] = stored
        return copy.deepcopy(stored)

    def count(self, verb: str) -> int:
        return sum(each == verb for each, _ in self.calls)

    def _call(self, verb: str, path: str) -> None:
        self.calls.append((verb, path))
        if self.away:
            raise TemporaryError("The API server cannot be reached")

    def _find(self, path: str) -> Body:
        if path not in self.objects:
            raise NotFoundError(f"There is no {path}")
        return self.objects[path]


READING = ("get", "list", "pages", "close", "put", "count")
"""Asks nobody; `put` and `count` are the test's."""


class GuardedMemoryApi:
    """A `MemoryApi` for one who is asked before each change."""

    def __init__(self, api: MemoryApi, guard: Guard) -> None:
        self._api = api
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._api, name)
        if name in READING or name in vars(self._api):
            return found

        async def change(*arguments: Any, **named: Any) -> Body:
            await self._guard()
            made: Body = await found(*arguments, **named)
            return made

        return change

    def guarded(self, guard: Guard) -> Any:
        """Return it for one who is asked as well."""

        async def both() -> None:
            await self._guard()
            await guard()

        return GuardedMemoryApi(self._api, both)


def _merged(body: Body, part: Body) -> Body:
    """Return a merge patch applied, RFC 7386."""
    result = dict(body)
    for key, value in part.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            before = result.get(key)
            result[key] = _merged(before if isinstance(before, dict) else {}, value)
        else:
            result[key] = value
    return result
