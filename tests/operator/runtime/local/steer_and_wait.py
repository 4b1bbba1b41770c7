"""Steer a StreamApp until killed: started by a test as a process of its own.

Arguments: the settings, pickled and in hexadecimal. Prints the ids that it started.
"""

import asyncio
import pickle
import sys

from weir_operator.runtime.local.runtime import LocalRuntime
from weir_operator.runtime.protocol import ReplicaSpec


async def steer() -> None:
    """Start a JobManager and two TaskManagers, and wait to be killed."""
    runtime = await LocalRuntime.open(pickle.loads(bytes.fromhex(sys.argv[1])))
    await runtime.ensure_job_manager()
    ids = await runtime.start(
        [
            ReplicaSpec(operator="numbers", pool="small", size="250m"),
            ReplicaSpec(operator="work", pool="large", size="1"),
        ]
    )
    print(*ids, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(steer())
