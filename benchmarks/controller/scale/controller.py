"""The controller's process of `scale`: Weir's own, but for the addresses of JobManagers.

A Service's address leads nowhere on a machine without a cluster network, so each is taken for a
folder of the one server that answers for all JobManagers (`world.py`). Everything else is what
`weir controller` runs.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from weir_operator.cluster.process.logs import send_logs
from weir_operator.cluster.process.running import run_on_cluster
from weir_operator.cluster.process.settings import ControllerSettings, PrometheusAccess
from weir_operator.runtime.pods import job_manager


def main(world: str, prometheus: str, state: str, port: int) -> None:
    """Run the controller until it is told to end."""

    def url(address: str, port: int, path: str = "") -> str:
        return f"{world}/flink/{address}{path}"

    setattr(job_manager, "url", url)  # noqa: B010  (a name that it only imports)
    send_logs(as_json=True)
    asyncio.run(
        run_on_cluster(
            ControllerSettings(
                identity="scale",
                own_namespace="weir",
                state=Path(state),
                prometheus=PrometheusAccess(url=prometheus),
                health_port=port,
                health_host="127.0.0.1",
            )
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
