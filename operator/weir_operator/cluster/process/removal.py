"""Stops an installation's controllers before Helm removes it, and waits for their end.

Helm deletes the Deployment and the roles in one pass. A controller that has stopped a job for a
change could then not start it again: its requests would be refused. So the chart's hook stops the
controllers first, while they have their rights, and a controller that ends finishes such a change
(`app.task`).
"""

from __future__ import annotations

import structlog

from weir_operator.api.client import KubernetesApi, NotFoundError
from weir_operator.clock import Clock
from weir_operator.errors import TemporaryError

log = structlog.get_logger()

LOOK_EVERY = 1.0
"""Seconds between two looks at the pods."""


async def stop_controllers(
    api: KubernetesApi, *, namespace: str, deployment: str, limit: float, clock: Clock
) -> None:
    """Scale the controllers' Deployment to 0 and wait until its pods are gone.

    A Deployment that is not there has nothing to stop.

    Args:
        api: The API server, for an account that may do this.
        namespace: Of the Deployment.
        deployment: Its name.
        limit: Seconds to wait for the pods.
        clock: Measures them.

    Raises:
        TemporaryError: A pod is still there after that time, or the API server does not answer.
        PermanentError: The API server refuses.
    """
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}"
    try:
        found = await api.get(path)
        await api.patch(f"{path}/scale", {"spec": {"replicas": 0}})
    except NotFoundError:
        log.info("no controller to stop", deployment=f"{namespace}/{deployment}")
        return
    labels = ",".join(
        f"{key}={value}" for key, value in found["spec"]["selector"]["matchLabels"].items()
    )
    until = clock.monotonic() + limit
    while pods := await api.list(f"/api/v1/namespaces/{namespace}/pods", labels):
        if clock.monotonic() >= until:
            names = ", ".join(pod["metadata"]["name"] for pod in pods)
            raise TemporaryError(
                f"Expected the controllers of {namespace}/{deployment} to end within {limit:g} s, "
                f"still there: {names}; uninstall with --no-hooks to go on without them"
            )
        await clock.sleep(LOOK_EVERY)
    log.info("controllers stopped", deployment=f"{namespace}/{deployment}")
