"""Lists objects once for all StreamApps of a namespace, as at the start of a controller.

Eight objects surround the JobManager of each StreamApp, and mostly they are as they should be. One
list per kind tells so for all of a namespace's, where each would be read by itself.

A list serves for `FRESH_FOR` and only to leave alone what it shows to be right: whoever finds
something missing or wrong in it reads the object itself before anything is changed. What somebody
changes after the list is overlooked, just as what is changed after a read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from weir_operator.kubernetes.api.objects import Body, ClusterReader
from weir_operator.runtime.kubernetes.pods import MANAGED_BY

FRESH_FOR = 5.0
"""Seconds for which a list serves; then it is dropped."""


@dataclass(slots=True)
class _Listed:
    """A collection as it was listed last."""

    by_name: Mapping[str, Body] = field(default_factory=dict)
    at: float = float("-inf")
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class SharedLists:
    """Finds objects of Weir's in lists; shared by all StreamApps."""

    def __init__(self, api: ClusterReader) -> None:
        """Begin with nothing listed."""
        self._api = api
        self._listed: dict[str, _Listed] = {}

    async def find(self, collection: str, name: str) -> Body | None:
        """Return an object as it was in the last seconds; `None` where it was not there.

        Raises:
            TemporaryError: The API server does not answer.
            PermanentError: It refuses.
        """
        listed = self._listed.setdefault(collection, _Listed())
        async with listed.reading:
            loop = asyncio.get_running_loop()
            began = loop.time()
            if began - listed.at >= FRESH_FOR:
                found = await self._api.list(collection, labels=f"{MANAGED_BY}=weir")
                by_name = {str(each["metadata"]["name"]): each for each in found}
                listed.by_name, listed.at = by_name, began
                loop.call_later(FRESH_FOR, by_name.clear)
            return listed.by_name.get(name)
