"""The edges of a job out of Flink's plan of it, where its REST interface can be reached."""

from __future__ import annotations

from weir_operator.errors import PermanentError
from weir_operator.flink.rest import FlinkRest
from weir_simulator.bill.topology import Edges


async def read_edges(url: str, *, job: str) -> Edges:
    """Return the edges between the ids of the job's vertices.

    Args:
        url: Of Flink's REST interface.
        job: Name or id of the job; empty where there is one.

    Raises:
        PermanentError: There is no such job, or several.
        TemporaryError: Flink does not answer.
    """
    async with FlinkRest(url) as flink:
        jobs = [each for each in await flink.jobs() if not each.state.is_over]
        found = [each for each in jobs if job in ("", each.name, each.id)]
        details = await flink.job(found[0].id) if len(found) == 1 else None
    if details is None:
        listed = ", ".join(f"{each.name} ({each.id})" for each in jobs) or "none that runs"
        raise PermanentError(
            f"--flink: expected one running job {job!r}, got {listed}; correct the address, or "
            "leave --flink out"
        )
    return Edges(pairs=tuple((edge.source, edge.target) for edge in details.edges))
