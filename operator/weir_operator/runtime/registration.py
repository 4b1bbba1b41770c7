"""Checks whether started TaskManagers have joined the cluster, with the right pin."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from weir_operator.errors import TemporaryError
from weir_operator.flink.options import read_duration
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink_keys import add_own_names

FORGOTTEN_WITHIN = 60.0
"""Seconds until Flink has forgotten a TaskManager that ended: 0.5 if it said goodbye, some 3 if its
address refuses heartbeats. If a pod's address does not answer, it takes `heartbeat.timeout`,
by default 50 s; a change that gives up before would be rolled back for nothing."""
_BEYOND_HEARTBEATS = 10.0
"""Seconds that Flink may take beyond a `heartbeat.timeout` of the user's."""
_POLL = 0.02
"""Seconds between two questions; while they are asked, no record leaves the job."""


async def registered(rest: FlinkRest, operators: Mapping[str, str]) -> frozenset[str]:
    """Return which TaskManagers are registered and advertise their operator's resource.

    Whether the slot is still free is not asked: a job that waits takes it at once.
    """
    return frozenset(
        each.id
        for each in await rest.task_managers()
        if each.id in operators
        and each.slots > 0
        and each.extended_resources.get(f"op-{operators[each.id]}", 0.0) >= 1.0
    )


def forgotten_within(config: Mapping[str, str]) -> float:
    """Return how many seconds Flink may take to forget a lost TaskManager, as configured."""
    heartbeats = read_duration(add_own_names(config).get("heartbeat.timeout", "")) or 0.0
    return max(FORGOTTEN_WITHIN, heartbeats + _BEYOND_HEARTBEATS)


async def wait_unregistered(rest: FlinkRest, ids: Collection[str], *, timeout: float) -> None:
    """Wait until Flink has forgotten these TaskManagers.

    A JobManager that does not answer has no TaskManagers: after its next start, it begins empty.

    Raises:
        TemporaryError: It still lists one of them after the time.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        try:
            known = {each.id for each in await rest.task_managers()}
        except TemporaryError:
            return
        left = sorted(known & set(ids))
        if not left:
            return
        if loop.time() >= deadline:
            raise TemporaryError(
                f"Flink still lists TaskManagers {left}, which ended {timeout:g} s ago"
            )
        await asyncio.sleep(_POLL)
