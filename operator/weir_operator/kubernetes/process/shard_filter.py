"""Keeps the StreamApps of other shards from kopf.

kopf's own filters (`when=`) are not enough: where no handler applies to an object, kopf removes the
finalizer that it finds there, and with it another shard's promise of a final savepoint. So kopf
must not see such an object at all. It has no option for this; `ShardSettings` and `watch_shard` add
one to the function from which it gets all events. The rest of an event of another shard costs
nothing: no task, no memory.

Other StreamApps are still read for one purpose: which job they refer to, because two StreamApps for
one job are a conflict whatever shards they are in.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

import kopf
from kopf._cogs.clients import watching
from kopf._cogs.structs.bodies import RawEvent

from weir_operator.kubernetes.api.objects import Key, Resource
from weir_operator.kubernetes.app.autoscaler_conflicts import AutoscalerConflicts


class ShardFilter:
    """Decides which StreamApps are a controller's."""

    def __init__(self, owns: Callable[[Key], bool], conflicts: AutoscalerConflicts) -> None:
        """Create the filter.

        Args:
            owns: Whether a StreamApp is in the controller's shard.
            conflicts: Gets to know all others.
        """
        self._owns = owns
        self._conflicts = conflicts

    def admits(self, resource: Resource, *, gone: bool = False) -> bool:
        """Return whether the controller is to handle a StreamApp, or the canary.

        Args:
            resource: The object, as a watch or a list shows it.
            gone: Whether it has been deleted.
        """
        if self._owns(resource.key) or resource.is_canary:
            return True
        if gone:
            self._conflicts.forget(resource.key)
        else:
            self._conflicts.note(resource)
        return False

    def admits_event(self, event: RawEvent) -> bool:
        """Return the same for an event of a watch."""
        return self.admits(Resource.of(event["object"]), gone=event["type"] == "DELETED")

    def note_all(self, keys: Collection[Key]) -> None:
        """Process which StreamApps there are: the watch may not have shown the end of others."""
        self._conflicts.keep(keys)


@dataclass
class ShardSettings(kopf.OperatorSettings):
    """kopf's settings, with a filter of what its handlers get to see."""

    admits_event: Callable[[RawEvent], bool] = lambda _: True


_watch_all = watching.infinite_watch


async def watch_shard(
    *, settings: kopf.OperatorSettings, **arguments: Any
) -> AsyncGenerator[watching.Bookmark | RawEvent, None]:
    """Do what kopf's `infinite_watch` does, without the events that the settings do not admit.

    Nor with the status and the fields' managers, most of an object: no handler reads them, and kopf
    keeps and copies objects whole.
    """
    events = cast(
        AsyncGenerator[watching.Bookmark | RawEvent, None],
        _watch_all(settings=settings, **arguments),
    )
    async with aclosing(events):
        async for event in events:
            if (
                isinstance(settings, ShardSettings)
                and not isinstance(event, watching.Bookmark)
                and event["type"] != "BOOKMARK"
            ):
                if not settings.admits_event(event):
                    continue
                body = cast(dict[str, Any], event["object"])
                body.pop("status", None)
                body["metadata"].pop("managedFields", None)
            yield event


watching.infinite_watch = watch_shard
