"""Which of its pods a ReplicaSet deletes when it shrinks.

Kubernetes deletes pods that do not run first, then those that are not ready, and only then goes by
the annotation `controller.kubernetes.io/pod-deletion-cost`. So a mark does not protect a pod that
has just restarted: whoever shrinks a ReplicaSet waits, or checks what was deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from weir_operator.kubernetes.api.client import Body, ConflictError, NotFoundError
from weir_operator.runtime.kubernetes.objects import AppObjects

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
FIRST_TO_GO = "-2147483647"
LIKE_ANY = "0"


async def mark_first_to_go(
    objects: AppObjects, members: Iterable[Body], chosen: Collection[str]
) -> None:
    """Mark only the chosen pods (by name) of a ReplicaSet as the first to delete.

    Marks of earlier changes, which may have been withdrawn, are taken off the others.
    """
    members = tuple(members)
    if all(pod["metadata"]["name"] in chosen for pod in members):
        return  # there is nothing to choose
    for pod in members:
        name = pod["metadata"]["name"]
        cost = FIRST_TO_GO if name in chosen else LIKE_ANY
        annotations = pod["metadata"].get("annotations") or {}
        if annotations.get(DELETION_COST, LIKE_ANY) == cost:
            continue
        # It may have gone by itself, or change while it goes.
        with suppress(NotFoundError, ConflictError):
            await objects.api.patch(
                objects.path("Pod", name), {"metadata": {"annotations": {DELETION_COST: cost}}}
            )
