"""Ends what is paid for and nothing runs on."""

from __future__ import annotations

from weir_operator.runtime.seam import Runtime


async def release_replicas(runtime: Runtime) -> None:
    """End all TaskManagers of a job that needs none any more.

    Raises:
        TemporaryError: One was not told to end, or Flink does not forget it.
    """
    alive = await runtime.replicas()
    if alive:
        await runtime.stop([replica.id for replica in alive])
